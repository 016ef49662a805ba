"""Members of an ISR are assigned; a broker that failed, registered again or shuts down leaves the
ISRs, except as last member."""

import pytest

from controller.core import znodes
from controller.core.values import LeaderAndIsr
from replay.explore.invariants.known_cluster import LeaderCandidates
from replay.explore.invariants.replicas import (
    FailedLeaveIsr,
    IsrWithinAssignment,
    NoIneligibleInIsr,
)
from tests.replay.explore.invariants.facts import NAME, History

REFOLD = "refold 100"


def history(*live: int) -> History:
    made = History(FailedLeaveIsr)
    made.known.live_brokers_of = lambda process: live
    made.known.candidates_of = lambda process, name: LeaderCandidates((), live, live)
    made.state(1, 4, (1, 2, 3))
    return made


@pytest.mark.parametrize("code", ["broker_failed", "broker_bounced"])
def test_failed_broker_that_stays_in_an_isr_is_reported(code: str) -> None:
    made = history(1, 3)
    made.invariant.noticed(REFOLD, code, "broker 2")
    assert not made.reported
    made.invariant.handled(REFOLD)
    assert made.reported == [
        "failed-leave-isr: orders-0: broker 2 has failed or registered again, which refold 100 has "
        "handled; the ISR still is [1, 2, 3]"
    ]


def test_deposed_controller_cannot_remove_a_failed_broker() -> None:
    made = history(1, 3)
    made.known.has_role = lambda process: False
    made.invariant.noticed(REFOLD, "broker_failed", "broker 2")
    made.invariant.handled(REFOLD)
    made.invariant.noticed(REFOLD, "failover_done", "/controller")
    assert not made.reported


def test_bounced_broker_may_join_again_before_the_controller_is_idle() -> None:
    made = history(1, 2, 3)
    made.invariant.noticed(REFOLD, "broker_bounced", "broker 2")
    made.state(1, 5, (1, 3))
    made.state(1, 5, (1, 3, 2))
    made.invariant.handled(REFOLD)
    assert not made.reported


def test_last_member_of_an_isr_may_stay_when_its_broker_is_dead() -> None:
    made = history(3)
    for broker in (1, 2):
        made.invariant.noticed(REFOLD, "broker_failed", f"broker {broker}")
    made.state(-1, 5, (2,))
    made.invariant.handled(REFOLD)
    assert not made.reported


def test_isrs_of_a_topic_that_is_being_deleted_do_not_count() -> None:
    made = history(1, 3)
    made.invariant.noticed(REFOLD, "broker_failed", "broker 2")
    made.known.admin[znodes.delete_topic_path(NAME[0])] = b""
    made.invariant.handled(REFOLD)
    assert not made.reported


def test_failure_that_a_controller_handled_only_before_it_was_deposed_is_not_judged() -> None:
    made = history(1, 3)
    made.invariant.noticed(REFOLD, "broker_bounced", "broker 2")
    made.invariant.noticed(REFOLD, "elected", "/controller")
    made.invariant.handled(REFOLD)
    assert not made.reported


@pytest.mark.parametrize(("live", "is_reported"), [((1, 2), True), ((1, 2, 3), False)])
def test_broker_that_is_not_registered_has_left_all_isrs_at_the_end_of_a_failover(
    live: tuple[int, ...], is_reported: bool
) -> None:
    made = history(*live)
    made.invariant.noticed(REFOLD, "failover_done", "/controller")
    assert bool(made.reported) is is_reported


@pytest.mark.parametrize(("process", "is_reported"), [("broker 1", False), ("refold 100", True)])
def test_member_that_a_leader_added_itself_in_this_term_does_not_count(
    process: str, is_reported: bool
) -> None:
    made = history(1, 2)
    made.invariant.noticed(REFOLD, "elected", "/controller")
    made.state(1, 5, (1, 2))
    made.state(1, 5, (1, 2, 3), process=process)
    made.state(1, 6, (1, 2, 3))
    made.invariant.noticed(REFOLD, "failover_done", "/controller")
    assert bool(made.reported) is is_reported


def test_member_that_a_leader_added_itself_counts_in_the_next_term() -> None:
    made = history(1, 2)
    made.state(1, 5, (1, 2))
    made.state(1, 5, (1, 2, 3), process="broker 1")
    made.invariant.noticed(REFOLD, "elected", "/controller")
    made.invariant.noticed(REFOLD, "failover_done", "/controller")
    assert made.reported


@pytest.mark.parametrize(
    ("broker", "live", "is_reported"),
    [
        pytest.param(2, (1, 3), True, id="follower"),
        pytest.param(1, (2, 3), True, id="leader that another member could replace"),
        pytest.param(1, (), False, id="leader that no other member can replace"),
    ],
)
def test_broker_whose_shutdown_was_granted_is_in_no_isr(
    broker: int, live: tuple[int, ...], is_reported: bool
) -> None:
    made = history(*live)
    made.invariant.shutdown_granted(REFOLD, broker, 1)
    assert bool(made.reported) is is_reported


@pytest.mark.parametrize(("process", "is_reported"), [("broker 1", False), ("refold 100", True)])
def test_member_that_a_leader_adds_while_it_shuts_down_could_not_replace_it(
    process: str, is_reported: bool
) -> None:
    made = history(2)
    made.state(1, 5, (1,))
    made.state(1, 5, (1, 2), process=process)
    made.invariant.shutdown_granted(REFOLD, 1, 1)
    assert bool(made.reported) is is_reported


@pytest.mark.parametrize("is_reported", [False, True])
def test_kafkas_controller_whose_states_no_longer_change_is_not_judged(is_reported: bool) -> None:
    made = history(1, 3)
    made.invariant.noticed("stock 4", "batch_not_empty", "replica state machine")
    if is_reported:
        made.invariant.noticed("stock 4", "elected", "/controller")
    made.invariant.shutdown_granted("stock 4", 2, 1)
    assert bool(made.reported) is is_reported


def test_isr_outside_of_assignment_is_reported() -> None:
    history = History(IsrWithinAssignment)
    history.state(1, 1, (1, 2))
    assert not history.reported
    history.state(1, 1, (1, 2, 4))
    assert "the ISR has [4]" in history.reported[0]


def test_assignment_without_a_member_of_the_isr_is_reported() -> None:
    history = History(IsrWithinAssignment)
    history.state(1, 1, (1, 2, 3))
    history.assign((1, 2))
    assert "the ISR has [3]" in history.reported[0]


def test_tool_may_write_an_assignment_that_it_read_before_a_reassignment() -> None:
    history = History(IsrWithinAssignment)
    history.state(1, 1, (1, 2, 3))
    history.assign((1, 2), process="admin")
    assert not history.reported


@pytest.mark.parametrize("process", ["broker 1", "stock 1", "refold 100"])
def test_replica_that_a_tool_has_removed_may_join_until_a_controller_writes(process: str) -> None:
    """Seed 20262801: the controller did not know of the tool's write yet."""
    history = History(IsrWithinAssignment)
    history.state(1, 1, (1, 2))
    history.assign((1, 2), process="admin")
    history.state(1, 1, (1, 2, 3), process=process)
    assert not history.reported
    history.state(1, 1, (1, 2))
    history.assign((1, 2, 4))
    history.state(1, 1, (1, 2, 3), process=process)
    assert "the ISR has [3]" in history.reported[0]


@pytest.mark.parametrize("process", ["broker 1", "refold 100"])
def test_only_the_leader_may_add_a_replica_that_a_stock_controller_has_removed(
    process: str,
) -> None:
    history = History(IsrWithinAssignment)
    history.known.is_kafka = lambda one: one == "stock 1"
    history.state(1, 1, (1, 2))
    history.assign((1, 2), process="stock 1")
    history.state(1, 1, (1, 2, 3), process=process)
    if process == "broker 1":
        assert not history.reported
    else:
        assert "the ISR has [3]" in history.reported[0]


def test_replica_that_a_stock_controller_has_removed_may_stay_in_the_isr() -> None:
    history = History(IsrWithinAssignment)
    history.known.is_kafka = lambda one: one == "stock 1"
    history.state(-1, 1, (3,))
    history.assign((1, 2), process="stock 1")
    history.assign((2, 1))
    assert not history.reported


def test_leader_may_not_add_a_replica_that_refold_has_removed() -> None:
    history = History(IsrWithinAssignment)
    history.state(1, 1, (1, 2))
    history.assign((1, 2))
    history.state(1, 1, (1, 2, 3), process="broker 1")
    assert "the ISR has [3]" in history.reported[0]


def test_first_isr_of_a_partition_has_no_ineligible_replica() -> None:
    history = History(NoIneligibleInIsr)
    history.known.live_brokers_of = lambda process: (1, 2)
    history.invariant.decided("refold 100", NAME, LeaderAndIsr(1, 0, (1, 2), 0, 0))
    assert not history.reported
    history.invariant.decided("refold 100", NAME, LeaderAndIsr(1, 0, (1, 2, 3), 0, 0))
    assert "adds broker 3 to the ISR" in history.reported[0]


def test_replica_that_shuts_down_and_joins_the_isr_is_reported() -> None:
    history = History(NoIneligibleInIsr)
    live = {1: None, 2: None, 3: None}
    history.known.live_brokers_of = lambda process: live
    history.state(1, 1, (1,))
    history.invariant.decided("refold 100", NAME, LeaderAndIsr(1, 1, (1, 2), 0, 1))
    assert not history.reported
    del live[3]
    refused = LeaderAndIsr(1, 1, (1, 3), 5, 1)
    history.invariant.decided("refold 100", NAME, refused)
    assert not history.reported
    history.invariant.decided("refold 100", NAME, LeaderAndIsr(1, 1, (1, 3), 0, 1))
    assert "adds broker 3 to the ISR" in history.reported[0]


@pytest.mark.parametrize("ends", ["", "new term", "new registration"])
def test_controller_that_forgets_a_shutdown_that_it_granted_is_reported(ends: str) -> None:
    history = History(NoIneligibleInIsr)
    history.known.live_brokers_of = lambda process: (1, 2, 3)
    history.state(1, 1, (1,))
    history.known.granted["refold 100"] = {3: history.known.brokers[3]}
    if ends == "new term":
        history.known.granted.clear()
    elif ends == "new registration":
        history.known.brokers[3] += 1
    history.invariant.decided("refold 100", NAME, LeaderAndIsr(1, 1, (1, 3), 0, 1))
    assert bool(history.reported) is (not ends)
