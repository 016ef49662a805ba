"""rollback-keeps-in-sync reports rollbacks that remove too much, and no others."""

import pytest

from controller.core import znodes
from controller.core.znodes import CANCEL_CONTENT, FORCED_CANCEL_CONTENT, Reassignment
from replay.explore.invariants.rollbacks import RollbackKeepsInSync
from tests.replay.explore.invariants.facts import NAME, History, configured

REFOLD = "refold 100"
LEAST = "min.insync.replicas"


def moving(least: str | None = "2", default: str | None = None) -> History:
    """The partition moves from 1,2,3 to 4,5,6, and 1,4,5 are in sync."""
    history = History(RollbackKeepsInSync)
    history.known.live_brokers_of = lambda process: (1, 2, 3, 4, 5, 6)
    history.known.configs = {
        znodes.topic_config_path("orders"): [{} if least is None else {LEAST: least}],
        znodes.broker_config_path(None): [{} if default is None else {LEAST: default}],
    }
    history.assign((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))
    history.state(1, 4, (1, 4, 5))
    return history


def roll_back(history: History, *isr: int) -> None:
    """The two writes of a rollback."""
    history.state(1, 5, isr)
    history.assign((1, 2, 3))


def record(history: History, *, legacy: bool) -> None:
    reassignment = Reassignment((4, 5, 6), 3, legacy, (1, 2, 3))
    path = znodes.reassignment_path(*NAME)
    history.admin(path, znodes.write_reassignment(reassignment))


@pytest.mark.parametrize(
    ("least", "default", "is_enough"),
    [("2", None, False), ("1", "2", True), (None, "2", False), (None, None, True)],
)
def test_rollback_that_leaves_too_few_in_sync_is_reported(
    least: str | None, default: str | None, is_enough: bool
) -> None:
    history = moving(least, default)
    roll_back(history, 1)
    assert bool(history.reported) is not is_enough


def test_rollback_with_enough_originals_in_sync_is_right() -> None:
    history = moving()
    history.state(1, 4, (1, 2, 4, 5))
    roll_back(history, 1, 2)
    assert not history.reported


def test_not_more_than_all_originals_are_needed() -> None:
    history = moving("5")
    history.state(1, 4, (1, 2, 3, 4, 5))
    roll_back(history, 1, 2, 3)
    assert not history.reported


@pytest.mark.parametrize("is_live", [True, False])
def test_members_that_have_failed_do_not_count(is_live: bool) -> None:
    history = moving()
    if not is_live:
        history.known.live_brokers_of = lambda process: (1, 2, 3, 6)
    roll_back(history, 1)
    assert bool(history.reported) is is_live


def test_members_that_have_restarted_do_not_count() -> None:
    history = moving()
    history.state(1, 5, (1,), restarted=(4, 5))
    history.assign((1, 2, 3))
    assert not history.reported


def test_isr_that_its_leader_has_shrunk_is_no_rollback() -> None:
    history = moving()
    history.state(1, 4, (1,))
    roll_back(history, 1)
    assert not history.reported


def test_target_that_is_replaced_is_no_rollback() -> None:
    history = moving()
    history.state(1, 5, (1,))
    history.assign((2, 1, 3), (), (1, 3))
    history.assign((1, 2, 3))
    assert not history.reported


@pytest.mark.parametrize(("legacy", "is_reported"), [(True, False), (False, True)])
def test_force_of_a_cancellation_is_for_entries_only(legacy: bool, is_reported: bool) -> None:
    history = moving()
    record(history, legacy=legacy)
    history.admin(znodes.REASSIGN_CANCEL, FORCED_CANCEL_CONTENT)
    roll_back(history, 1)
    assert bool(history.reported) is is_reported


@pytest.mark.parametrize("has_handled", [True, False])
def test_force_and_setting_that_the_controller_may_have_read_count(has_handled: bool) -> None:
    """Both are changed while the controller's procedure runs."""
    forced, lowered = moving(), moving("1")
    record(forced, legacy=True)
    forced.admin(znodes.REASSIGN_CANCEL, FORCED_CANCEL_CONTENT)
    forced.admin(znodes.REASSIGN_CANCEL, CANCEL_CONTENT)
    configured(lowered.known, "orders", LEAST, "2")
    for history in (forced, lowered):
        if has_handled:
            history.invariant.handled(REFOLD)
        roll_back(history, 1)
        assert bool(history.reported) is has_handled


def test_controller_without_kip_236_may_cancel_as_kafka_does() -> None:
    history = moving()
    history.known.restores_order = lambda process: False
    roll_back(history, 1)
    assert not history.reported


def test_topic_that_is_being_deleted_is_not_checked() -> None:
    history = moving()
    history.admin(znodes.delete_topic_path("orders"), b"")
    roll_back(history, 1)
    assert not history.reported
