"""Causes in words, and by the events that show them."""

import pytest

from controller.core.configuration import Configuration
from replay.what_if.causes import (
    BrokerBounced,
    BrokerRegistered,
    BrokerUnregistered,
    Causes,
    ControllerGone,
    ExternalCause,
    ReplicaLagged,
    What,
    causes_shown_by,
    in_words,
    nearest,
)
from replay.what_if.history import ClusterHistory
from replay.world.inputs import (
    CancelReassignment,
    CreateTopic,
    DeleteControllerZnode,
    ElectLeaders,
    EndCancellation,
    FailLogDirectory,
    Reassign,
    Target,
)

MS = 1_000_000


def begun() -> Causes:
    """An incident with broker 2, which begins at 0."""
    causes = Causes(Configuration(broker_id=100), ClusterHistory())
    causes.begin(0, {}, [2])
    return causes


def found(causes: Causes) -> list[What]:
    return [one.what for one in causes.found]


GONE = ExternalCause(67, 7_000, BrokerUnregistered(2, 67, 7_000), 70)
BACK = ExternalCause(82, 9_000, BrokerRegistered(2))


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (GONE.what, "the registration of broker 2 ended"),
        (BrokerUnregistered(2, 67, 7_000, True), "broker 2 shut down"),
        (BrokerRegistered(2), "broker 2 registered"),
        (BrokerBounced(2), "broker 2 ended and registered again"),
        (ControllerGone("refold 1"), "the session of the controller ended"),
        (ControllerGone("refold 1", is_deletion=True), "the znode of the controller was deleted"),
        (
            FailLogDirectory(0, 2, (("t", 0), ("u", 1))),
            "the log directory of t-0, u-1 on broker 2 failed, until a repair 20 s later",
        ),
        (ReplicaLagged(2, "t", 0, None), "broker 2 fell out of the ISR of t-0, while it ran"),
        (ElectLeaders(0, (("t", 0),), "unclean"), "a client requested an unclean election of t-0"),
        (ElectLeaders(0), "a client requested a preferred election of all partitions"),
        (
            Reassign(0, tuple(Target("t", number, (1,)) for number in range(7))),
            "a client requested the reassignment of "
            "t-0 to 1; t-1 to 1; t-2 to 1; t-3 to 1; t-4 to 1 and 2 more",
        ),
        (
            CancelReassignment(0, (("t", 0),)),
            "a client cancelled the reassignment of t-0",
        ),
        (CreateTopic(0, "t", ((1,),)), "topic t was created"),
        (EndCancellation(5_000), "a client deleted /admin/reassign_cancel"),
    ],
)
def test_cause_is_described(what: What, words: str) -> None:
    assert in_words(ExternalCause(1, 0, what)) == words


def test_event_between_the_first_and_the_last_shows_a_cause() -> None:
    assert causes_shown_by([GONE, BACK], 68) == [GONE]
    assert causes_shown_by([GONE, BACK], 82) == [BACK]
    assert causes_shown_by([GONE, BACK], 75) == []


def test_nearest_causes_are_a_hint() -> None:
    hint = nearest([GONE, BACK], 80)
    assert hint.startswith("event 82 (broker 2 registered), event 67 (")


def test_controller_is_absent_until_its_last_decision_of_the_take_over() -> None:
    causes = begun()
    causes.controller_gone(1_000 * MS, is_expired=False)
    causes.controller_elected(1_500)
    causes.controller_acts(2_000, has_taken_over=False)
    causes.controller_acts(2_500, has_taken_over=False)
    causes.controller_acts(3_000, has_taken_over=True)
    causes.controller_acts(4_000, has_taken_over=False)
    assert found(causes) == [ControllerGone("refold 100", absent_ms=1_500)]


def test_controller_that_takes_over_without_a_decision_is_absent_until_then() -> None:
    causes = begun()
    causes.controller_gone(1_000 * MS, is_expired=False)
    causes.controller_elected(1_500)
    causes.controller_acts(3_000, has_taken_over=True)
    assert found(causes) == [ControllerGone("refold 100", absent_ms=2_000)]


def test_controller_whose_znode_was_deleted_is_absent_until_another_one_acts() -> None:
    causes = begun()
    causes.add(DeleteControllerZnode(1_000))
    causes.controller_elected(1_100)
    assert found(causes) == [ControllerGone("refold 100", absent_ms=100, is_deletion=True)]


@pytest.mark.parametrize(("acted_ms", "failed_ms"), [(0, 6_000), (25_000, 4_000), (29_900, 0)])
def test_controller_whose_session_expired_failed_after_it_had_acted(
    acted_ms: int, failed_ms: int
) -> None:
    causes = begun()
    causes.acted_ms = acted_ms
    causes.controller_gone(30_000 * MS, is_expired=True)
    assert found(causes) == [ControllerGone("refold 100", failed_ms=failed_ms)]


def test_broker_that_shuts_down_at_the_end_of_a_log_ends_later() -> None:
    causes = begun()
    causes.stopping(5_000 * MS, 2)
    causes.end(6_000)
    (gone,) = causes.found
    assert isinstance(gone.what, BrokerUnregistered)
    assert (gone.at_ms, gone.what.is_controlled) == (5_000, True)
    assert gone.what.gone_ms > 6_000
