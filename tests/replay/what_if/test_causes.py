"""Causes in words, and by the events that show them."""

import pytest

from replay.what_if.causes import (
    BrokerBounced,
    BrokerRegistered,
    BrokerUnregistered,
    ControllerGone,
    ExternalCause,
    ReplicaLagged,
    What,
    causes_shown_by,
    in_words,
    nearest,
)
from replay.world.inputs import (
    CancelReassignment,
    CreateTopic,
    ElectLeaders,
    EndCancellation,
    Reassign,
    Target,
)

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
