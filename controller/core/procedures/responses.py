"""What brokers answer and what their channels report (KB 3.11)."""

from controller.core.controller import Controller
from controller.core.events import BrokerAnswered, ChannelFault

_STALE_CONTROLLER_EPOCH = 11
_STALE_BROKER_EPOCH = 77
_EXPECTED = (_STALE_CONTROLLER_EPOCH, _STALE_BROKER_EPOCH)


def process_broker_answer(controller: Controller, answer: BrokerAnswered) -> None:
    """An error of a whole request is told; nothing is sent again because of it (KB 12.1.3)."""
    if answer.error == 0 or not controller.is_active:
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
    controller.notice(level, f"channel_{fault.kind}", f"broker {fault.broker}", fault.text)
