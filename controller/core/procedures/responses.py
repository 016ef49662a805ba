"""What brokers answer and what their channels report (KB 3.11)."""

from controller.core.controller import Controller
from controller.core.error_codes import (
    KAFKA_STORAGE_ERROR,
    STALE_BROKER_EPOCH,
    STALE_CONTROLLER_EPOCH,
)
from controller.core.events import BrokerAnswered, ChannelFault
from controller.core.triggers import LeaderAndIsrResponseReceived

_EXPECTED = (STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH)


def process_broker_answer(controller: Controller, answer: BrokerAnswered) -> None:
    """An error of a whole request is told; nothing is sent again because of it (KB 12.1.3).

    An answer to LeaderAndIsr is a controller event where it says something of log directories.
    """
    context = controller.context
    asked = context.in_flight.pop(answer.command, None)
    if not controller.is_active:
        return
    if answer.error == 0:
        failed = any(code == KAFKA_STORAGE_ERROR for _, _, code in answer.partition_errors)
        if asked is not None and (failed or answer.broker in context.offline_dirs):
            names = [(one.topic, one.partition) for one in asked.partitions]
            controller.enqueue(LeaderAndIsrResponseReceived(answer, names))
        return
    level = "info" if answer.error in _EXPECTED else "warning"
    controller.notice(
        level,
        "broker_error",
        f"broker {answer.broker}",
        f"answered a control request with error code {answer.error}",
    )


def process_channel_fault(controller: Controller, fault: ChannelFault) -> None:
    """A channel's trouble, or its end, in the operator's words."""
    level = {"recovered": "info", "unreachable": "warning"}.get(fault.kind, "error")
    text = fault.text or "answers again"
    controller.notice(level, f"channel_{fault.kind}", f"broker {fault.broker}", text)
