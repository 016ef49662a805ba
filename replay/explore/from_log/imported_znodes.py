"""Reads from an imported log what a search needs besides: several controllers, added partitions,
and what no input can be made of.

Each stock controller that had the role is a refold in the scenario.
"""

from contextlib import suppress
from typing import Final

from controller.core import znodes
from controller.core.configuration import Configuration
from controller.core.errors import ZnodeError
from controller.core.znodes.acls import EXTENDED_ACLS, LITERAL_ACLS
from replay.explore.from_log.imported import REFOLD, ImportedIncident
from replay.explore.from_log.schedule import RunFromLog, Schedule, targets_of
from replay.parsed_znodes import (
    is_request,
    parsed_entries,
    parsed_request,
    parsed_topic,
)
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.stock_clusters.zookeeper_log.transactions import Create, Delete, Operation, SetData
from replay.world.inputs import (
    CreatePartitions,
    DeleteStrays,
    EndCancellation,
    KillController,
    PauseProcess,
    Reassign,
    ShutDownController,
)
from replay.world.processes import refold_name
from replay.znode_tree.paths import below

_REFOLDS_MAX: Final = 3
_SESSION_MS: Final = 6_000
_RESTART_MS: Final = 2_000

_LEFT_OUT: Final = {
    f"{znodes.USER_CONFIGS}/": "changes of quotas and users",
    f"{znodes.CLIENT_CONFIGS}/": "changes of quotas and users",
    f"{znodes.IP_CONFIGS}/": "changes of quotas and users",
    f"{LITERAL_ACLS}/": "changes of ACLs",
    f"{EXTENDED_ACLS}/": "changes of ACLs",
    znodes.FEATURE: "updates of features",
}


def from_imported(log: ImportedLog) -> RunFromLog:
    """The scenario and inputs of a log. Raises ReplayError."""
    schedule = Schedule(Configuration(broker_id=REFOLD, kip_236_enable=True))
    incident = _ExploredImport(log, schedule)
    for record, event in log.events():
        incident.apply(record.wall_ns, event)
        if schedule.is_full:
            break
    if not incident.has_begun:
        incident.begin(0)
    incident.end()
    return schedule.result()


class _ExploredImport(ImportedIncident):
    def __init__(self, log: ImportedLog, schedule: Schedule) -> None:
        super().__init__(log, schedule)
        self._refolds: dict[int, int] = {}
        """The refold for each broker whose controller had the role."""
        self._killed: dict[int, KillController] = {}

    def begin(self, ns: int) -> None:
        """The incident begins, with the state of the log."""
        super().begin(ns)
        data = self.content().get(znodes.CONTROLLER)
        if data is not None:
            self._refold(data)

    # Controllers

    def _refold(self, data: bytes) -> str:
        """The refold that has the role of the controller with this znode."""
        found = znodes.read_controller(data)
        broker = found.brokerid if found is not None else -1
        number = len(self._refolds) % _REFOLDS_MAX
        id = self._refolds.setdefault(broker, REFOLD + number)
        self._schedule.controllers.seen(id)
        return refold_name(id)

    def _role_ended(self, ns: int, data: bytes, *, is_orderly: bool) -> None:
        at_ms, process = self._schedule.ms_of(ns), self._refold(data)
        if is_orderly:
            self._schedule.add(ShutDownController(at_ms, process, _RESTART_MS))
            return
        kill = KillController(at_ms, process)
        self._schedule.add(kill)
        found = znodes.read_controller(data)
        if found is not None:
            self._killed[found.brokerid] = kill

    def _registers(self, ns: int, broker: int) -> None:
        kill = self._killed.pop(broker, None)
        inputs = self._schedule.inputs
        if kill in inputs and not self._started.get(broker, True):
            # The process was paused until its session had expired.
            begin_ms = max(0, kill.at_ms - _SESSION_MS)
            pause = PauseProcess(begin_ms, kill.process, self._schedule.ms_of(ns) - begin_ms)
            inputs[inputs.index(kill)] = pause
        super()._registers(ns, broker)

    # Znodes

    def _note_operation(self, ns: int, operation: Operation) -> None:
        super()._note_operation(ns, operation)
        path = below(getattr(operation, "path", ""), self._chroot) or ""
        data = getattr(operation, "data", None)
        schedule = self._schedule
        match operation:
            case Create() if path == znodes.CONTROLLER and data is not None:
                self._refold(data)
            case Create() | SetData() if path == znodes.REASSIGN_PARTITIONS_EXTRA:
                self._note_reassignment(ns, parsed_entries(path, data), "extra")
            case Create() if is_request(path):
                request = parsed_request(path, data)
                route = "legacy_request" if request.legacy else "request"
                self._note_reassignment(ns, request.assignments, route)
            case Create() if path.startswith(znodes.DELETION_PREFIX):
                self._note_strays(ns, path, data)
            case Delete() if path == znodes.REASSIGN_CANCEL:
                schedule.add(EndCancellation(schedule.ms_of(ns)))
            case SetData() if (topic := znodes.topic_of(path)) is not None:
                self._note_added(ns, topic, data)
            case Create() | SetData():
                kind = next((_LEFT_OUT[one] for one in _LEFT_OUT if path.startswith(one)), None)
                if kind is not None:
                    schedule.leave_out(kind)
            case _:
                pass

    def _note_reassignment(
        self, ns: int, entries: dict[tuple[str, int], tuple[int, ...]], route: str
    ) -> None:
        if entries:
            at_ms = self._schedule.ms_of(ns)
            self._schedule.add(Reassign(at_ms, targets_of(entries), route))  # type: ignore[arg-type]

    def _note_added(self, ns: int, topic: str, data: bytes | None) -> None:
        """A topic's znode was changed: perhaps it has more partitions."""
        before = parsed_topic(topic, self._data(znodes.topic_path(topic)))
        now = parsed_topic(topic, data)
        if before is None or now is None:
            return
        added = tuple(
            assignment.origin
            for number, assignment in now.assignments.items()
            if number not in before.assignments
        )
        if added and before.assignments:
            self._schedule.add(CreatePartitions(self._schedule.ms_of(ns), topic, added, "znode"))

    def _note_strays(self, ns: int, path: str, data: bytes | None) -> None:
        with suppress(ZnodeError):
            deletion = znodes.read_deletion(path, data)
            strays = DeleteStrays(self._schedule.ms_of(ns), deletion.broker, deletion.partitions)
            self._schedule.add(strays)
