"""The draws of the controllers of a simulated cluster."""

from base64 import urlsafe_b64encode

import pytest

from replay.world.draws import Draws

NAMES = [f"{kind} {number}" for kind in ("stock", "refold") for number in range(200)]


@pytest.mark.timeout(20)
def test_each_process_draws_other_topic_ids_at_once_which_begin_with_no_dash() -> None:
    """The text of "stock 2" would begin with a dash: its ids were searched for 15 seconds."""
    ids = [draws.topic_id() for name in NAMES for draws in [Draws(7, name)] for _ in range(3)]
    assert len({*ids}) == 3 * len(NAMES)
    assert {len(one) for one in ids} == {16}
    assert not [one for one in ids if urlsafe_b64encode(one).startswith(b"-")]


def test_same_seed_and_process_draw_the_same() -> None:
    first, second = Draws(7, "stock 2"), Draws(7, "stock 2")
    assert [first.topic_id(), first.below(9)] == [second.topic_id(), second.below(9)]
    assert Draws(8, "stock 2").topic_id() != Draws(7, "stock 2").topic_id()
