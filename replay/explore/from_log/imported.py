"""Reads an incident from an imported log: the transactions of a stock cluster.

Znodes under /admin that clients created, registrations that came and went, and the end of the
controller's session become inputs. A refold takes the place of the stock controller.
"""

from contextlib import suppress
from typing import Final

from controller.core import znodes
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.api_requests.reassignments import AlterPartitionReassignmentsReceived
from controller.core.errors import ZnodeError
from replay.explore.from_log.failed_directories import FailedDirectories
from replay.explore.from_log.schedule import Schedule, targets_of
from replay.parsed_znodes import parsed_config, parsed_entries, parsed_state, parsed_topic
from replay.stock_clusters.broker_logs.state_change_log import offline_replicas
from replay.stock_clusters.imported_log.api_requests import (
    UnreadableRequestError,
    api_request_of,
)
from replay.stock_clusters.imported_log.events import (
    STARTED,
    ControllerLogged,
    ImportedEvent,
    RequestInferred,
    RequestServed,
    StateChangeLogged,
)
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.stock_clusters.imported_log.state_events import apply
from replay.stock_clusters.zookeeper_log.transactions import (
    CloseSession,
    Create,
    Delete,
    Multi,
    Operation,
    SessionEnd,
    SetData,
    Transaction,
)
from replay.subjects import subject_of
from replay.world.inputs import (
    CancelReassignment,
    ChangeBrokerConfig,
    ChangeTopicConfig,
    CreateTopic,
    DeleteControllerZnode,
    DeleteTopic,
    ElectLeaders,
    Reassign,
)
from replay.znode_tree.paths import below
from replay.znode_tree.tree import Refused

REFOLD: Final = 1_000_000
"""The id of the refold; no broker has it."""

_NS_PER_MS: Final = 1_000_000


class ImportedIncident:
    """Notes in a schedule what the transactions of a log show, from its first one on."""

    def __init__(self, log: ImportedLog, schedule: Schedule) -> None:
        self.has_begun = False
        self._log = log
        self._chroot = log.begun.chroot
        self._started: dict[int, bool] = {}
        """Whether a broker has started since it was gone, for each that has a controller.log."""
        self._schedule = schedule
        self._directories = FailedDirectories(schedule)

    def apply(self, ns: int, event: ImportedEvent) -> None:
        """Note what an event shows, and apply it to the state of the log."""
        if not self.has_begun:
            self.begin(ns)
        self._note(ns, event)
        apply(self._log.state, event)

    def begin(self, ns: int) -> None:
        """The incident begins, with the state of the log."""
        self.has_begun = True
        self._schedule.begin(ns, self.content(), self.brokers())

    def end(self) -> None:
        """The log ends."""
        self._directories.end()

    def content(self) -> dict[str, bytes]:
        """The data of all znodes of the cluster now."""
        return {
            path: node.data
            for whole, node in self._log.state.tree.dump().items()
            if (path := below(whole, self._chroot)) is not None
        }

    def brokers(self) -> list[int]:
        """The brokers that are registered now."""
        names = [self._registered_broker(whole) for whole in self._log.state.tree.dump()]
        return [one for one in names if one is not None]

    def _registered_broker(self, path: str) -> int | None:
        """The broker whose registration a path is."""
        subject = subject_of(below(path, self._chroot) or "")
        return subject.broker if subject.kind == "broker" else None

    def _note(self, ns: int, event: ImportedEvent) -> None:
        """Note what an event shows."""
        match event:
            case RequestInferred(reassignments=reassignments):
                self._schedule.add_reassignments(self._schedule.ms_of(ns), reassignments)
            case RequestServed():
                self._note_request(ns, event)
            case ControllerLogged(broker=broker, event=what):
                is_start = what == STARTED
                self._started[broker] = is_start or self._started.get(broker, False)
            case StateChangeLogged(brokers=brokers):
                self._directories.is_logged = True
                names = offline_replicas(event)
                for broker in brokers if names else ():
                    self._directories.logged(ns, broker, names)
            case Transaction():
                self._note_transaction(ns, event)
            case _:
                pass

    def _note_request(self, ns: int, served: RequestServed) -> None:
        """A request of a client, which the broker that was controller served."""
        schedule = self._schedule
        try:
            request = api_request_of(served, 0)
        except UnreadableRequestError:
            schedule.leave_out("requests that cannot be read")
            return
        at_ms = schedule.ms_of(min(ns, served.received_ms * _NS_PER_MS))
        match request:
            case AlterPartitionReassignmentsReceived(partitions=partitions):
                schedule.add_reassignments(at_ms, partitions)
            case ElectLeadersReceived(election=election, partitions=partitions):
                schedule.add(ElectLeaders(at_ms, tuple(partitions or ()), election))
            case None:
                pass
            case _:
                schedule.add_request(at_ms, request)

    def _note_transaction(self, ns: int, event: Transaction) -> None:
        match event.content:
            case Multi(operations=operations, error=0):
                for one in operations:
                    self._note_operation(ns, one)
            case CloseSession():
                self._note_end(ns, event)
            case Create() | SetData() | Delete():
                self._note_operation(ns, event.content)
            case _:
                pass

    def _note_end(self, ns: int, transaction: Transaction) -> None:
        """A session ended: the registration of a broker, and the role, go with it."""
        schedule = self._schedule
        # A session that did not expire ends an orderly shutdown.
        is_orderly = transaction.session_end is not SessionEnd.EXPIRED
        for path, node in self._log.state.tree.dump().items():
            if node.owner != transaction.session:
                continue
            broker = self._registered_broker(path)
            if broker is not None:
                schedule.broker_gone(ns, broker, is_controlled=is_orderly)
                if broker in self._started:
                    self._started[broker] = False
            elif below(path, self._chroot) == znodes.CONTROLLER:
                self._role_ended(ns, node.data, is_orderly=is_orderly)

    def _role_ended(self, ns: int, data: bytes, *, is_orderly: bool) -> None:
        """The session of the controller ended, whose znode has this data."""
        self._schedule.controller_gone(ns, is_expired=not is_orderly)

    def _registers(self, ns: int, broker: int) -> None:
        """A broker registers. If its controller.log has no start since, its process never ended."""
        if self._started.get(broker, True):
            self._schedule.broker_back(ns, broker)
            self._directories.started(broker)
        else:
            self._schedule.broker_resumed(ns, broker)

    def _note_operation(self, ns: int, operation: Operation) -> None:
        schedule = self._schedule
        path = below(getattr(operation, "path", ""), self._chroot) or ""
        data, subject = getattr(operation, "data", None), subject_of(path)
        match operation:
            case Create() if (broker := self._registered_broker(operation.path)) is not None:
                self._registers(ns, broker)
            case Delete() if path == znodes.CONTROLLER:
                schedule.add(DeleteControllerZnode(schedule.ms_of(ns)))
            case Create() | SetData() if path == znodes.REASSIGN_PARTITIONS:
                entries = parsed_entries(path, data)
                before = self._content(znodes.REASSIGN_PARTITIONS)
                new = {
                    name: replicas
                    for name, replicas in entries.items()
                    if before.get(name) != replicas
                }
                if new:
                    schedule.add(Reassign(schedule.ms_of(ns), targets_of(new), "znode"))
            case Create() if path == znodes.REASSIGN_CANCEL:
                schedule.add(CancelReassignment(schedule.ms_of(ns), (), "znode"))
            case Create() if path == znodes.PREFERRED_ELECTION:
                schedule.add(ElectLeaders(schedule.ms_of(ns), (), "preferred", "znode"))
            case Create() if (topic := znodes.topic_of(path)) is not None:
                content = parsed_topic(topic, data)
                if content is not None and content.assignments:
                    replicas = tuple(one.replicas for one in content.assignments.values())
                    at_ms = schedule.ms_of(ns)
                    configs = self._config(znodes.topic_config_path(topic))
                    schedule.add(CreateTopic(at_ms, topic, replicas, configs, "znode_with_id"))
            case SetData() if subject.kind == "topic config" and subject.topic is not None:
                configs = parsed_config(path, data)
                if configs != self._config(path):
                    schedule.add(ChangeTopicConfig(schedule.ms_of(ns), subject.topic, configs))
            case Create() | SetData() if path.startswith(f"{znodes.BROKER_CONFIGS}/"):
                # No number: the configuration of all brokers.
                configs = parsed_config(path, data)
                schedule.add(ChangeBrokerConfig(schedule.ms_of(ns), subject.broker, configs))
            case Create() if subject.kind == "topic deletion" and subject.topic is not None:
                schedule.add(DeleteTopic(schedule.ms_of(ns), subject.topic, "znode"))
            case Create() if path.startswith(f"{znodes.LOG_DIR_EVENTS}/"):
                with suppress(ZnodeError):
                    self._directories.reported(ns, znodes.read_log_dir_event(path, data))
            case SetData() if znodes.partition_of_state(path) is not None:
                self._note_state(ns, path, data)
            case _:
                pass

    def _note_state(self, ns: int, path: str, data: bytes | None) -> None:
        """A state was written: replicas in a failed log directory leave the ISR."""
        before, now = parsed_state(path, self._data(path), 0), parsed_state(path, data, 0)
        name = znodes.partition_of_state(path)
        if before is None or now is None or name is None:
            return
        for broker in before.isr:
            if broker not in now.isr:
                self._directories.left_isr(ns, broker, name)

    def _data(self, path: str) -> bytes | None:
        """The data of a znode before the operation."""
        try:
            return self._log.state.tree.get(f"{self._chroot}{path}").data
        except Refused:
            return None

    def _config(self, path: str) -> dict[str, str]:
        node = self._log.state.tree.dump().get(f"{self._chroot}{path}")
        return parsed_config(path, node.data if node is not None else None)

    def _content(self, path: str) -> dict[tuple[str, int], tuple[int, ...]]:
        node = self._log.state.tree.dump().get(f"{self._chroot}{path}")
        return parsed_entries(path, node.data) if node is not None else {}
