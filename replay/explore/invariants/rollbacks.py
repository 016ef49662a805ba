"""The invariant of what a rollback leaves in sync."""

from typing import ClassVar

from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.core.topic_configs import MIN_INSYNC_REPLICAS, least_in_sync
from controller.core.values import Assignment
from controller.core.znodes import Name
from replay.explore.invariants.invariant import (
    AssignmentWrite,
    Invariant,
    Report,
    StateWrite,
)
from replay.explore.invariants.known_cluster import KnownCluster, KnownTopic
from replay.names import partition_name


class RollbackKeepsInSync(Invariant):
    """Source: docs/kip-236-design.md#when-a-rollback-waits

    Until the topic's znode has the originals, a smaller ISR may be that of a rollback, or of a
    target that is replaced, which may remove replicas in sync. Leaders shrink ISRs without a new
    leader epoch.
    """

    NAME: ClassVar[str] = "rollback-keeps-in-sync"
    STATEMENT: ClassVar[str] = (
        "A rollback by any route that removes live replicas from the ISR leaves enough members, "
        "unless /admin/reassign_cancel forces it. Enough is min(min.insync.replicas, number of "
        "originals, size of the ISR before). Kafka's own cancellations, without kip-236.enable, "
        "do not count."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._found: dict[Name, str] = {}
        """The ISRs that are too small if the originals are stored next."""
        self._is_forced = False
        """Whether a procedure that runs may have read that the znode forces rollbacks."""
        self._seen: dict[str, int] = {}
        """For each list of `KnownCluster.configs` the place of the earliest value that a procedure
        that runs may have read."""

    def admin_written(self, path: str, data: bytes | None, process: str) -> None:
        if path == znodes.REASSIGN_CANCEL:
            self._is_forced = self._is_forced or self._forces()

    def _forces(self) -> bool:
        try:
            return znodes.read_force(self.known.admin.get(znodes.REASSIGN_CANCEL))
        except ZnodeError:
            return False

    def handled(self, process: str) -> None:
        known = self.known
        if known.is_refold(process) and known.has_role(process):
            self._is_forced = self._forces()
            self._seen = {path: len(values) - 1 for path, values in known.configs.items()}

    def state_written(self, write: StateWrite) -> None:
        before, after = write.before, write.after
        if before is None or after.leader_epoch == before.leader_epoch:
            return
        self._found.pop(write.name, None)
        assignment = self.known.assignment(write.name)
        if assignment is None or not self._is_rollback_step(write, assignment):
            return
        needed = min(
            self._min_insync_replicas(write.name[0]), len(assignment.origin), len(before.isr)
        )
        if len(after.isr) < needed:
            self._found[write.name] = (
                f"{write.process} left {list(after.isr)} of the ISR {list(before.isr)} in the "
                f"rollback to {list(assignment.origin)}; {needed} are needed"
            )

    def _is_rollback_step(self, write: StateWrite, assignment: Assignment) -> bool:
        """Whether the write may be the one by which a rollback removes live replicas from the
        ISR."""
        known, process, before = self.known, write.process, write.before
        if not known.is_refold(process) or not known.restores_order(process) or before is None:
            return False
        live = known.surely_live_of(process) or ()
        choice = known.candidates_of(process, write.name)
        online = choice.surely_online if choice is not None else tuple(live)
        removed = [
            one
            for one in before.isr
            if one not in write.after.isr
            and one not in assignment.origin
            and one not in write.restarted
            and one in live
            and one in online
        ]
        if not removed or known.is_queued(write.name[0]):
            return False
        return not self._is_forced or self._is_of_other_route(write.name)

    def _is_of_other_route(self, name: Name) -> bool:
        """Whether /admin/reassign_cancel does not cancel the reassignment."""
        path = znodes.reassignment_path(*name)
        try:
            return not znodes.read_reassignment(path, self.known.admin.get(path)).legacy
        except ZnodeError:
            return False

    def _min_insync_replicas(self, topic: str) -> int:
        """The smallest min.insync.replicas that the controller may have read."""
        own = self._values(znodes.topic_config_path(topic))
        default = self._values(znodes.broker_config_path(None))
        return min(least_in_sync([one, other]) for one in own for other in default)

    def _values(self, path: str) -> list[str | None]:
        return self.known.settings(path, MIN_INSYNC_REPLICAS)[self._seen.get(path, 0) :]

    def assignment_written(self, write: AssignmentWrite) -> None:
        text, before = self._found.pop(write.name, ""), write.before
        if not text or before is None or not self.known.is_refold(write.process):
            return
        if write.after.is_being_reassigned or not before.is_being_reassigned:
            return
        if set(write.after.replicas) == set(before.origin):
            self.violated(partition_name(*write.name), text)

    def topic_deleted(self, topic: KnownTopic) -> None:
        for number in topic.assignments:
            self._found.pop((topic.name, number), None)
