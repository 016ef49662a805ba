"""Valid and invalid requests to a controller, and the topics that they need.

Brokers 11, 12 and 13 are stubs that are only registered, so that no other broker writes states.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from controller.core import znodes
from controller.core.operations import Create, SetData, WriteOperation
from controller.core.values import ANY_VERSION, Assignment, LeaderAndIsr
from controller.core.znodes import TopicContent
from tests.controller.api.client import request_schema
from tests.controller.api_keys import ALTER_PARTITION, CONTROLLED_SHUTDOWN

STUBS = (11, 12, 13)
STOCK = 1
UNKNOWN_BROKER = 99
LEADER, FOLLOWER, OUT_OF_SYNC = STUBS

LEADER_EPOCH = 5
PARTITION_EPOCH = 2
ISR = (LEADER, FOLLOWER)
RECOVERING = 1
ALTER_PARTITION_VERSIONS = (0, 1, 2, 3)
FIRST_BY_TOPIC_ID = 2
FIRST_WITH_RECOVERY_STATE = 1
FIRST_WITH_ISR_EPOCHS = 3


@dataclass(frozen=True)
class State:
    """The state that a leader requests for one partition; by default its present state."""

    isr: tuple[int, ...] = ISR
    leader_epoch: int = LEADER_EPOCH
    partition_epoch: int = PARTITION_EPOCH
    recovery: int = 0
    is_known: bool = True
    """Whether the topic has the partition."""


@dataclass(frozen=True)
class AlterCase:
    """An AlterPartition; no other case uses the partitions of its states."""

    what: str
    states: tuple[State, ...] = (State(),)
    sender: int = LEADER
    epoch: Callable[[int], int] = lambda registered: registered
    topic_is_known: bool = True
    recovering: bool = False
    """Whether the leader of the partition is recovering and the only replica in sync."""
    first_version: int = 0
    times: int = 1
    """How often the request is sent; the last response is used."""
    one_partition: bool = False
    """Whether all states are for the same partition."""


def _single_state(**fields: Any) -> tuple[State, ...]:
    return (State(**fields),)


_SHRINK = (LEADER,)
_GROW = (*ISR, OUT_OF_SYNC)
_WITH_RECOVERY = FIRST_WITH_RECOVERY_STATE

ALTER_CASES = (
    AlterCase("the ISR grows", _single_state(isr=_GROW)),
    AlterCase("the ISR shrinks", _single_state(isr=_SHRINK)),
    AlterCase("the same change again", _single_state(isr=_SHRINK), times=2),
    AlterCase("the present state"),
    AlterCase("the present state, older partition epoch", _single_state(partition_epoch=1)),
    AlterCase("the ISR in another order", _single_state(isr=(FOLLOWER, LEADER))),
    AlterCase("an older partition epoch", _single_state(isr=_SHRINK, partition_epoch=1)),
    AlterCase("partition epoch -1", _single_state(isr=_SHRINK, partition_epoch=-1)),
    AlterCase("a newer partition epoch", _single_state(isr=_SHRINK, partition_epoch=3)),
    AlterCase("an older leader epoch", _single_state(isr=_SHRINK, leader_epoch=4)),
    AlterCase("a newer leader epoch", _single_state(isr=_SHRINK, leader_epoch=6)),
    AlterCase(
        "an older leader epoch, a newer partition epoch",
        _single_state(isr=_SHRINK, leader_epoch=4, partition_epoch=3),
    ),
    AlterCase("a member that is not alive", _single_state(isr=(*ISR, UNKNOWN_BROKER))),
    AlterCase("a live member that is not a replica", _single_state(isr=(*ISR, STOCK))),
    AlterCase("an ISR without the leader", _single_state(isr=(FOLLOWER,))),
    AlterCase("an empty ISR", _single_state(isr=())),
    AlterCase("a duplicate member", _single_state(isr=(*ISR, FOLLOWER))),
    AlterCase("sent by a follower", sender=FOLLOWER),
    AlterCase("sent by a broker without a replica", _single_state(isr=_SHRINK), sender=STOCK),
    AlterCase("an unknown topic", topic_is_known=False),
    AlterCase("an unknown partition", _single_state(is_known=False)),
    AlterCase("a lower broker epoch", epoch=lambda registered: registered - 1),
    AlterCase("a higher broker epoch", epoch=lambda registered: registered + 1),
    AlterCase("broker epoch -1", epoch=lambda registered: -1),
    AlterCase("an unknown broker", sender=UNKNOWN_BROKER),
    AlterCase("no partitions", ()),
    AlterCase("one good and two bad", (State(_GROW), State(leader_epoch=4), State(is_known=False))),
    AlterCase(
        "a duplicate partition", (State(_SHRINK), State((*ISR, OUT_OF_SYNC))), one_partition=True
    ),
    AlterCase(
        "a duplicate partition of an unknown topic",
        (State(), State()),
        topic_is_known=False,
        one_partition=True,
    ),
    AlterCase(
        "recovering with two members", _single_state(recovery=1), first_version=_WITH_RECOVERY
    ),
    AlterCase(
        "a recovered leader recovers again",
        _single_state(isr=_SHRINK, recovery=1),
        first_version=_WITH_RECOVERY,
    ),
    AlterCase("an unknown recovery state", _single_state(recovery=7), first_version=_WITH_RECOVERY),
    AlterCase(
        "still recovering",
        _single_state(isr=_SHRINK, recovery=1),
        recovering=True,
        first_version=_WITH_RECOVERY,
    ),
    AlterCase("recovered", _single_state(isr=_SHRINK), recovering=True),
    AlterCase("recovered, and the ISR grows", _single_state(), recovering=True),
    AlterCase(
        "recovering, and the ISR grows",
        _single_state(recovery=1),
        recovering=True,
        first_version=_WITH_RECOVERY,
    ),
)
SHUTTING_DOWN_CASE = AlterCase("a member that is shutting down", _single_state(isr=_GROW))
"""This request is sent after the controlled shutdown of OUT_OF_SYNC was requested."""

ALL_CASES = (*ALTER_CASES, SHUTTING_DOWN_CASE)


def topic_of(version: int) -> str:
    """Each version has a separate topic, so that every case begins with the same state."""
    return f"version-{version}"


def topic_id_of(version: int) -> UUID:
    return UUID(int=0x1000_0000_0000 + version)


def partitions_of(case: AlterCase) -> tuple[int, ...]:
    """The partitions of a case: one for each state, or one for all."""
    first = 4 * ALL_CASES.index(case)
    return tuple(
        (first + (0 if case.one_partition else place)) if state.is_known else 9000 + first
        for place, state in enumerate(case.states)
    )


PARENTS = tuple(map(Create, ("/brokers", znodes.BROKER_IDS, znodes.TOPICS)))
"""The writes before the first broker registers."""


def population() -> Iterator[WriteOperation]:
    """The writes of topics and states. The stub brokers have registered: the state of a leader that
    registers later would be changed at a failover (restarts-seen-at-failover)."""
    recovering = {number for case in ALL_CASES if case.recovering for number in partitions_of(case)}
    numbers = sorted(number for case in ALL_CASES for number in partitions_of(case))
    known = [number for number in dict.fromkeys(numbers) if number < 9000]
    for version in ALTER_PARTITION_VERSIONS:
        topic = topic_of(version)
        assignments = {number: Assignment(STUBS) for number in known}
        content = TopicContent(assignments, topic_id_of(version).bytes)
        yield Create(znodes.topic_path(topic), znodes.write_topic(content))
        yield Create(znodes.partitions_path(topic))
        for number in known:
            state = LeaderAndIsr(LEADER, LEADER_EPOCH, ISR, 0, 0)
            if number in recovering:
                state = LeaderAndIsr(LEADER, LEADER_EPOCH, (LEADER,), 0, 0, RECOVERING)
            path, data = znodes.state_path(topic, number), znodes.write_state(state)
            yield Create(znodes.partition_path(topic, number))
            yield Create(path, data)
            # Each write increases the partition epoch by one.
            yield from (SetData(path, data, ANY_VERSION) for _ in range(PARTITION_EPOCH))


def alter_partition(case: AlterCase, version: int, epochs: Mapping[int, int]) -> Any:
    """The request of a case; `epochs` has each broker's registered epoch."""
    schema = request_schema(ALTER_PARTITION, version)
    states = tuple(
        _partition_data(schema, version, number, state)
        for number, state in zip(partitions_of(case), case.states, strict=True)
    )
    named: dict[str, Any] = {"topic_name": topic_of(version) if case.topic_is_known else "nowhere"}
    if version >= FIRST_BY_TOPIC_ID:
        named = {"topic_id": topic_id_of(version if case.topic_is_known else 77)}
    topics = (schema.TopicData(partitions=states, **named),) if states else ()
    return schema.AlterPartitionRequest(
        broker_id=case.sender,
        broker_epoch=case.epoch(epochs.get(case.sender, 1)),
        topics=topics,
    )


def _partition_data(schema: Any, version: int, number: int, state: State) -> Any:
    fields: dict[str, Any] = {"new_isr": state.isr}
    if version >= FIRST_WITH_ISR_EPOCHS:
        members = (schema.BrokerState(broker_id=one, broker_epoch=-1) for one in state.isr)
        fields = {"new_isr_with_epochs": tuple(members)}
    if version >= FIRST_WITH_RECOVERY_STATE:
        fields["leader_recovery_state"] = state.recovery
    return schema.PartitionData(
        partition_index=number,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        **fields,
    )


@dataclass(frozen=True)
class EpochCase:
    """A request that contains only a broker and its epoch."""

    what: str
    broker: int
    epoch: Callable[[int], int] = lambda registered: registered
    version: int = 0


PRODUCER_ID_CASES = (
    EpochCase("the first block", LEADER),
    EpochCase("the next block", FOLLOWER),
    EpochCase("a lower broker epoch", LEADER, lambda registered: registered - 1),
    EpochCase("a higher broker epoch", LEADER, lambda registered: registered + 1),
    EpochCase("broker epoch -1", LEADER, lambda registered: -1),
    EpochCase("an unknown broker", UNKNOWN_BROKER),
)

_REFUSED_SHUTDOWNS = (
    EpochCase("a lower broker epoch", LEADER, lambda registered: registered - 1),
    EpochCase("an unknown broker", UNKNOWN_BROKER),
    EpochCase("an unknown broker, epoch -1", UNKNOWN_BROKER, lambda registered: -1),
)
REFUSED_SHUTDOWN_CASES = tuple(
    replace(case, version=version) for case in _REFUSED_SHUTDOWNS for version in (2, 3)
) + tuple(EpochCase("an unknown broker", UNKNOWN_BROKER, version=version) for version in (0, 1))

SHUTDOWN_CASES = (
    *(EpochCase("leads nothing", OUT_OF_SYNC, version=version) for version in range(4)),
    EpochCase("leads nothing, a higher broker epoch", OUT_OF_SYNC, lambda one: one + 1, version=3),
    EpochCase("leads nothing, epoch -1", OUT_OF_SYNC, lambda one: -1, version=3),
)
LAST_SHUTDOWN_CASES = (
    EpochCase("leads partitions with and without another replica in sync", LEADER, version=3),
    EpochCase("the same request again", LEADER, version=3),
    EpochCase("the last broker in sync", FOLLOWER, version=3),
)


def controlled_shutdown(case: EpochCase, epochs: Mapping[int, int]) -> Any:
    """The request of a case."""
    schema = request_schema(CONTROLLED_SHUTDOWN, case.version)
    known = schema.ControlledShutdownRequest.__dataclass_fields__
    fields = {"broker_epoch": case.epoch(epochs.get(case.broker, 1))}
    with_epoch = fields if "broker_epoch" in known else {}
    return schema.ControlledShutdownRequest(broker_id=case.broker, **with_epoch)
