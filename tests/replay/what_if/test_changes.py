"""Changes of an incident, and those that are not possible."""

from functools import cache
from pathlib import Path

import pytest

from replay.errors import ReplayError
from replay.what_if.causes import BrokerBounced, BrokerUnregistered, in_words
from replay.what_if.changes import WhatIfChanges, apply_changes
from replay.what_if.incident import Incident
from replay.world.inputs import CancelReassignment, CrashBroker, KillController
from tests.replay.what_if.simulated import incident_at

INCIDENTS = Path(__file__).parents[2] / "incidents"


@cache
def unclean_election() -> Incident:
    return incident_at(INCIDENTS / "unclean-election")


@cache
def reassignment() -> Incident:
    return incident_at(INCIDENTS / "reassignment")


@pytest.mark.parametrize("seq", [90, 91, 93])
def test_dropped_event_takes_its_cause_away(seq: int) -> None:
    changed = apply_changes(unclean_election(), WhatIfChanges(drop=(seq,)))
    assert [one.seq for one in changed.control if one not in changed.causes] == [90]
    assert changed.begin == 89
    assert changed.texts == ["event 90 did not happen: the registration of broker 1 ended"]


def test_delayed_event_happens_later() -> None:
    changed = apply_changes(unclean_election(), WhatIfChanges(delay=("90=1.5s",)))
    (before,) = [one for one in changed.control if one.seq == 90]
    (after,) = [one for one in changed.causes if one.seq == 90]
    assert after.at_ms - before.at_ms == 1_500
    assert isinstance(after.what, BrokerUnregistered)
    assert isinstance(before.what, BrokerUnregistered)
    assert after.what.gone_ms - before.what.gone_ms == 1_500


def test_crashed_broker_and_controller_are_new_causes() -> None:
    changed = apply_changes(
        unclean_election(), WhatIfChanges(crash=("broker=2@70", "controller@80"))
    )
    new = [one.what for one in changed.causes if one not in changed.control]
    assert [type(one) for one in new] == [CrashBroker, KillController]
    assert changed.begin == 70


def test_registered_broker_restarts_and_another_one_starts() -> None:
    changed = apply_changes(
        unclean_election(), WhatIfChanges(restart=("broker=2@70", "broker=3@80"))
    )
    new = [one for one in changed.causes if one not in changed.control]
    assert isinstance(new[0].what, BrokerBounced)
    assert in_words(new[1]) == "broker 3 registered"


def test_reassignments_under_way_are_cancelled() -> None:
    changed = apply_changes(reassignment(), WhatIfChanges(cancel_reassignment=("@105",)))
    (new,) = [one.what for one in changed.causes if one not in changed.control]
    assert isinstance(new, CancelReassignment)
    assert new.partitions == (("moved", 1),)


def test_settings_alone_begin_at_the_beginning() -> None:
    changed = apply_changes(unclean_election(), WhatIfChanges(set=("min.insync.replicas=2",)))
    assert changed.begin == unclean_election().first_seq
    assert changed.causes == changed.control
    assert changed.settings.brokers == {"min.insync.replicas": "2"}


def test_begin_can_be_earlier_than_the_change() -> None:
    assert apply_changes(unclean_election(), WhatIfChanges(drop=(90,), begin=60)).begin == 60


def test_acts_of_the_user_happen_in_every_future() -> None:
    changed = apply_changes(
        unclean_election(), WhatIfChanges(crash=("broker=2@70",), restart=("broker=3@80",))
    )
    new = [one for one in changed.causes if one not in changed.control]
    assert [one.is_certain for one in new] == [True, True]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (WhatIfChanges(drop=(95,)), r"--drop 95: .* did not come from outside.* event 90 \("),
        (WhatIfChanges(drop=(5000,)), "no event 5000"),
        (WhatIfChanges(drop=(90, 90)), "--drop 90: event 90 is changed twice"),
        (WhatIfChanges(drop=(90, 91)), "--drop 91: event 90 is changed twice"),
        (WhatIfChanges(drop=(90,), delay=("90=2s",)), "--delay 90: event 90 is changed twice"),
        (WhatIfChanges(delay=("90=1s", "90=2s")), "--delay 90: event 90 is changed twice"),
        (WhatIfChanges(delay=("90",)), "--delay 90 is not SEQ=TIME"),
        (WhatIfChanges(delay=("90=soon",)), "is not SEQ=TIME"),
        (
            WhatIfChanges(delay=("90=2",)),
            "--delay 90=2 is not SEQ=TIME with a unit, such as 120=2s",
        ),
        (
            WhatIfChanges(crash=("broker=9@70",)),
            "--crash broker=9@70: .*no broker 9; brokers: 1,2,3",
        ),
        (WhatIfChanges(restart=("broker=9@70",)), "--restart broker=9@70: the log has no broker 9"),
        (WhatIfChanges(crash=("broker=3@80",)), "broker 3 is not registered after event 80"),
        (WhatIfChanges(crash=("3@80",)), "is not broker=ID@SEQ or controller@SEQ"),
        (WhatIfChanges(restart=("broker=3",)), "is not broker=ID@SEQ or controller@SEQ"),
        (WhatIfChanges(cancel_reassignment=("@70",)), "under way are: none"),
        (WhatIfChanges(cancel_reassignment=("orders@70",)), "orders is not a partition"),
        (WhatIfChanges(cancel_reassignment=("70",)), "is not @SEQ or TOPIC-PARTITION@SEQ"),
        (WhatIfChanges(set=("unclean",)), "is not KEY=VALUE or TOPIC:KEY=VALUE"),
        (WhatIfChanges(set=("absent:retention.ms=1",)), "the log has no topic absent"),
        (WhatIfChanges(drop=(90,), begin=100), "--from 100 is after a change"),
    ],
)
def test_change_that_is_not_possible_is_refused(changes: WhatIfChanges, text: str) -> None:
    with pytest.raises(ReplayError, match=text):
        apply_changes(unclean_election(), changes)
