"""Reads an incident from a log of the daemon or an imported log: what happened, and its causes."""

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from msgspec import Struct, structs

from controller.core import znodes
from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.api_requests.elections import ElectLeadersReceived, ElectLeadersResponse
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    AlterPartitionReassignmentsResponse,
)
from controller.core.commands import Issued
from controller.core.configuration import Configuration
from controller.core.errors import ZnodeError
from controller.core.events import Recorded, TimerFired, WatchFired, ZnodesRead
from controller.core.procedures.elections.rebalance import RULE as REBALANCE
from controller.core.state import ControllerContext
from controller.core.znodes import Name
from replay.errors import ReplayError
from replay.explore.from_log.imported import REFOLD, ImportedIncident
from replay.explore.from_log.recorded import TOPIC_AND_BROKER_CONFIGS, RecordedIncident
from replay.logs.decode import records
from replay.logs.open_log import OpenedLog, RecordedLog
from replay.progress import Progress, unreported
from replay.stock_clusters.broker_logs.controller_log import (
    broker_shutting_down,
    is_end_of_take_over,
)
from replay.stock_clusters.imported_log.api_requests import UnreadableRequestError, errors_of
from replay.stock_clusters.imported_log.events import (
    ControllerLogged,
    DecisionObserved,
    ImportedEvent,
    RequestServed,
    StateChangeLogged,
)
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.stock_clusters.zookeeper_log.transactions import Transaction
from replay.subjects import paths_of_transaction, subject_of
from replay.times import iso_time
from replay.what_if.causes import (
    BrokerRegistered,
    BrokerUnregistered,
    Causes,
    ControllerGone,
    CopyingReplica,
    ExternalCause,
)
from replay.what_if.history import (
    ClusterHistory,
    PartitionSnapshot,
    RegistrationChange,
    ZnodeChange,
    ZnodeReader,
    cluster_state_at,
)
from replay.what_if.inferred import (
    Rejected,
    inferred_requests,
    rejected_partitions,
    with_shutdown_requests,
    without_rejected_deletions,
    without_rejected_requests,
)
from replay.what_if.lagging import copying_replicas, replica_lags
from replay.what_if.new_partitions import with_creations
from replay.world.inputs import (
    AdminAct,
    ChangeBrokerConfig,
    ChangeTopicConfig,
    DeleteTopic,
    Input,
    ShutDownController,
)
from replay.world.scenario import Scenario
from replay.znode_tree.paths import name_of
from replay.znode_tree.tree import Refused

KEPT: Final = (
    *TOPIC_AND_BROKER_CONFIGS,
    f"{znodes.REASSIGNMENTS}/",
    f"{znodes.DELETE_TOPICS}/",
    znodes.REASSIGN_PARTITIONS,
    znodes.REASSIGN_CANCEL,
    znodes.PREFERRED_ELECTION,
    znodes.CONTROLLER_EPOCH,
)
"""The znodes that a continuation begins with, besides topics and states of partitions."""


_UNCLEAN: Final = b"unclean.leader.election.enable"


class SavedBy(Struct, frozen=True):
    """The version of refold that saved a simulated run, and the fingerprint of its core."""

    version: str
    core: str


@dataclass
class Incident:
    """An incident of a log.

    - `configuration`: that of the controller; for a stock cluster that of the refold in its place
    - `is_imported`: the log is that of a stock cluster
    - `first_seq`, `last_seq`: the events from which the incident can be continued
    - `end_ms`: when it ended, since it began
    - `times`: the milliseconds of each event since the incident began
    - `wall_ns`: the time of each event in the log
    - `rebalances`: the events at which the automatic leader rebalance ran
    - `idle`: the events after which the controller had no work in progress; empty for a stock one
    - `scenario`: that of a simulated incident, whose causes are its inputs; None for a real one
    - `not_repeated`: the version that saved a simulated incident, if the code of this version runs
      it differently: then the history is that of the log
    - `is_kept_run`: the log is that of a simulated run that is kept, and is continued as others are
    """

    configuration: Configuration
    process: str
    is_imported: bool
    begin_ns: int
    first_seq: int
    last_seq: int
    end_ms: int
    history: ClusterHistory
    causes: list[ExternalCause]
    copying: list[CopyingReplica]
    times: dict[int, int]
    wall_ns: dict[int, int]
    rebalances: list[int]
    idle: list[int]
    scenario: Scenario | None = None
    not_repeated: SavedBy | None = None
    is_kept_run: bool = False

    @property
    def brokers(self) -> list[int]:
        """All brokers that the log names, registered or not."""
        if self.scenario is not None:
            return [one.id for one in self.scenario.brokers]
        found: dict[int, None] = {}
        for one in self.history.changes:
            broker = getattr(one, "broker", None)
            if broker is not None:
                found[broker] = None
            now = getattr(one, "now", None)
            if isinstance(now, PartitionSnapshot):
                found.update(dict.fromkeys(now.assignment.replicas))
        found.pop(self.configuration.broker_id, None)
        return sorted(found)

    def is_in_progress(self, cause: ExternalCause, seq: int) -> bool:
        """Whether an administrator's act was seen up to event `seq`, and the controller has not
        done all of its work yet: a new controller would not know of it."""
        if not isinstance(cause.what, AdminAct) or cause.seq > seq or not self.idle:
            return False
        place = bisect_left(self.idle, cause.seq)
        return place == len(self.idle) or self.idle[place] > seq

    def time_of(self, seq: int) -> str:
        """The time of an event, as the log has it."""
        return iso_time(self.wall_ns[seq])

    def at_ms(self, seq: int) -> int:
        """When an event happened. Raises ReplayError if there is none, or if the incident has not
        begun then."""
        found = self.times.get(seq)
        if found is None:
            raise ReplayError(
                f"there is no event {seq} that a change can be made at: the incident has the "
                f"events {self.first_seq} to {self.last_seq}"
            )
        return found


def read_incident(log: OpenedLog, progress: Progress = unreported) -> Incident:
    """Read a log once. Raises ReplayError if it shows no cluster, LogError."""
    reader = _RecordedReader(log) if isinstance(log, RecordedLog) else _ImportedReader(log)
    last = log.reader.last_seq
    for seq in reader.events():
        progress("reading", seq, last)
    return reader.result()


class _IncidentReader:
    """The common base for both kinds of logs."""

    def __init__(self, configuration: Configuration) -> None:
        self.history = ClusterHistory()
        self.causes = Causes(configuration, self.history)
        self.times: dict[int, int] = {}
        self.wall_ns: dict[int, int] = {}
        self.rebalances: list[int] = []
        self.idle: list[int] = []
        self.is_imported = False
        self.rejected: dict[int, Rejected] = {}
        """The partitions that the controller rejected, by the event of the request."""

    def result(self) -> Incident:
        """The incident. Raises ReplayError if it has no broker."""
        history, causes = self.history, self.causes
        history.sort()
        causes.end(max(self.times.values()))
        found = without_rejected_requests(causes.found, self.rejected)
        found = without_rejected_deletions(history, found)
        if self.is_imported:
            found = with_shutdown_requests(history, found)
        found = sorted(found, key=lambda one: one.seq)
        end = _without_shutdown(found, history)
        last = self.times[found[end].seq] if end < len(found) else max(self.times.values())
        found = with_creations(history, found[:end], causes.begin_seq)
        if self.is_imported:
            found += inferred_requests(history, found, self._topics_with_unclean())
        incident = Incident(
            causes.configuration,
            causes.process,
            self.is_imported,
            causes.begin_ns,
            min(self.times),
            max(self.times),
            last,
            history,
            found,
            [],
            self.times,
            self.wall_ns,
            self.rebalances,
            self.idle,
        )
        if not incident.brokers:
            raise ReplayError("no broker is registered in the log: there is no cluster to continue")
        found = [_certain_if_first(one, history) for one in found]
        incident.causes = sorted([*found, *replica_lags(history, found)], key=lambda one: one.seq)
        incident.copying = copying_replicas(history, incident.causes)
        return incident

    def _note_time(self, seq: int, ns: int) -> None:
        self.times[seq], self.wall_ns[seq] = self.causes.ms_of(ns), ns

    def _topics_with_unclean(self) -> Iterator[str]:
        """The topics whose configuration once sets unclean elections."""
        for one in self.history.changes:
            if isinstance(one, ZnodeChange) and one.data and _UNCLEAN in one.data:
                yield name_of(one.path)


def _without_shutdown(causes: list[ExternalCause], history: ClusterHistory) -> int:
    """How many causes there are before the shutdown of the controller, or of all brokers, with
    which a recording ends. The changes of the brokers' shutdown are removed from the history."""
    end = len(causes)
    while end and _is_shutdown(causes[end - 1]):
        end -= 1
    stopped = {one.what.broker for one in causes[end:] if isinstance(one.what, BrokerUnregistered)}
    if stopped:
        first = causes[end].seq
        until = [one for one in history.changes if one.seq < first]
        running = cluster_state_at(until, first, 0).brokers
        if stopped >= set(running):
            history.changes = until
            return end
        end = len(causes)
    while end and isinstance(causes[end - 1].what, ShutDownController):
        end -= 1
    return end


def _certain_if_first(cause: ExternalCause, history: ClusterHistory) -> ExternalCause:
    """The first start of a broker is not an event of the incident: it happens in every future."""
    if not isinstance(cause.what, BrokerRegistered):
        return cause
    broker = cause.what.broker
    was_there = any(
        isinstance(one, RegistrationChange) and one.broker == broker and one.seq < cause.seq
        for one in history.changes
    )
    return cause if was_there else structs.replace(cause, is_certain=True)


def _is_shutdown(cause: ExternalCause) -> bool:
    if isinstance(cause.what, BrokerUnregistered):
        return cause.what.is_controlled
    return isinstance(cause.what, ShutDownController | ControllerGone)


class _RecordedReader(_IncidentReader):
    """Reads a log of the daemon. The cluster is that of its fold."""

    def __init__(self, log: RecordedLog) -> None:
        super().__init__(log.configuration)
        self._log = log
        self._incident = RecordedIncident(log, self.causes)
        self._seen: dict[str, bytes] = {}
        self._announced: dict[str, tuple[int, int]] = {}
        self._admin: dict[str, bytes] = {}
        self._requests: dict[int, int] = {}

    def events(self) -> Iterator[int]:
        """Read the log; returns the number of each event. Raises ReplayError, LogError."""
        incident, causes = self._incident, self.causes
        for event, _ in records(self._log.reader):
            causes.seq = event.seq
            self._note_causes(event)
            had_begun = incident.has_begun
            self._note_rejections(event, incident.fold(event))
            if isinstance(event.event, ZnodesRead):
                self._note_configs(event.wall_ns)
            if incident.has_begun:
                self._note_time(event.seq, event.wall_ns)
                self._note_state(event, is_first=not had_begun)
                if incident.controller_fold.is_idle:
                    self.idle.append(event.seq)
            yield event.seq
        incident.check_begun()

    def _note_rejections(self, event: Recorded, issued: list[Issued]) -> None:
        if isinstance(event.event, AlterPartitionReassignmentsReceived | ElectLeadersReceived):
            self._requests[event.event.request] = event.seq
        for one in issued:
            response = one.command
            if isinstance(response, AlterPartitionReassignmentsResponse | ElectLeadersResponse):
                seq = self._requests.pop(response.request, 0)
                errors = {(each.topic, each.partition): each.error for each in response.partitions}
                self.rejected[seq] = rejected_partitions(response.error, errors)

    def _note_causes(self, event: Recorded) -> None:
        match event.event:
            case WatchFired(path=path, change=change):
                self.causes.znode_reported(event.wall_ns, path, change)
            case ControlledShutdownReceived(broker=broker):
                self.causes.stopping(event.wall_ns, broker)
            case TimerFired(timer=timer) if timer.startswith(REBALANCE):
                self.rebalances.append(event.seq)
            case _:
                pass

    def _note_configs(self, ns: int) -> None:
        """Note the configurations, and the announcements of changes, that the controller has read.

        It reads the configuration of a topic when it needs it. A value that it reads for the first
        time has been there before, unless a notification reported a change.
        """
        content = self._incident.content
        at_ms = self.causes.ms_of(ns)
        for path, data in content.items():
            if self._seen.get(path) == data:
                continue
            if path.startswith(f"{znodes.CONFIG_CHANGES}/"):
                self._seen[path] = data
                with suppress(ZnodeError):
                    entity = znodes.read_config_change(path, data)
                    self._announced[znodes.config_path(entity)] = (self.causes.seq, at_ms)
            elif path.startswith(TOPIC_AND_BROKER_CONFIGS):
                self._note_config(path, data)

    def _note_config(self, path: str, data: bytes) -> None:
        announced = self._announced.pop(path, None)
        is_known = path in self._seen
        self._seen[path] = data
        if not self._incident.has_begun or announced is None:
            # What changed without a notification has no effect on brokers.
            self.history.note_znode(self.causes.seq if is_known else 0, 0, path, data)
            return
        seq, at_ms = announced
        with suppress(ZnodeError):
            configs, subject = znodes.read_config(path, data), subject_of(path)
            if subject.topic is not None:
                act: Input = ChangeTopicConfig(at_ms, subject.topic, configs)
            else:
                act = ChangeBrokerConfig(at_ms, subject.broker, configs)
            self.causes.found.append(ExternalCause(seq, at_ms, act, self.causes.seq))
            self.history.note_znode(self.causes.seq, at_ms, path, data)

    def _note_state(self, event: Recorded, *, is_first: bool) -> None:
        """Note how the partitions are in the fold."""
        context = self._incident.controller_fold.controller.context
        if not self._incident.is_settled:
            return
        seq = self.causes.begin_seq if is_first else event.seq
        at_ms, history = self.times[event.seq], self.history
        known: dict[Name, None] = {}
        for topic in context.topics.values():
            if not topic.is_known:
                continue
            history.note_topic(seq, at_ms, topic.name, topic.id)
            for partition in topic.assigned():
                now = PartitionSnapshot(partition.leadership, partition.assignment)
                known[partition.key] = None
                history.note_partition(seq, at_ms, partition.key, now)
        for name in [one for one in history.names() if one not in known]:
            history.note_partition(seq, at_ms, name, None)
        self._note_admin(seq, at_ms, context)
        self._incident.note_failed_disks(at_ms)

    def _note_admin(self, seq: int, at_ms: int, context: ControllerContext) -> None:
        history = self.history
        found = {znodes.CONTROLLER_EPOCH: str(context.epoch).encode()}
        if context.cancel:
            found[znodes.REASSIGN_CANCEL] = self._incident.content.get(znodes.REASSIGN_CANCEL, b"")
        for topic in context.queued_for_deletion:
            path = znodes.delete_topic_path(topic)
            found[path] = b""
            if path not in self._admin and not self._is_requested(topic):
                self.causes.add(DeleteTopic(at_ms, topic, "znode"))
        for partition, record in context.reassignments.items():
            path = znodes.reassignment_path(*partition.key)
            found[path] = znodes.write_reassignment(record)
        for path in [one for one in self._admin if one not in found]:
            history.note_znode(seq, at_ms, path, None)
        for path, data in found.items():
            history.note_znode(seq, at_ms, path, data)
        self._admin = found

    def _is_requested(self, topic: str) -> bool:
        """Whether a request for the deletion of a topic was seen."""
        return any(
            isinstance(one.what, DeleteTopic) and one.what.topic == topic
            for one in self.causes.found
        )


class _ImportedReader(_IncidentReader):
    """Reads an imported log. The cluster is that of its ZooKeeper."""

    def __init__(self, log: ImportedLog) -> None:
        configuration = Configuration(broker_id=REFOLD, rules="kafka")
        super().__init__(configuration)
        self.is_imported = True
        self._log = log
        self._incident = ImportedIncident(log, self.causes)
        self._znodes = ZnodeReader(self.history, KEPT)
        self._has_controller_log = False

    def events(self) -> Iterator[int]:
        """Read the log; returns the number of each event. Raises ReplayError, LogError."""
        incident, log = self._incident, self._log
        self.causes.seq = log.first_seq
        for record, event in log.events():
            is_first = not incident.has_begun
            if is_first:
                self.causes.seq = record.seq - 1
                incident.begin(record.wall_ns)
                self._note_time(record.seq - 1, record.wall_ns)
                self._note_state(list(incident.content()), 0)
            self.causes.seq = record.seq
            incident.apply(record.wall_ns, event)
            if isinstance(event, RequestServed):
                with suppress(UnreadableRequestError):
                    self.rejected[record.seq] = rejected_partitions(*errors_of(event))
            self._note_time(record.seq, record.wall_ns)
            at_ms = self.times[record.seq]
            self._note_controller(record.wall_ns, at_ms, event)
            self._note_state(self._changed_paths(event), at_ms)
            yield record.seq
        if not incident.has_begun:
            raise ReplayError("the log has no transactions: there is no incident to continue")
        incident.end()

    def _note_controller(self, ns: int, at_ms: int, event: ImportedEvent) -> None:
        """Note when the controller acts, and when it begins with a controlled shutdown."""
        if isinstance(event, DecisionObserved | StateChangeLogged):
            self.causes.acted_ms = at_ms
        match event:
            case DecisionObserved(what="partition_state", error=0):
                self.causes.controller_acts(at_ms, has_taken_over=not self._has_controller_log)
            case ControllerLogged():
                self._has_controller_log = True
                if is_end_of_take_over(event):
                    self.causes.controller_acts(at_ms, has_taken_over=True)
                broker = broker_shutting_down(event)
                if broker is not None:
                    self.causes.stopping(ns, broker)
            case _:
                pass

    def _changed_paths(self, event: ImportedEvent) -> list[str]:
        if isinstance(event, Transaction):
            return paths_of_transaction(event, self._log.begun.chroot)
        return []

    def _note_state(self, paths: list[str], at_ms: int) -> None:
        """Note what znodes say. Topics come before the states of their partitions."""
        for path in sorted(paths, key=lambda one: one.count("/")):
            if subject_of(path).kind == "broker":
                continue  # The causes know registrations.
            node = None
            with suppress(Refused):
                node = self._log.state.tree.get(f"{self._log.begun.chroot}{path}")
            data = node.data if node is not None else None
            if path == znodes.CONTROLLER and data is not None:
                self.causes.controller_elected(at_ms)
            version = node.version if node is not None else 0
            owner = node.owner if node is not None else 0
            self._znodes.changed(self.causes.seq, at_ms, path, data, version, owner)
