"""AlterPartition: a leader proposes another ISR (processAlterPartition, KB 11.2)."""

from controller.core import error_codes
from controller.core.api_requests.alter_partition import (
    AlteredPartition,
    AlterPartitionReceived,
    AlterPartitionResponse,
    ProposedState,
)
from controller.core.commands import Choice, Reason
from controller.core.controller import Controller
from controller.core.deviations import ISR_BY_LEADER
from controller.core.operations import BAD_VERSION, OK
from controller.core.procedures.elections.leadership import write_states
from controller.core.state import ControllerContext, Partition, Topic, sorted_partitions
from controller.core.values import RECOVERED, RECOVERING, LeaderAndIsr

_RULE = AlterPartitionReceived.RULE
_FIRST_BY_TOPIC_ID = 2

Verdicts = dict[Partition, int]
"""The error code of each partition that is not written; NONE if its state is as proposed already.
"""


async def process_alter_partition(
    controller: Controller, request: AlterPartitionReceived
) -> list[Partition]:
    """Validate every partition, write the accepted ones, send metadata to all brokers, answer.

    Returns the partitions whose state is as proposed: a reassignment may have waited for it.
    """
    error = _error_of_request(controller, request)
    if error:
        controller.issue(AlterPartitionResponse(request.request, error), Reason(_RULE))
        return []
    named = [
        _topic_and_partition(controller.context, request.version, one) for one in request.partitions
    ]
    proposals = _proposals(controller, request, named)
    verdicts = _judge_all(controller, request, proposals)
    await _write(controller, proposals, verdicts)
    batch = controller.new_batch(_RULE)
    batch.add_update_metadata(controller.context.brokers, proposals)
    controller.send(batch)
    answers = [
        _altered(request.version, topic, partition, one, verdicts)
        for (topic, partition), one in zip(named, request.partitions, strict=True)
    ]
    controller.issue(
        AlterPartitionResponse(request.request, error_codes.NONE, _by_topic(answers)), Reason(_RULE)
    )
    return [one for one in proposals if verdicts[one] == error_codes.NONE]


def accepted_partitions(
    controller: Controller, request: AlterPartitionReceived
) -> set[tuple[str, int]]:
    """The partitions whose state a request would write; changes nothing."""
    if not controller.is_active or _error_of_request(controller, request):
        return set()
    named = [
        _topic_and_partition(controller.context, request.version, one) for one in request.partitions
    ]
    proposals = _proposals(controller, request, named)
    verdicts = _judge_all(controller, request, proposals)
    return {partition.key for partition in proposals if partition not in verdicts}


def _proposals(
    controller: Controller,
    request: AlterPartitionReceived,
    named: list[tuple[Topic | None, Partition | None]],
) -> dict[Partition, LeaderAndIsr]:
    """The proposed states in the order of the partitions. Of a partition that is named twice, the
    last one counts."""
    proposed = {
        partition: one
        for (_, partition), one in zip(named, request.partitions, strict=True)
        if partition is not None
    }
    epoch = controller.context.epoch
    return {
        partition: _proposal(request.broker, proposed[partition], epoch)
        for partition in sorted_partitions(proposed)
    }


def _judge_all(
    controller: Controller,
    request: AlterPartitionReceived,
    proposals: dict[Partition, LeaderAndIsr],
) -> Verdicts:
    return {
        partition: verdict
        for partition, proposed in proposals.items()
        if (verdict := judge(controller, partition, proposed, request.version)) is not None
    }


def _error_of_request(controller: Controller, request: AlterPartitionReceived) -> int:
    """The error code of the request as a whole; 0 if it is valid."""
    broker = controller.context.brokers.get(request.broker)
    if broker is None or broker.epoch != request.broker_epoch:
        return error_codes.STALE_BROKER_EPOCH
    if any(
        _has_unknown_recovery_state(controller.context, request.version, one)
        for one in request.partitions
    ):
        return error_codes.UNKNOWN_SERVER_ERROR
    return error_codes.NONE


def _has_unknown_recovery_state(
    context: ControllerContext, version: int, one: ProposedState
) -> bool:
    """Whether the recovery state is unknown. Kafka does not check it for an unknown topic id."""
    if one.recovery_state in (RECOVERED, RECOVERING):
        return False
    return version < _FIRST_BY_TOPIC_ID or _topic_named(context, version, one) is not None


def _topic_named(context: ControllerContext, version: int, one: ProposedState) -> Topic | None:
    """The topic of a proposal: by id from version 2 on."""
    if version >= _FIRST_BY_TOPIC_ID:
        return context.topics_by_id.get(bytes.fromhex(one.topic))
    return context.topics.get(one.topic)


def _topic_and_partition(
    context: ControllerContext, version: int, one: ProposedState
) -> tuple[Topic | None, Partition | None]:
    """The topic and the partition of a proposal; None if unknown."""
    topic = _topic_named(context, version, one)
    return topic, topic.partitions.get(one.partition) if topic is not None else None


def _proposal(broker: int, one: ProposedState, epoch: int) -> LeaderAndIsr:
    """The proposed state; its leader is the broker that asks (KB 11.2 step 4)."""
    return LeaderAndIsr(
        broker, one.leader_epoch, one.isr, one.partition_epoch, epoch, one.recovery_state
    )


def judge(
    controller: Controller, partition: Partition, proposed: LeaderAndIsr, version: int
) -> int | None:
    """The error of Kafka's first check that fails; None: the proposal is to be written."""
    current = partition.leadership
    if current is None:
        return error_codes.UNKNOWN_TOPIC_OR_PARTITION
    if (
        proposed.partition_epoch > current.partition_epoch
        or proposed.leader_epoch > current.leader_epoch
    ):
        # The leader has seen a newer controller, which it should look for.
        return error_codes.NOT_CONTROLLER
    if proposed.leader_epoch < current.leader_epoch:
        return error_codes.FENCED_LEADER_EPOCH
    by_leader = ISR_BY_LEADER.applies(controller.configuration)
    if by_leader and proposed.leader != current.leader:
        controller.observer.deviates(ISR_BY_LEADER, repr(partition))
        return error_codes.INVALID_REQUEST
    if (
        proposed.leader == current.leader
        and proposed.isr == current.isr
        and proposed.recovery_state == current.recovery_state
    ):
        return error_codes.NONE
    if proposed.partition_epoch < current.partition_epoch:
        return error_codes.INVALID_UPDATE_VERSION
    if by_leader and not _is_valid(partition, proposed):
        controller.observer.deviates(ISR_BY_LEADER, repr(partition))
        return error_codes.INVALID_REQUEST
    if proposed.recovery_state == RECOVERING and len(proposed.isr) > 1:
        return error_codes.INVALID_REQUEST
    if current.recovery_state == RECOVERED and proposed.recovery_state == RECOVERING:
        return error_codes.INVALID_REQUEST
    live = controller.context.live_brokers
    if any(member not in live for member in proposed.isr):
        by_id = version >= _FIRST_BY_TOPIC_ID
        return error_codes.INELIGIBLE_REPLICA if by_id else error_codes.OPERATION_NOT_ATTEMPTED
    return None


def _is_valid(partition: Partition, proposed: LeaderAndIsr) -> bool:
    """Whether the ISR contains the leader and only replicas, each once."""
    members = dict.fromkeys(proposed.isr)
    is_of_replicas = all(one in partition.replicas for one in members)
    return is_of_replicas and proposed.leader in members and len(members) == len(proposed.isr)


async def _write(
    controller: Controller, proposals: dict[Partition, LeaderAndIsr], verdicts: Verdicts
) -> None:
    """Write the accepted proposals; adds the verdicts of ZooKeeper (KB 11.2 step 6)."""
    accepted = [
        (partition, state) for partition, state in proposals.items() if partition not in verdicts
    ]
    choices = tuple(
        Choice(one.topic.name, one.number, state.leader, "ISR that the leader asked for")
        for one, state in accepted
    )
    for partition, written, error in await write_states(
        controller, accepted, Reason(_RULE, choices)
    ):
        if error == OK:
            partition.leadership = written
            if not controller.context.is_queued(partition):
                partition.check_balance()
            verdicts[partition] = error_codes.NONE
        elif error == BAD_VERSION:
            verdicts[partition] = error_codes.INVALID_UPDATE_VERSION
        else:
            verdicts[partition] = error_codes.UNKNOWN_SERVER_ERROR


def _altered(
    version: int,
    topic: Topic | None,
    partition: Partition | None,
    one: ProposedState,
    verdicts: Verdicts,
) -> AlteredPartition:
    by_id = version >= _FIRST_BY_TOPIC_ID
    name = "" if by_id else one.topic
    topic_id = bytes.fromhex(one.topic) if by_id else None
    if topic is None and by_id:
        return AlteredPartition(name, topic_id, one.partition, error_codes.UNKNOWN_TOPIC_ID)
    if partition is None or partition.leadership is None:
        error = error_codes.UNKNOWN_TOPIC_OR_PARTITION
        return AlteredPartition(name, topic_id, one.partition, error)
    error = verdicts[partition]
    if error:
        return AlteredPartition(name, topic_id, one.partition, error)
    state = partition.leadership
    return AlteredPartition(
        name,
        topic_id,
        one.partition,
        error_codes.NONE,
        state.leader,
        state.leader_epoch,
        state.isr,
        state.recovery_state,
        state.partition_epoch,
    )


def _by_topic(answers: list[AlteredPartition]) -> tuple[AlteredPartition, ...]:
    """The responses grouped by topic, topics in the order of the request.

    A partition that is named twice is answered once, unless its topic id is unknown.
    """
    groups: dict[tuple[str, bytes | None], dict[int, AlteredPartition]] = {}
    for place, one in enumerate(answers):
        key = place if one.error == error_codes.UNKNOWN_TOPIC_ID else one.partition
        groups.setdefault((one.topic, one.topic_id), {})[key] = one
    return tuple(one for group in groups.values() for one in group.values())
