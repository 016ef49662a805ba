"""Races of watches and reads: a change that is not seen, or a state that is out of date."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from msgspec import structs

from controller.core import znodes
from controller.core.commands import CommandId, ReadChildren, Reason
from controller.core.controller import Controller
from controller.core.errors import ZnodeError
from controller.core.events import ChildrenRead, Recorded
from controller.core.fold import Fold
from controller.core.operations import OK
from controller.core.outcomes import Children, ZnodeColumns
from controller.core.state import ControllerContext, Partition
from controller.core.triggers import BrokerChange, TopicChange, Trigger
from controller.core.values import Broker
from controller.core.zookeeper_io import read_znodes
from controller.zookeeper.watches import FullPath, SessionWatches
from controller.zookeeper.wire import WatchLists
from replay.explore.generators.scenarios import OLD_ZOOKEEPER
from replay.world.ensemble.client import EnsembleClient
from replay.world.ensemble.protocol import CloseSession, RequestPacket
from replay.world.inputs import (
    NONE,
    CrashBroker,
    CreateTopic,
    CutConnection,
    ElectLeaders,
    ExpireSession,
    Input,
    KillController,
    LagZooKeeper,
    LoseReply,
    Reassign,
    SlowDisk,
    Target,
)
from replay.world.requests import GetData, MultiRead, Reply
from replay.world.scenario import Scenario
from tests.races.clusters import cluster
from tests.races.defect import Defect, generic_with
from tests.races.planting import Replacement, reach

_FIRST: Final = "refold 100"
_SECOND: Final = "refold 101"

_BROKER_CHANGE: Final = "broker change"
_ELECTION: Final = "preferred replica election"


# R9 -----------------------------------------------------------------------------------------------

ReadBrokers = Callable[[Controller, str], Awaitable[list[Broker]]]


def _without_bounces(read_brokers: ReadBrokers) -> ReadBrokers:
    """A change of brokers is a change of their ids: a known id keeps its broker epoch."""

    async def planted(controller: Controller, rule: str) -> list[Broker]:
        found = await read_brokers(controller, rule)
        if rule != _BROKER_CHANGE:
            return found
        known, kept = controller.context.brokers, []
        for one in found:
            before = known.get(one.id)
            if before is not None and before.epoch != one.epoch:
                reach()
                one = structs.replace(one, epoch=before.epoch)
            kept.append(one)
        return kept

    return planted


# R12 ----------------------------------------------------------------------------------------------


class _Early:
    """The children that a controller has read when it queued a change of them."""

    def __init__(self, context: ControllerContext) -> None:
        self.context = context
        self.reads: dict[CommandId, str] = {}
        self.children: dict[str, list[str]] = {}

    @classmethod
    def of(cls, controller: Controller) -> "_Early":
        """The early reads of the current term."""
        found: _Early | None = controller.__dict__.get("early")
        if found is None or found.context is not controller.context:
            found = controller.__dict__["early"] = cls(controller.context)
        return found


_LISTED: Final[tuple[tuple[type, str, str], ...]] = (
    (BrokerChange, znodes.BROKER_IDS, _BROKER_CHANGE),
    (TopicChange, znodes.TOPICS, "topic change"),
)
_RULES: Final = {path: rule for _, path, rule in _LISTED}


def _read_when_queued(
    enqueue: Callable[[Controller, Trigger], None],
) -> Callable[[Controller, Trigger], None]:
    def planted(controller: Controller, trigger: Trigger) -> None:
        can_read = controller.is_active and controller.is_connected
        if can_read and trigger not in controller.triggers:
            for kind, path, rule in _LISTED:
                if isinstance(trigger, kind):
                    read = controller.issue(ReadChildren(path, True), Reason(rule))
                    _Early.of(controller).reads[read] = path
        enqueue(controller, trigger)

    return planted


def _keep_early_reads(take: Callable[[Fold, Recorded], Any]) -> Callable[[Fold, Recorded], Any]:
    def planted(fold: Fold, recorded: Recorded) -> Any:
        event = recorded.event
        if isinstance(event, ChildrenRead):
            early = _Early.of(fold.controller)
            path = early.reads.pop(event.command, None)
            if path is not None:
                if event.error == OK:
                    early.children[path] = event.children
                return None
        return take(fold, recorded)

    return planted


ReadChildrenOf = Callable[..., Awaitable[Children]]


def _use_early_reads(read_children: ReadChildrenOf) -> ReadChildrenOf:
    async def planted(
        controller: Controller, path: str, rule: str, *, watch: bool = False
    ) -> Children:
        found = await read_children(controller, path, rule, watch=watch)
        early = _Early.of(controller).children.pop(path, None)
        if early is not None and _RULES.get(path) == rule and early != found.children:
            reach()
            found.children = early
        return found

    return planted


# R22 ----------------------------------------------------------------------------------------------

ProcessZnode = Callable[..., Awaitable[list[Partition]]]


class _Never:
    """A deviation that does not apply."""

    def applies(self, configuration: object) -> bool:
        return False


def _has_new_entry(controller: Controller, data: bytes | None) -> bool:
    """Whether an entry differs from the reassignment under way."""
    context = controller.context
    records = {one.key: record.replicas for one, record in context.reassignments.items()}
    try:
        entries = znodes.read_entries(znodes.REASSIGN_PARTITIONS, data).entries
    except ZnodeError:
        return False
    return any(
        records.get(name) != entry.replicas
        for name, entry in entries.items()
        if context.find(*name) is not None
    )


def _only_creations(process_znode: ProcessZnode) -> ProcessZnode:
    """/admin/reassign_partitions is processed only when it is created."""

    async def planted(controller: Controller, *, created: bool = True) -> list[Partition]:
        if created:
            return await process_znode(controller, created=created)
        found = await read_znodes(controller, [znodes.REASSIGN_PARTITIONS], "planted")
        if found.errors[0] == OK and _has_new_entry(controller, found.data[0]):
            reach()
        return []

    return planted


# R32 ----------------------------------------------------------------------------------------------

ReadLatest = Callable[[Controller, list[str], str], Awaitable[ZnodeColumns]]

_settling: Final[dict[int, None]] = {}
"""The sessions that find out what became of their writes."""


def _without_sync(_: ReadLatest) -> ReadLatest:
    """The outcome of a write is read without a sync."""

    async def planted(controller: Controller, paths: list[str], rule: str) -> ZnodeColumns:
        session = controller.session_id
        _settling[session] = None
        found = await read_znodes(controller, paths, rule)
        _settling.pop(session, None)
        return found

    return planted


Answer = Callable[[EnsembleClient, RequestPacket], Reply]


def _note_old_answers(local: Answer) -> Answer:
    """Notes whether a server answers from a state that is out of date."""

    def planted(client: EnsembleClient, packet: RequestPacket) -> Reply:
        reply = local(client, packet)
        session, request = client.session, packet.request
        if session is not None and session.id in _settling and client.member.lags:
            assert not isinstance(request, CloseSession)
            if isinstance(request, MultiRead | GetData):
                leader = client._ensemble.state
                if leader.apply(session.id, request, 0).results != reply.results:
                    reach()
        return reply

    return planted


# watches-lost -------------------------------------------------------------------------------------

Lists = Callable[..., Iterator[WatchLists]]
_LOST: Final = (znodes.BROKER_IDS, znodes.TOPICS, znodes.ISR_CHANGES)


def _without_lists(lists: Lists) -> Lists:
    """A reconnect sets the watches of some lists of children no more."""

    def planted(
        self: SessionWatches, full_path: FullPath, *, persistent: bool
    ) -> Iterator[WatchLists]:
        lost = {full_path(one) for one in _LOST}
        for one in lists(self, full_path, persistent=persistent):
            if lost.intersection(one.child):
                reach()
            yield one._replace(
                child=[path for path in one.child if path not in lost],
                persistent=[path for path in one.persistent if path not in lost],
            )

    return planted


# election-watch-lost ------------------------------------------------------------------------------

ReadStats = Callable[..., Awaitable[ZnodeColumns]]


def _watches_no_election(read_stats: ReadStats) -> ReadStats:
    """The watch of /admin/preferred_replica_election is set at a failover only."""

    async def planted(
        controller: Controller, paths: list[str], rule: str, *, watch: bool = False
    ) -> ZnodeColumns:
        if watch and rule == _ELECTION and paths == [znodes.PREFERRED_ELECTION]:
            reach()
            watch = False
        return await read_stats(controller, paths, rule, watch=watch)

    return planted


def _two_elections() -> tuple[Scenario, tuple[Input, ...]]:
    """In a cluster in which watches fire once."""
    return structs.replace(cluster(), zookeeper=OLD_ZOOKEEPER), (
        ElectLeaders(5000, (), "preferred", "znode"),
        ElectLeaders(7000, (), "preferred", "znode"),
    )


DEFECTS: Final = (
    Defect(
        id="R9",
        source="KAFKA-7235, KAFKA-1120, KAFKA-5845 (KIP-380)",
        planted="The controller compares the ids of registered brokers, not their broker epochs.",
        needs="A broker registers again before the controller handles the end of its last session.",
        invariants=("partitions-led", "isrs-full", "metadata-current", "reassignments-ended"),
        replacements=(
            Replacement(
                "controller.core.procedures.brokers.registrations:read_brokers", _without_bounces
            ),
        ),
        directed=generic_with(
            SlowDisk(5000, _FIRST, 1900, 6000),
            CrashBroker(5100, 2, False, 0),
            ExpireSession(5100, "broker 2"),
        ),
    ),
    Defect(
        id="R12",
        source="KAFKA-5502, KAFKA-5879",
        planted="The controller reads the list of brokers or topics when it queues a change of it.",
        needs="The list changes again while the first change is queued.",
        invariants=(
            "read-lists-known",
            "partitions-led",
            "isrs-full",
            "metadata-current",
            "reassignments-ended",
        ),
        replacements=(
            Replacement("controller.core.controller:Controller.enqueue", _read_when_queued),
            Replacement("controller.core.fold:Fold._apply_event", _keep_early_reads),
            Replacement("controller.core.zookeeper_io:read_children", _use_early_reads),
        ),
        directed=generic_with(
            SlowDisk(5000, _FIRST, 300, 10000),
            CreateTopic(5100, "clicks", ((1, 2, 3),)),
            CreateTopic(5500, "users", ((1, 2, 3),), {}, "znode"),
            CreateTopic(5800, "views", ((1, 2, 3),), {}, "znode"),
        ),
    ),
    Defect(
        id="R22",
        source="KAFKA-9478 (open)",
        planted="The controller processes /admin/reassign_partitions only when it is created.",
        needs="The znode is written again while it exists, or deleted and created again.",
        invariants=("reassignments-ended", "admin-znodes-gone"),
        replacements=(
            Replacement(
                "controller.core.procedures.reassignment.initiation:process_reassignment_znode",
                _only_creations,
            ),
            Replacement(
                "controller.core.deviations:REQUEST_CHANGES_SEEN", lambda original: _Never()
            ),
        ),
        directed=generic_with(
            Reassign(5000, (Target("orders", 0, (2, 3, 4)),), "znode"),
            Reassign(5050, (Target("orders", 1, (2, 3, 4)),), "znode"),
        ),
    ),
    Defect(
        id="R32",
        source="KAFKA-16171, KAFKA-16667",
        planted="After a lost reply, the controller reads the result of its write without a sync.",
        needs="A reply is lost, and the next server has not applied the write yet.",
        invariants=("controller-active", "partitions-led", "isrs-full", "metadata-current"),
        replacements=(
            Replacement("controller.core.zookeeper_io:read_latest", _without_sync),
            Replacement("replay.world.ensemble.client:EnsembleClient._local", _note_old_answers),
        ),
        directed=generic_with(
            KillController(5000, _FIRST, NONE),
            LoseReply(9000, _SECOND),
            LagZooKeeper(10007, "broker 3", 100, 10000),
        ),
    ),
    Defect(
        id="watches-lost",
        source="docs/observations.md",
        planted="After a reconnect, the session does not set the watches of /brokers/ids, "
        "/brokers/topics and /isr_change_notification again.",
        needs="The session of a controller connects again while it watches one of these lists.",
        invariants=(
            "partitions-led",
            "isrs-full",
            "metadata-current",
            "reassignments-ended",
            "deletions-ended",
        ),
        replacements=(
            Replacement("controller.zookeeper.watches:SessionWatches.lists", _without_lists),
        ),
        directed=generic_with(
            CutConnection(5000, _FIRST, "zookeeper", 0),
            CreateTopic(7000, "clicks", ((1, 2, 3),), {}, "znode_with_id"),
        ),
    ),
    Defect(
        id="election-watch-lost",
        source="KB 3.9",
        planted="The controller does not set the watch of /admin/preferred_replica_election again.",
        needs="An election by the znode. The race needs two, and watches that fire once.",
        invariants=("admin-znodes-gone",),
        replacements=(
            Replacement("controller.core.zookeeper_io:read_stats", _watches_no_election),
        ),
        directed=_two_elections,
    ),
)
