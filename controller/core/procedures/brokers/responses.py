"""Responses of brokers, and the reports of their channels (KB 3.11)."""

from controller.core.commands import LeaderAndIsrRequest, StopReplicaRequest
from controller.core.controller import Controller
from controller.core.error_codes import (
    KAFKA_STORAGE_ERROR,
    STALE_BROKER_EPOCH,
    STALE_CONTROLLER_EPOCH,
)
from controller.core.events import BrokerResponded, ChannelFault, VersionsOffered
from controller.core.procedures.brokers.registration_checks import suspect_unreachable
from controller.core.procedures.reassignment.replica_deletion import (
    confirm_deletions,
    note_responses,
)
from controller.core.releases import release_of
from controller.core.triggers import (
    LeaderAndIsrResponseReceived,
    TopicDeletionStopReplicaResponseReceived,
)

_EXPECTED = (STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH)


def process_broker_response(controller: Controller, response: BrokerResponded) -> None:
    """Report an error of a whole request; nothing is sent again because of it (KB 12.1.3).

    Two kinds are queued as controller events: LeaderAndIsr responses that concern log directories,
    and StopReplica responses for replicas of topics that are being deleted.
    """
    asked = controller.context.in_flight.pop(response.command, None)
    # Most responses confirm UpdateMetadata, and nothing follows from them.
    if not controller.is_active or (asked is None and not response.error):
        return
    if isinstance(asked, StopReplicaRequest):
        _note_stop_replica(controller, response, asked)
        confirm_deletions(controller, response, asked)
    if response.error:
        _report_error(controller, response)
    elif isinstance(asked, LeaderAndIsrRequest):
        _note_leader_and_isr(controller, response, asked)
        note_responses(controller, response, asked)


def _note_leader_and_isr(
    controller: Controller, response: BrokerResponded, request: LeaderAndIsrRequest
) -> None:
    failed = any(code == KAFKA_STORAGE_ERROR for _, _, code in response.partition_errors)
    if failed or response.broker in controller.context.offline_dirs:
        names = [(one.topic, one.partition) for one in request.partitions]
        controller.enqueue(LeaderAndIsrResponseReceived(response, names))


def _note_stop_replica(
    controller: Controller, response: BrokerResponded, request: StopReplicaRequest
) -> None:
    """With an error of the whole request, only the partitions that it lists count (KB 12.3.4)."""
    listed = {(topic, number) for topic, number, _ in response.partition_errors}
    names = [
        (one.topic, one.partition)
        for one in request.partitions
        if one.delete
        and one.topic in controller.context.deletion_started
        and (not response.error or (one.topic, one.partition) in listed)
    ]
    if names:
        epoch = controller.context.epoch
        controller.enqueue(TopicDeletionStopReplicaResponseReceived(response, names, epoch))


def _report_error(controller: Controller, response: BrokerResponded) -> None:
    level = "info" if response.error in _EXPECTED else "warning"
    controller.notice(
        level,
        "broker_error",
        f"broker {response.broker}",
        f"broker {response.broker} answered a control request with error code {response.error}",
    )


def process_versions_offered(controller: Controller, offered: VersionsOffered) -> None:
    """Note the release of a broker, for as long as its channel is open."""
    context = controller.context
    if context.channels.get(offered.broker) == offered.broker_epoch:
        context.releases[offered.broker] = release_of(offered.highest)


def process_channel_fault(controller: Controller, fault: ChannelFault) -> None:
    """Report the trouble of a channel, or its end."""
    level = {"recovered": "info", "unreachable": "warning"}.get(fault.kind, "error")
    text = fault.text or f"broker {fault.broker} answers again"
    suspect_unreachable(controller, fault)
    controller.notice(level, f"channel_{fault.kind}", f"broker {fault.broker}", text)
