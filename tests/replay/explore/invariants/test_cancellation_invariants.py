"""Invariants of KIP-236: each reports its planted history, and not the right one."""

import pytest

from controller.core import znodes
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    ReassignmentTarget,
)
from controller.core.values import Assignment
from controller.core.znodes import Entry, Reassignment
from replay.explore.invariants.cancellations import (
    CancelledEntriesGone,
    CancelledRolledBack,
    EntriesAccountedFor,
    NothingCompletesWhileCancelled,
    OlderEntriesRemoved,
    RecordsOutliveMoves,
)
from replay.explore.invariants.invariant import AssignmentWrite, Invariant
from tests.replay.explore.invariants.facts import NAME, History

REFOLD = "refold 100"
REQUEST = f"{znodes.REQUEST_PREFIX}0000000001"
ENTRY = znodes.write_entries({NAME: Entry((1, 2, 4))})
RECORD = znodes.write_reassignment(Reassignment((1, 2, 4), 3, True, (1, 2, 3)))
RECORD_PATH = znodes.reassignment_path(*NAME)
MOVING = Assignment((1, 2, 4, 3), (4,), (3,))
DONE = Assignment((1, 2, 4))
ORIGINAL = Assignment((1, 2, 3))


class Cancelling(History):
    """A partition that moves from 1,2,3 to 1,2,4 by an entry."""

    def __init__(self, invariant: type[Invariant]) -> None:
        super().__init__(invariant)
        self.known.cancel = 7
        self.cancel_known = 0
        self.known.cancel_known_to = lambda process: self.cancel_known
        self.known.active_process = lambda: REFOLD

    def begin(self) -> None:
        self.admin(znodes.REASSIGN_PARTITIONS, ENTRY, "admin")
        self.admin(RECORD_PATH, RECORD)
        self.write(MOVING)

    def cancel(self) -> None:
        self.admin(znodes.REASSIGN_CANCEL, b"{}", "admin")
        self.cancel_known = 7
        self.log("reassignments_cancelled", znodes.REASSIGN_CANCEL)

    def admin(self, path: str, data: bytes | None, process: str = REFOLD) -> None:
        if data is None:
            self.known.admin.pop(path, None)
        else:
            self.known.admin[path] = data
            if process == "admin":
                self.known.requests_of(NAME).submitted += path == znodes.REASSIGN_PARTITIONS
        self.invariant.admin_written(path, data, process)

    def write(self, after: Assignment, process: str = REFOLD) -> None:
        before, self.topic.assignments[0] = self.topic.assignments[0], after
        write = AssignmentWrite(NAME, self.topic, before, after, process)
        self.invariant.assignment_written(write)

    def log(self, code: str, subject: str = "orders-0") -> None:
        self.invariant.noticed(REFOLD, code, subject)


@pytest.mark.parametrize("knows", [True, False])
def test_completion_while_a_cancellation_is_known_is_reported(knows: bool) -> None:
    history = Cancelling(NothingCompletesWhileCancelled)
    history.begin()
    history.cancel_known = 7 if knows else 0
    history.write(DONE)
    assert bool(history.reported) is knows


@pytest.mark.parametrize("logs", ["", "rollback_given_up"])
def test_cancelled_move_that_completes_is_reported_unless_the_rollback_is_given_up(
    logs: str,
) -> None:
    history = Cancelling(CancelledRolledBack)
    history.begin()
    history.cancel()
    history.admin(znodes.REASSIGN_CANCEL, None, "admin")
    if logs:
        history.log(logs)
    history.write(DONE)
    assert bool(history.reported) is not bool(logs)


def test_completion_before_the_controller_handles_the_cancellation_is_right() -> None:
    history = Cancelling(CancelledRolledBack)
    history.begin()
    history.admin(znodes.REASSIGN_CANCEL, b"{}", "admin")
    history.write(DONE)
    assert not history.reported


@pytest.mark.parametrize("again", [True, False])
def test_cancelled_entry_that_begins_again_is_reported_unless_requested_again(again: bool) -> None:
    history = Cancelling(CancelledEntriesGone)
    history.begin()
    history.cancel()
    history.write(ORIGINAL)
    if again:
        history.known.requests_of(NAME).submitted += 1
    history.write(MOVING)
    assert bool(history.reported) is not again


def test_cancelled_entry_that_was_requested_again_may_begin_after_another_cancellation() -> None:
    history = Cancelling(CancelledEntriesGone)
    history.begin()
    history.cancel()
    history.write(ORIGINAL)
    history.admin(znodes.REASSIGN_CANCEL, None, "admin")
    history.known.admin[REQUEST] = znodes.write_request({NAME: (1, 2, 4)})
    history.known.requests_of(NAME).submitted += 1
    history.cancel()
    history.write(MOVING)
    assert not history.reported


def test_tool_that_writes_the_topic_as_it_was_before_the_rollback_is_not_reported() -> None:
    history = Cancelling(CancelledEntriesGone)
    history.begin()
    history.cancel()
    history.write(ORIGINAL)
    history.write(MOVING, "admin")
    assert not history.reported


@pytest.mark.parametrize("known", [7, 6, 0])
def test_cancellation_that_is_removed_before_the_controller_knows_it_covers_nothing(
    known: int,
) -> None:
    """6: the controller still knows an earlier one, of which it has not learnt the end."""
    history = Cancelling(CancelledEntriesGone)
    history.begin()
    history.admin(znodes.REASSIGN_CANCEL, b"{}", "admin")
    history.cancel_known = known
    history.admin(znodes.REASSIGN_CANCEL, None, "admin")
    history.write(ORIGINAL)
    history.write(MOVING)
    assert bool(history.reported) is (known == 7)


def test_znode_that_is_no_record_of_a_partition_is_ignored() -> None:
    history = Cancelling(RecordsOutliveMoves)
    for number in ("²", "00000000001", "x"):
        path = f"{znodes.REASSIGNMENTS}/{NAME[0]}/{number}"
        history.admin(path, RECORD)
        history.admin(path, None)
    assert not history.reported


@pytest.mark.parametrize("ended", [True, False])
def test_record_that_is_deleted_before_its_move_ends_is_reported(ended: bool) -> None:
    history = Cancelling(RecordsOutliveMoves)
    history.admin(RECORD_PATH, RECORD)
    history.topic.assignments[0] = DONE if ended else MOVING
    history.admin(RECORD_PATH, None)
    assert bool(history.reported) is not ended


@pytest.mark.parametrize("is_rewritten", [True, False])
def test_entry_that_a_client_rewrites_during_a_rollback_needs_its_own_log_line(
    is_rewritten: bool,
) -> None:
    history = Cancelling(EntriesAccountedFor)
    history.begin()
    if is_rewritten:
        history.admin(
            znodes.REASSIGN_PARTITIONS, znodes.write_entries({NAME: Entry((4,))}), "admin"
        )
    history.log("rollback")
    history.write(ORIGINAL)
    history.admin(znodes.REASSIGN_PARTITIONS, None)
    assert bool(history.reported) is is_rewritten


def test_record_is_deleted_although_a_tool_wrote_the_topic_as_it_was_before_the_end() -> None:
    history = Cancelling(RecordsOutliveMoves)
    history.begin()
    history.write(ORIGINAL)
    history.write(MOVING, "admin")
    history.admin(RECORD_PATH, None)
    assert not history.reported


@pytest.mark.parametrize("logs", ["", "reassignment_refused"])
def test_entry_that_is_removed_without_a_log_line_is_reported(logs: str) -> None:
    history = Cancelling(EntriesAccountedFor)
    history.admin(znodes.REASSIGN_PARTITIONS, ENTRY, "admin")
    if logs:
        history.log(logs)
    history.admin(znodes.REASSIGN_PARTITIONS, None)
    assert bool(history.reported) is not bool(logs)


@pytest.mark.parametrize("is_idle", [True, False])
def test_logged_entry_that_a_client_writes_again_at_once_counts_as_the_same(is_idle: bool) -> None:
    """The controller cannot see that the entry was absent in between."""
    history = Cancelling(EntriesAccountedFor)
    history.admin(znodes.REASSIGN_PARTITIONS, ENTRY, "admin")
    history.log("reassignment_cancelled")
    other = znodes.write_entries({("orders", 1): Entry((4,))})
    history.admin(znodes.REASSIGN_PARTITIONS, other, "admin")
    if is_idle:
        history.invariant.handled(REFOLD)
    history.admin(znodes.REASSIGN_PARTITIONS, ENTRY, "admin")
    history.admin(znodes.REASSIGN_PARTITIONS, None)
    assert bool(history.reported) is is_idle


def test_entry_that_a_request_by_api_replaces_is_accounted_for() -> None:
    """KB 7.3 step 4: the controller has received the request before the entry was written."""
    history = Cancelling(EntriesAccountedFor)
    target = ReassignmentTarget("orders", 0, (4,))
    asked = AlterPartitionReassignmentsReceived(7, 0, [target])
    history.known.open_requests["refold 100", 7] = asked
    history.admin(znodes.REASSIGN_PARTITIONS, ENTRY, "admin")
    history.admin(znodes.REASSIGN_PARTITIONS, None)
    assert not history.reported


def test_entry_that_moves_from_the_extra_znode_is_accounted_for() -> None:
    history = Cancelling(EntriesAccountedFor)
    history.admin(znodes.REASSIGN_PARTITIONS_EXTRA, ENTRY, "admin")
    history.admin(znodes.REASSIGN_PARTITIONS, ENTRY)
    history.admin(znodes.REASSIGN_PARTITIONS_EXTRA, None)
    assert not history.reported


def test_entry_whose_outcome_was_logged_is_accounted_for_despite_a_later_extra_entry() -> None:
    history = Cancelling(EntriesAccountedFor)
    history.admin(znodes.REASSIGN_PARTITIONS, ENTRY, "admin")
    history.log("reassignment_cancelled")
    other = znodes.write_entries({NAME: Entry((4, 1, 2))})
    history.admin(znodes.REASSIGN_PARTITIONS_EXTRA, other, "admin")
    history.admin(znodes.REASSIGN_PARTITIONS, None)
    assert not history.reported
    history.admin(znodes.REASSIGN_PARTITIONS_EXTRA, None)
    assert history.reported


def test_entry_that_moved_from_the_extra_znode_must_be_accounted_for_there() -> None:
    history = Cancelling(EntriesAccountedFor)
    history.admin(znodes.REASSIGN_PARTITIONS_EXTRA, ENTRY, "admin")
    history.admin(znodes.REASSIGN_PARTITIONS, ENTRY)
    history.admin(znodes.REASSIGN_PARTITIONS_EXTRA, None)
    history.admin(znodes.REASSIGN_PARTITIONS, None)
    assert history.reported


@pytest.mark.parametrize(
    ("left", "known", "is_reported"),
    [
        pytest.param("entry", 7, True, id="entry of nothing"),
        pytest.param("entry", 0, False, id="cancellation that the controller does not know"),
        pytest.param("entry", 6, False, id="earlier cancellation that the controller knows"),
        pytest.param("record", 7, False, id="entry with a record"),
        pytest.param("move", 7, False, id="entry of a reassignment under way"),
        pytest.param("younger", 7, False, id="znode that was written since"),
        pytest.param("none", 7, False, id="no entry"),
    ],
)
def test_older_entry_that_is_left_after_a_cancellation_is_reported(
    left: str, known: int, is_reported: bool
) -> None:
    history = Cancelling(OlderEntriesRemoved)
    history.admin(znodes.REASSIGN_PARTITIONS, ENTRY, "admin")
    if left == "record":
        history.admin(RECORD_PATH, RECORD)
    if left == "move":
        history.write(MOVING)
    history.admin(znodes.REASSIGN_CANCEL, b"{}", "admin")
    if left in ("younger", "none"):
        history.admin(znodes.REASSIGN_PARTITIONS, ENTRY if left == "younger" else None, "admin")
    history.cancel_known = known
    history.invariant.handled(REFOLD)
    assert bool(history.reported) is is_reported


def test_entry_that_is_left_after_the_end_of_a_cancellation_is_no_longer_judged() -> None:
    history = Cancelling(OlderEntriesRemoved)
    history.admin(znodes.REASSIGN_PARTITIONS, ENTRY, "admin")
    history.admin(znodes.REASSIGN_CANCEL, b"{}", "admin")
    history.admin(znodes.REASSIGN_CANCEL, None, "admin")
    history.cancel_known = 7
    history.invariant.handled(REFOLD)
    assert not history.reported


def test_entry_that_a_deposed_controller_could_not_remove_is_not_judged() -> None:
    history = Cancelling(OlderEntriesRemoved)
    history.admin(znodes.REASSIGN_PARTITIONS, ENTRY, "admin")
    history.admin(znodes.REASSIGN_CANCEL, b"{}", "admin")
    history.cancel_known = 7
    history.known.has_role = lambda process: False
    history.invariant.handled(REFOLD)
    assert not history.reported


def test_cancellation_that_only_a_deposed_controller_has_handled_undoes_nothing() -> None:
    history = Cancelling(CancelledRolledBack)
    history.begin()
    history.known.has_role = lambda process: process != REFOLD
    history.cancel()
    history.write(DONE, "refold 101")
    assert not history.reported
