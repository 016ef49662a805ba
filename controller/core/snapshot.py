"""The whole fold between two procedures, as bytes, from which the fold of a log can continue.

A snapshot is a cache: folding the log from its beginning yields the same state. Only the core that
the log's header names writes and reads snapshots.
"""

from typing import TypeVar

import msgspec
from msgspec import Struct

from controller.core.api_requests.topics import WaitingRequest
from controller.core.canonical import decode_stored
from controller.core.commands import CommandId, LeaderAndIsrRequest, StopReplicaRequest
from controller.core.configuration import Configuration
from controller.core.fold import Fold
from controller.core.mutation_quotas import QuotaEntity, TokenBucket
from controller.core.prepared_topics import unprepare
from controller.core.procedures.admin.waiting_requests import timer_of
from controller.core.releases import Release
from controller.core.standby import KnownZnode, StandbyState
from controller.core.state import (
    ControllerContext,
    EntrySeen,
    Partition,
    PendingDeletion,
    PropagatingResponse,
    SuspectRegistration,
    Topic,
    WaitReport,
)
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.values import Assignment, Broker, LeaderAndIsr
from controller.core.znodes import Reassignment
from controller.core.znodes.acls import Acl, ResourcePattern

Value = TypeVar("Value")


class _PartitionRow(Struct, frozen=True, array_like=True):
    number: int
    assignment: Assignment
    leadership: LeaderAndIsr | None
    state: PartitionState
    replica_states: dict[int, ReplicaState]
    is_listed: bool


class _TopicRow(Struct, frozen=True, array_like=True):
    name: str
    id: bytes | None
    is_known: bool
    version: int
    partitions: list[_PartitionRow]


class _StandbyRow(Struct, frozen=True, array_like=True):
    is_watching: bool
    is_unsupported: bool
    is_ready: bool
    is_timed: bool
    znodes: dict[str, KnownZnode]
    children: dict[str, list[str]]
    topics: list[tuple[str, _TopicRow | None]]
    mzxids: dict[str, dict[int, int]]
    unread: dict[str, list[int]]
    unusable: dict[str, list[int]]
    stale: list[str]
    stale_children: list[str]
    stale_topics: list[str]


class _Snapshot(Struct, frozen=True, kw_only=True):
    session_id: int
    is_active: bool
    is_connected: bool
    is_loaded: bool
    is_stopping: bool
    is_backing_off: bool
    candidate_session: int
    last_epoch: int
    is_waiting_for_own_znode: bool
    unsent: list[str]
    epoch: int
    epoch_version: int
    brokers: list[Broker]
    shutting_down: list[int]
    channels: dict[int, int]
    sessions: dict[int, int]
    suspects: dict[int, SuspectRegistration]
    releases: dict[int, Release]
    topics: list[_TopicRow]
    offline_dirs: dict[int, list[tuple[str, int]]]
    reassigning: list[tuple[str, int]]
    held: list[tuple[str, int]]
    reassignments: list[tuple[tuple[str, int], Reassignment]]
    cancel: int
    cancel_forced: bool
    entries_seen: list[tuple[tuple[str, int], EntrySeen]]
    entries_mzxid: int
    requests_done: list[str]
    deletions: dict[str, PendingDeletion]
    deletion_count: int
    is_deletion_timed: bool
    rollback_waiting: list[tuple[tuple[str, int], str]]
    waiting_reported: dict[str, WaitReport]
    extra_waits: bool
    entries_moved: list[tuple[tuple[str, int], tuple[int, ...]]]
    queued_for_deletion: list[str]
    deletion_started: list[str]
    ineligible_for_deletion: list[str]
    awaiting_brokers: dict[str, dict[int, Assignment]]
    unclean_default: bool
    config_change: str
    leaderless: list[tuple[tuple[str, int], str]]
    waiting: dict[int, WaitingRequest]
    propagating: dict[int, PropagatingResponse]
    unacked_metadata: dict[int, CommandId]
    unresponsive: list[int]
    in_flight: list[tuple[CommandId, LeaderAndIsrRequest | StopReplicaRequest]]
    standby: _StandbyRow | None = None
    acls: list[tuple[ResourcePattern, tuple[Acl, ...]]] = []
    acl_changes: list[str] = []
    mutation_rates: list[tuple[QuotaEntity, int | None]] = []
    mutation_buckets: list[tuple[QuotaEntity, TokenBucket]] = []


_decoder = msgspec.msgpack.Decoder(_Snapshot)


def take_snapshot(fold: Fold) -> bytes:
    """The snapshot of an idle fold."""
    assert fold.is_idle, "a snapshot is taken between two procedures"
    controller, context = fold.controller, fold.controller.context
    return msgspec.msgpack.encode(
        _Snapshot(
            session_id=controller.session_id,
            is_active=controller.is_active,
            is_connected=controller.is_connected,
            is_loaded=context.is_loaded,
            is_stopping=controller.is_stopping,
            is_backing_off=controller.is_backing_off,
            candidate_session=controller.candidate_session,
            last_epoch=controller.last_epoch,
            is_waiting_for_own_znode=controller.is_waiting_for_own_znode,
            unsent=list(controller.unsent),
            epoch=context.epoch,
            epoch_version=context.epoch_version,
            brokers=list(context.brokers.values()),
            shutting_down=list(context.shutting_down),
            channels=context.channels,
            sessions=context.sessions,
            suspects=context.suspects,
            releases=context.releases,
            topics=[_topic_row(topic) for topic in context.topics.values()],
            offline_dirs={
                broker: [one.key for one in partitions]
                for broker, partitions in context.offline_dirs.items()
            },
            reassigning=[one.key for one in context.reassigning],
            held=[one.key for one in context.held if one in context.reassigning],
            reassignments=[(one.key, record) for one, record in context.reassignments.items()],
            cancel=context.cancel,
            cancel_forced=context.cancel_forced,
            entries_seen=list(context.entries_seen.items()),
            entries_mzxid=context.entries_mzxid,
            requests_done=list(context.requests_done),
            deletions=context.deletions,
            deletion_count=context.deletion_count,
            is_deletion_timed=context.is_deletion_timed,
            rollback_waiting=[(one.key, why) for one, why in context.rollback_waiting.items()],
            waiting_reported=context.waiting_reported,
            extra_waits=context.extra_waits,
            entries_moved=list(context.entries_moved.items()),
            queued_for_deletion=list(context.queued_for_deletion),
            deletion_started=list(context.deletion_started),
            ineligible_for_deletion=list(context.ineligible_for_deletion),
            awaiting_brokers=context.awaiting_brokers,
            unclean_default=context.unclean_default,
            config_change=context.config_change,
            waiting=context.waiting,
            propagating=context.propagating,
            unacked_metadata=context.unacked_metadata,
            unresponsive=list(context.unresponsive),
            leaderless=[(one.key, text) for one, text in context.leaderless.items()],
            in_flight=list(context.in_flight.items()),
            standby=_standby_row(controller.standby),
            acls=list(context.acls.acls.items()),
            acl_changes=context.acl_changes,
            mutation_rates=list(context.mutation_quotas.rates.items()),
            mutation_buckets=list(context.mutation_quotas.buckets.items()),
        )
    )


def load_snapshot(data: bytes, configuration: Configuration) -> Fold:
    """The fold of a snapshot. Raises msgspec.DecodeError for anything else."""
    snapshot = decode_stored(_decoder.decode, data)
    fold = Fold(configuration)
    controller, context = fold.controller, fold.controller.context
    controller.session_id = snapshot.session_id
    controller.is_active = snapshot.is_active
    controller.is_connected = snapshot.is_connected
    controller.is_stopping = snapshot.is_stopping
    controller.is_backing_off = snapshot.is_backing_off
    controller.candidate_session = snapshot.candidate_session
    controller.last_epoch = snapshot.last_epoch
    controller.is_waiting_for_own_znode = snapshot.is_waiting_for_own_znode
    controller.unsent = dict.fromkeys(snapshot.unsent)
    context.is_loaded = snapshot.is_loaded
    context.epoch, context.epoch_version = snapshot.epoch, snapshot.epoch_version
    context.brokers = {broker.id: broker for broker in snapshot.brokers}
    context.shutting_down = dict.fromkeys(snapshot.shutting_down)
    context.channels = snapshot.channels
    context.sessions = snapshot.sessions
    context.suspects = snapshot.suspects
    context.releases = snapshot.releases
    for row in snapshot.topics:
        topic = context.topics[row.name] = _topic(row)
        if topic.id is not None:
            context.topics_by_id[topic.id] = topic
    context.offline_dirs = {
        broker: dict.fromkeys(_named_partitions(context, names))
        for broker, names in snapshot.offline_dirs.items()
    }
    context.reassigning = dict.fromkeys(_named_partitions(context, snapshot.reassigning))
    context.held = dict.fromkeys(_named_partitions(context, snapshot.held))
    context.reassignments = _by_partition(context, snapshot.reassignments)
    context.cancel = snapshot.cancel
    context.cancel_forced = snapshot.cancel_forced
    context.entries_seen = dict(snapshot.entries_seen)
    context.entries_mzxid = snapshot.entries_mzxid
    context.requests_done = dict.fromkeys(snapshot.requests_done)
    context.deletions = snapshot.deletions
    context.deletion_count = snapshot.deletion_count
    context.is_deletion_timed = snapshot.is_deletion_timed
    context.rollback_waiting = _by_partition(context, snapshot.rollback_waiting)
    context.waiting_reported = snapshot.waiting_reported
    context.extra_waits = snapshot.extra_waits
    context.entries_moved = dict(snapshot.entries_moved)
    context.queued_for_deletion = dict.fromkeys(snapshot.queued_for_deletion)
    context.deletion_started = dict.fromkeys(snapshot.deletion_started)
    context.ineligible_for_deletion = dict.fromkeys(snapshot.ineligible_for_deletion)
    context.awaiting_brokers = snapshot.awaiting_brokers
    context.unclean_default = snapshot.unclean_default
    context.config_change = snapshot.config_change
    for pattern, acls in snapshot.acls:
        context.acls.set(pattern, acls)
    context.acl_changes = snapshot.acl_changes or context.acl_changes
    context.mutation_quotas.rates = dict(snapshot.mutation_rates)
    context.mutation_quotas.buckets = dict(snapshot.mutation_buckets)
    context.leaderless = _by_partition(context, snapshot.leaderless)
    context.waiting = snapshot.waiting
    context.propagating = snapshot.propagating
    context.unacked_metadata = snapshot.unacked_metadata
    context.unresponsive = dict.fromkeys(snapshot.unresponsive)
    timed = [*context.waiting, *context.propagating]
    controller.timed = {timer_of(number): number for number in timed}
    context.in_flight = dict(snapshot.in_flight)
    if snapshot.standby is not None:
        controller.standby = _standby(snapshot.standby)
    return fold


def _standby_row(standby: StandbyState) -> _StandbyRow:
    topics = standby.topics.items()
    return _StandbyRow(
        standby.is_watching,
        standby.is_unsupported,
        standby.is_ready,
        standby.is_timed,
        standby.znodes,
        standby.children,
        [(name, None if one is None else _topic_row(one)) for name, one in topics],
        standby.mzxids,
        {name: list(numbers) for name, numbers in standby.unread.items()},
        {name: list(numbers) for name, numbers in standby.unusable.items()},
        list(standby.stale),
        list(standby.stale_children),
        list(standby.stale_topics),
    )


def _standby(row: _StandbyRow) -> StandbyState:
    standby = StandbyState()
    standby.is_watching, standby.is_unsupported = row.is_watching, row.is_unsupported
    standby.is_ready, standby.is_timed = row.is_ready, row.is_timed
    standby.znodes, standby.children = row.znodes, row.children
    standby.topics = {name: None if one is None else _topic(one) for name, one in row.topics}
    for topic in standby.topics.values():
        if topic is not None:
            # What is prepared is no part of a snapshot.
            unprepare(topic)
            standby.unprepared[topic.name] = None
    standby.mzxids = row.mzxids
    standby.unread = {name: dict.fromkeys(numbers) for name, numbers in row.unread.items()}
    standby.unusable = {name: dict.fromkeys(numbers) for name, numbers in row.unusable.items()}
    standby.stale = dict.fromkeys(row.stale)
    standby.stale_children = dict.fromkeys(row.stale_children)
    standby.stale_topics = dict.fromkeys(row.stale_topics)
    return standby


def _topic_row(topic: Topic) -> _TopicRow:
    rows = [
        _PartitionRow(
            one.number,
            one.assignment,
            one.leadership,
            one.state,
            dict(one.replica_states),
            one.is_listed,
        )
        for one in topic.partitions.values()
    ]
    return _TopicRow(topic.name, topic.id, topic.is_known, topic.version, rows)


def _topic(row: _TopicRow) -> Topic:
    topic = Topic(row.name)
    topic.id, topic.is_known, topic.version = row.id, row.is_known, row.version
    for of_partition in row.partitions:
        partition = topic.partition(of_partition.number)
        partition.assignment = of_partition.assignment
        partition.leadership = of_partition.leadership
        partition.state = of_partition.state
        partition.replica_states = of_partition.replica_states
        partition.is_listed = of_partition.is_listed
    return topic


def _by_partition(
    context: ControllerContext, values: list[tuple[tuple[str, int], Value]]
) -> dict[Partition, Value]:
    return {context.topics[topic].partition(number): one for (topic, number), one in values}


def _named_partitions(context: ControllerContext, names: list[tuple[str, int]]) -> list[Partition]:
    return [context.topics[topic].partition(number) for topic, number in names]
