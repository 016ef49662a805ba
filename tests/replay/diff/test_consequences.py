import pytest

from replay.diff.consequences import consequences
from replay.diff.messages import FoldedLog, PartitionSample, PartitionTimeline

S = 1_000_000_000


def folded(*moments: PartitionSample, name: str = "t", end_ns: int = 10 * S) -> FoldedLog:
    return FoldedLog(1, end_ns, timelines=[PartitionTimeline(name, 0, list(moments))])


def led(time_ns: int, leader: int = 1, isr: tuple[int, ...] = (1, 2)) -> PartitionSample:
    return PartitionSample(time_ns, leader, isr, (1, 2), is_online=leader >= 0)


def test_equal_timelines_have_no_consequences() -> None:
    assert consequences(folded(led(0)), folded(led(1000))) == []


def test_difference_in_offline_time_is_described() -> None:
    base = folded(led(0), led(2 * S, -1), led(3 * S, 2))
    head = folded(led(0), led(2 * S, -1), led(7 * S, 2))
    assert consequences(base, head) == [
        "t-0: offline 4.0 s longer with head (1.0 s with base, 5.0 s with head)"
    ]
    assert "4.0 s shorter" in consequences(head, base)[0]


def test_offline_time_until_the_end_is_described() -> None:
    base, head = folded(led(0), led(2 * S, -1)), folded(led(0), led(2 * S, 2))
    assert consequences(base, head) == [
        "t-0: offline 8.0 s shorter with head (8.0 s with base, 0.00 s with head)",
        "t-0: ends with leader 2 instead of no leader",
    ]


def test_offline_time_ends_with_the_later_end_of_both_versions() -> None:
    base = folded(led(0), led(2 * S, -1), end_ns=10 * S)
    head = folded(led(0), led(2 * S, 1), end_ns=12 * S)
    assert "10.0 s with base" in consequences(base, head)[0]
    assert "10.0 s with head" in consequences(head, base)[0]


def test_offline_leader_at_the_end_is_described() -> None:
    base = folded(led(0))
    head = folded(led(0), PartitionSample(4 * S, 1, (1, 2), (1, 2), is_online=False))
    assert consequences(base, head)[1:] == ["t-0: ends offline with head"]
    assert consequences(head, base)[1:] == ["t-0: ends online with head"]


def test_different_end_is_described() -> None:
    base = folded(led(0, 1, (1, 2)))
    head = folded(PartitionSample(0, 1, (1,), (1, 3), is_online=True, is_reassigned=True))
    assert consequences(base, head) == [
        "t-0: ends with ISR 1 instead of 1,2",
        "t-0: ends on brokers 1,3 instead of 1,2",
        "t-0: its reassignment does not end with head",
    ]


def test_temporary_leader_is_described() -> None:
    base = folded(led(0), led(2 * S, 2), led(9 * S, 1))
    assert consequences(base, folded(led(0), led(2 * S, 3), led(9 * S, 1))) == [
        "t-0: led by 3 instead of 2 for 7.0 s, then as before"
    ]
    assert consequences(base, folded(led(0), led(4 * S, 3), led(9 * S, 1))) == [
        "t-0: led by 1 instead of 2 for 2.0 s and by 3 instead of 2 for 5.0 s, then as before"
    ]


def test_temporary_leader_before_a_different_end_is_described() -> None:
    base, head = folded(led(0)), folded(led(0), led(2 * S, 3), led(6 * S, 2))
    assert consequences(base, head) == [
        "t-0: led by 3 instead of 1 for 4.0 s",
        "t-0: ends with leader 2 instead of leader 1",
    ]


def test_leader_instead_of_none_is_described_as_offline_time_only() -> None:
    base = folded(led(0), led(2 * S, -1), led(3 * S, 2))
    head = folded(led(0), led(2 * S, -1), led(4 * S, 2))
    [longer], [shorter] = consequences(base, head), consequences(head, base)
    assert "longer" in longer
    assert "shorter" in shorter
    elected = folded(led(0), led(2 * S, 1), led(3 * S, 2))
    assert consequences(base, elected) == [
        "t-0: offline 1.0 s shorter with head (1.0 s with base, 0.00 s with head)"
    ]


@pytest.mark.parametrize(("spent_ns", "is_described"), [(49_999_999, False), (50_000_000, True)])
def test_difference_of_less_than_50_ms_is_not_described(spent_ns: int, is_described: bool) -> None:
    after = 2 * S + spent_ns
    offline = consequences(folded(led(0)), folded(led(0), led(2 * S, -1), led(after)))
    other = consequences(folded(led(0)), folded(led(0), led(2 * S, 3), led(after)))
    if is_described:
        assert offline == [
            "t-0: offline 0.05 s longer with head (0.00 s with base, 0.05 s with head)"
        ]
        assert other == ["t-0: led by 3 instead of 1 for 0.05 s, then as before"]
    else:
        assert offline == other == []


def test_time_before_either_version_knows_the_partition_is_not_compared() -> None:
    late, early = folded(led(4 * S)), folded(led(0, 2), led(4 * S))
    assert consequences(late, early) == []
    assert consequences(early, late) == []


def test_order_of_the_isr_is_no_consequence() -> None:
    assert consequences(folded(led(0, 1, (1, 2))), folded(led(0, 1, (2, 1)))) == []


def test_partition_missing_in_one_version_has_no_consequences() -> None:
    assert consequences(folded(), folded(led(0))) == []
    assert consequences(folded(led(0)), folded()) == []
    assert consequences(folded(led(0)), folded(led(0, 2), name="u")) == []


GONE = PartitionSample(5 * S, -1, (), (), is_online=False)
DELETED = PartitionSample(2 * S, -1, (1, 2), (1, 2), is_online=False, is_in_deletion=True)


@pytest.mark.parametrize(
    ("base", "head", "text"),
    [
        ((led(0), GONE), (led(0),), "topic not deleted with head"),
        ((led(0),), (led(0), GONE), "topic deleted with head"),
        ((GONE,), (GONE, led(6 * S)), "created with head"),
        ((GONE, led(6 * S)), (GONE,), "not created with head"),
        ((led(0), DELETED, GONE), (led(0), DELETED), "topic not deleted with head"),
        ((led(0), DELETED), (led(0),), "ends in deletion with base only"),
        ((led(0),), (led(0), DELETED), "ends in deletion with head only"),
    ],
)
def test_deletion_or_creation_by_one_version_is_the_only_consequence(
    base: tuple[PartitionSample, ...], head: tuple[PartitionSample, ...], text: str
) -> None:
    assert consequences(folded(*base), folded(*head)) == [f"t-0: {text}"]


def test_deletion_by_both_versions_is_no_consequence() -> None:
    assert consequences(folded(led(0), GONE), folded(led(0), DELETED, GONE)) == []


def test_partition_that_neither_version_elects_has_no_consequences() -> None:
    new = PartitionSample(0, -1, (), (1, 2), is_online=False)
    assert consequences(folded(new), folded(new)) == []


def test_partition_without_a_state_has_no_empty_isr() -> None:
    new = PartitionSample(0, -1, (), (1, 2), is_online=False)
    assert consequences(folded(led(0)), folded(new)) == [
        "t-0: offline 10.0 s longer with head (0.00 s with base, 10.0 s with head)",
        "t-0: ends without a leader and ISR with head",
    ]
    assert consequences(folded(new), folded(led(0)))[1:] == [
        "t-0: ends with leader 1 and ISR 1,2 with head only"
    ]


def test_equal_consequences_of_partitions_are_one_sentence() -> None:
    base, head = folded(led(0)), folded(led(0, 2))
    for side, leader in ((base, 1), (head, 2)):
        side.timelines.extend(
            PartitionTimeline("t", number, [led(0, leader)]) for number in range(1, 9)
        )
    [text] = consequences(base, head)
    assert text == "t-0, t-1, t-2, t-3, t-4 and 4 more: ends with leader 2 instead of leader 1"
