"""Reads an incident from a log of the daemon.

The start is the cluster at the end of the first failover. Then everything that did not come from
the controller becomes an input: requests, changes that watches report, the end of sessions.
"""

from typing import assert_never

from controller.core import znodes
from controller.core.api_requests import ApiRequest
from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.api_requests.features import UpdateFeaturesReceived
from controller.core.api_requests.producer_ids import AllocateProducerIdsReceived
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    ListPartitionReassignmentsReceived,
)
from controller.core.api_requests.scram_credentials import AlterUserScramCredentialsReceived
from controller.core.api_requests.topics import (
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
)
from controller.core.commands import CommandId, Issued, ReadZnodes
from controller.core.events import (
    Recorded,
    SessionConnected,
    SessionDisconnected,
    SessionExpired,
    ShutdownRequested,
    WatchFired,
    ZnodesRead,
)
from controller.core.fold import Fold
from controller.core.znodes import Name
from replay.errors import ReplayError
from replay.explore.from_log.schedule import Schedule, targets_of
from replay.logs.open_log import RecordedLog
from replay.logs.recorded_fold import fold_event
from replay.parsed_znodes import is_request, parsed_entries, parsed_request
from replay.world.inputs import (
    CancelReassignment,
    CreatePartitions,
    CreateTopic,
    CutConnection,
    DeleteTopic,
    ElectLeaders,
    EndCancellation,
    ExpireSession,
    FailLogDirectory,
    Reassign,
    ShutDownController,
)
from replay.world.processes import ZOOKEEPER

TOPIC_AND_BROKER_CONFIGS = (f"{znodes.TOPIC_CONFIGS}/", f"{znodes.BROKER_CONFIGS}/")
"""The beginnings of the paths of dynamic configurations."""

_ROUTES = {znodes.REASSIGN_PARTITIONS: "znode", znodes.REASSIGN_PARTITIONS_EXTRA: "extra"}


class RecordedIncident:
    """Notes in a schedule what the events of a log show, from the end of the first failover on.

    `content` has the znodes as they were read last.
    """

    def __init__(self, log: RecordedLog, schedule: Schedule) -> None:
        self.schedule = schedule
        self.has_begun = False
        self.content: dict[str, bytes] = {}
        self.controller_fold = Fold(log.configuration)
        self.notes_entries = False
        """Whether entries that are read become inputs. Those of the start do not."""
        self._settled_epoch = 0
        self._paths: dict[CommandId, tuple[str, ...]] = {}
        self._brokers: dict[int, int] = {}
        self._stopping: dict[int, None] = {}
        self._entries: dict[tuple[str, str, int], tuple[int, ...]] = {}
        self._failed: dict[int, dict[Name, None]] = {}
        self._disconnected_ns = 0

    def fold(self, event: Recorded) -> list[Issued]:
        """Fold an event, note what it shows, and return the commands that it led to."""
        self._note_read_znodes(event)
        issued = fold_event(self.controller_fold, event)
        context = self.controller_fold.controller.context
        if context.is_loaded and self.controller_fold.is_idle:
            self._settled_epoch = context.epoch
        for one in issued:
            if isinstance(one.command, ReadZnodes):
                self._paths[one.id] = one.command.paths
        if not self.has_begun:
            if self.is_settled:
                self._begin(event)
            return issued
        self._note(event)
        if self.is_settled:
            self._compare_brokers(event)
        return issued

    @property
    def is_settled(self) -> bool:
        """Whether the fold has the role, and the first work of its term is done: a failover knows
        no brokers and topics at first."""
        context = self.controller_fold.controller.context
        return context.is_loaded and context.epoch == self._settled_epoch

    def note_failed_disks(self, at_ms: int) -> None:
        """Note the log directories that have failed since the last call."""
        offline = self.controller_fold.controller.context.offline_dirs
        for broker, partitions in offline.items():
            before = self._failed.setdefault(broker, {})
            new = tuple(one.key for one in partitions if one.key not in before)
            if new:
                before.update(dict.fromkeys(new))
                # A restart of the broker repairs it.
                self.schedule.add(FailLogDirectory(at_ms, broker, new, None))
        for broker in [one for one in self._failed if one not in offline]:
            del self._failed[broker]

    def check_begun(self) -> None:
        """Check that the log has a failover, which shows the cluster to start from. Raises
        ReplayError."""
        if not self.has_begun:
            raise ReplayError(
                "the log has no failover of refold, so it shows no cluster to start from"
            )

    def _begin(self, event: Recorded) -> None:
        context = self.controller_fold.controller.context
        self.has_begun = self.notes_entries = True
        self._brokers = {id: one.epoch for id, one in context.brokers.items()}
        self.schedule.begin(event.wall_ns, self.content, list(self._brokers))

    def _note_read_znodes(self, event: Recorded) -> None:
        """Keep the content of znodes that were read, and note new entries."""
        read = event.event
        if not isinstance(read, ZnodesRead) or read.command not in self._paths:
            return
        paths = self._paths[read.command]
        for path, data in zip(paths[read.offset :], read.data, strict=False):
            if data is None:
                self.content.pop(path, None)
                continue
            self.content[path] = data
            self._note_content(event, path, data)

    def _note_content(self, event: Recorded, path: str, data: bytes) -> None:
        """Note the content of a znode that was read."""
        if path in _ROUTES:
            entries = parsed_entries(path, data)
            route = _ROUTES[path]
        elif is_request(path):
            request = parsed_request(path, data)
            entries = {} if request.legacy else request.assignments
            route = "request"
        else:
            return
        new = {
            name: replicas
            for name, replicas in entries.items()
            if self._entries.get((route, *name)) != replicas
            # The controller moves extra entries to /admin/reassign_partitions.
            and self._entries.get(("extra", *name)) != replicas
        }
        for name, replicas in new.items():
            self._entries[route, *name] = replicas
        if new and self.notes_entries:
            at_ms = self.schedule.ms_of(event.wall_ns)
            self.schedule.add(Reassign(at_ms, targets_of(new), route))  # type: ignore[arg-type]

    def _note(self, event: Recorded) -> None:
        schedule, observed = self.schedule, event.event
        at_ms = schedule.ms_of(event.wall_ns)
        if isinstance(observed, ApiRequest):
            self._note_request(at_ms, observed)
            return
        match observed:
            case SessionExpired():
                schedule.add(ExpireSession(at_ms, schedule.process))
            case SessionDisconnected():
                self._disconnected_ns = event.wall_ns
            case SessionConnected(renewed=True) if self._disconnected_ns:
                ms = (event.wall_ns - self._disconnected_ns) // 1_000_000
                cut = CutConnection(max(0, at_ms - ms), schedule.process, ZOOKEEPER, ms)
                schedule.add(cut)
                self._disconnected_ns = 0
            case ShutdownRequested():
                schedule.add(ShutDownController(at_ms, schedule.process, 2_000))
            case WatchFired(path=path, change=change):
                self._note_change(at_ms, path, change)
            case _:
                pass

    def _note_request(self, at_ms: int, request: ApiRequest) -> None:
        match request:
            case ControlledShutdownReceived(broker=broker):
                self._stopping[broker] = None
            case AlterPartitionReassignmentsReceived(partitions=targets):
                self.schedule.add_reassignments(at_ms, targets)
            case CreateTopicsReceived() | CreatePartitionsReceived() | DeleteTopicsReceived():
                self._note_topics(at_ms, request)
            case ElectLeadersReceived(election=election, partitions=partitions):
                self.schedule.add(ElectLeaders(at_ms, tuple(partitions or ()), election))
            case (
                AllocateProducerIdsReceived()
                | AlterPartitionReceived()
                | AlterUserScramCredentialsReceived()
                | ListPartitionReassignmentsReceived()
                | UpdateFeaturesReceived()
            ):
                pass
            case _:
                assert_never(request)

    def _note_change(self, at_ms: int, path: str, change: str) -> None:
        if path == znodes.REASSIGN_CANCEL and change == "created":
            self.schedule.add(CancelReassignment(at_ms, (), "znode"))
        elif path == znodes.REASSIGN_CANCEL and change == "deleted":
            self.schedule.add(EndCancellation(at_ms))
        elif path == znodes.PREFERRED_ELECTION and change == "created":
            self.schedule.add(ElectLeaders(at_ms, (), "preferred", "znode"))

    def _note_topics(
        self,
        at_ms: int,
        request: CreateTopicsReceived | CreatePartitionsReceived | DeleteTopicsReceived,
    ) -> None:
        brokers = sorted(self._brokers)
        match request:
            case CreateTopicsReceived(topics=topics):
                for topic in topics:
                    assignment = tuple(replicas for _, replicas in topic.assignments)
                    if not assignment and brokers:
                        count = max(1, topic.partitions)
                        assignment = (tuple(brokers[: max(1, topic.replication_factor)]),) * count
                    self.schedule.add(CreateTopic(at_ms, topic.name, assignment))
            case CreatePartitionsReceived(topics=topics):
                for one in topics:
                    added = tuple(one.assignments or ()) or (tuple(brokers[:1]),)
                    self.schedule.add(CreatePartitions(at_ms, one.topic, added))
            case DeleteTopicsReceived(topics=topics):
                for deleted in topics:
                    name = deleted.name or self._name_of(deleted.topic_id)
                    if name is not None:
                        self.schedule.add(DeleteTopic(at_ms, name))

    def _name_of(self, topic_id: bytes | None) -> str | None:
        """The topic with this id, if the fold knows it."""
        topics = self.controller_fold.controller.context.topics_by_id
        topic = topics.get(topic_id) if topic_id is not None else None
        return topic.name if topic is not None else None

    def _compare_brokers(self, event: Recorded) -> None:
        """Note the brokers that came or went."""
        context = self.controller_fold.controller.context
        now = {id: one.epoch for id, one in context.brokers.items()}
        if now == self._brokers:
            return
        for broker in self._brokers:
            if broker not in now:
                is_controlled = self._stopping.pop(broker, 0) is None
                self.schedule.broker_gone(event.wall_ns, broker, is_controlled=is_controlled)
        for broker, epoch in now.items():
            if broker not in self._brokers:
                self.schedule.broker_back(event.wall_ns, broker)
            elif self._brokers[broker] != epoch:
                self.schedule.broker_bounced(event.wall_ns, broker)
        self._brokers = now
