"""Only a record that a member of the ISR truncated when it began to follow is a known flaw."""

import pytest

from replay.explore.kafka_0_8.losses import Losses08

T = ("t", 0)
RECORD, OFFSET, FOLLOWER, EPOCH = 77, 5, 2, 3


@pytest.fixture
def losses() -> Losses08:
    """Brokers 1 and 2 are in the ISR."""
    found = Losses08()
    found.isr_written(T, (1, FOLLOWER))
    return found


def is_flaw(losses: Losses08, record: int = RECORD, offset: int = OFFSET) -> bool:
    """Whether a record that is lost is a flaw, which is reported then."""
    reported: list[str] = []
    losses.on_flaw = lambda name, text: reported.append(text)
    result = losses.may_be_lost(T, offset, record, 0, EPOCH)
    assert len(reported) == result
    return result


def test_record_truncated_by_a_member_that_leads_is_a_flaw(losses: Losses08) -> None:
    losses.cut(T, FOLLOWER, OFFSET - 1, [76, RECORD])
    assert not is_flaw(losses)
    losses.leadership_begun(T, 1, EPOCH)
    assert not is_flaw(losses)
    losses.leadership_begun(T, FOLLOWER, EPOCH)
    assert is_flaw(losses)
    assert not is_flaw(losses, record=76)
    assert not is_flaw(losses, offset=OFFSET + 1)


def test_leadership_before_the_truncation_does_not_count(losses: Losses08) -> None:
    losses.leadership_begun(T, FOLLOWER, EPOCH)
    losses.cut(T, FOLLOWER, OFFSET, [RECORD])
    assert not is_flaw(losses)


def test_truncation_outside_of_the_isr_does_not_count(losses: Losses08) -> None:
    losses.cut(T, 3, OFFSET, [RECORD])
    losses.leadership_begun(T, 3, EPOCH)
    assert not is_flaw(losses)


def test_record_that_was_fetched_again_is_not_lost_by_the_flaw(losses: Losses08) -> None:
    losses.cut(T, FOLLOWER, OFFSET, [RECORD])
    assert losses.is_cut(T, FOLLOWER)
    losses.appended(T, FOLLOWER, OFFSET, [RECORD])
    losses.leadership_begun(T, FOLLOWER, EPOCH)
    assert not losses.is_cut(T, FOLLOWER)
    assert not is_flaw(losses)


def test_record_is_not_restored_by_another_one_in_its_place(losses: Losses08) -> None:
    losses.cut(T, FOLLOWER, OFFSET, [RECORD])
    losses.leadership_begun(T, FOLLOWER, EPOCH)
    losses.appended(T, FOLLOWER, OFFSET, [78])
    assert is_flaw(losses)


def test_replica_that_has_left_the_isr_has_to_catch_up_before_it_leads(
    losses: Losses08,
) -> None:
    losses.cut(T, FOLLOWER, OFFSET, [RECORD])
    losses.isr_written(T, (1,))
    losses.isr_written(T, (1, FOLLOWER))
    losses.leadership_begun(T, FOLLOWER, EPOCH)
    assert not is_flaw(losses)


def test_deleted_topic_leaves_no_excuse_for_its_successor(losses: Losses08) -> None:
    losses.cut(T, FOLLOWER, OFFSET, [RECORD])
    losses.leadership_begun(T, FOLLOWER, EPOCH)
    losses.forget(T)
    assert not is_flaw(losses)
