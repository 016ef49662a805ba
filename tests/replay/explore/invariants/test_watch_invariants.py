"""Controllers read announced changes, and know what they have read."""

import pytest

from controller.core import znodes
from replay.explore.invariants.watches import ChangedListsRead, ReadListsKnown
from tests.replay.explore.invariants.facts import History

REFOLD = "refold 100"
BROKERS = znodes.BROKER_IDS


@pytest.mark.parametrize(("asked", "is_reported"), [(6, True), (7, False), (9, False)])
def test_list_that_was_not_asked_for_since_it_changed_is_reported(
    asked: int, is_reported: bool
) -> None:
    made = History(ChangedListsRead)
    made.invariant.list_changed(REFOLD, BROKERS, 7)
    made.invariant.list_read(REFOLD, BROKERS, ["1"], asked)
    made.invariant.list_read(REFOLD, znodes.TOPICS, ["orders"], 9)
    made.invariant.list_read("refold 101", BROKERS, ["1"], 9)
    made.invariant.handled(REFOLD)
    assert bool(made.reported) is is_reported


def test_change_of_a_list_in_an_earlier_term_is_not_judged() -> None:
    made = History(ChangedListsRead)
    made.invariant.list_changed(REFOLD, BROKERS, 7)
    made.invariant.noticed(REFOLD, "resigned", "/controller")
    made.invariant.handled(REFOLD)
    assert not made.reported


@pytest.mark.parametrize(
    ("known", "is_reported"),
    [(["1"], True), (["1", "2"], False), (["1", "2", "3"], False), (None, False)],
)
def test_child_that_was_read_and_is_not_known_is_reported(
    known: list[str] | None, is_reported: bool
) -> None:
    made = History(ReadListsKnown)
    made.known.children_known_to = lambda process, path: known
    made.invariant.list_read(REFOLD, BROKERS, ["1", "2"], 7)
    made.invariant.handled(REFOLD)
    assert bool(made.reported) is is_reported


def test_list_that_was_read_in_an_earlier_term_is_not_judged() -> None:
    made = History(ReadListsKnown)
    made.known.children_known_to = lambda process, path: []
    made.invariant.list_read(REFOLD, BROKERS, ["1"], 7)
    made.invariant.noticed(REFOLD, "elected", "/controller")
    made.invariant.handled(REFOLD)
    assert not made.reported
