"""Each fact that `make demo-acks` promises is checked."""

from collections.abc import Callable
from typing import Any

import pytest

from tools.demo.acks import committed_offset, leader_killed, only_replica
from tools.demo.acks.leader_killed import CAUGHT_UP, LAGGING, LEVELS, SUCCESSORS, Level, ProducerRow
from tools.demo.acks.only_replica import ALONE, CLEAN, LATER, ONLY, OUTSIDE, SHARED, UNCLEAN
from tools.lab.topic_reader import RecordPosition

ALL, IDEMPOTENT = Level("all"), Level("all", idempotent=True)

# The committed offset -----------------------------------------------------------------------------


def committed(**changed: Any) -> committed_offset.CommittedOffsetResult:
    first = [(0, "record 0"), (1, "record 1"), (2, "record 2")]
    given: dict[str, Any] = {
        "acknowledged_at": 3,
        "committed": 2,
        "ends": {1: 4, 2: 3, 3: 3},
        "read_before": first,
        "later_at": 3,
        "read": [*first, (3, "record 4")],
        "log": [*first, (3, "record 4")],
        "ends_after": {1: 4, 2: 4, 3: 4},
        "committed_after": 3,
    }
    return committed_offset.CommittedOffsetResult(**{**given, **changed})


def test_expected_committed_offset_has_no_faults() -> None:
    assert not list(committed().faults())


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"acknowledged_at": 4}, "the fourth record was written at offset 4"),
        ({"ends": {1: 4, 2: 4, 3: 3}}, "offset 3 is not on the leader alone"),
        ({"committed": 3}, "the committed offset is 3"),
        ({"read_before": [(0, "record 0")]}, "did not stop at the committed offset"),
        ({"later_at": 4}, "the new leader wrote the next record at offset 4"),
        ({"read": [(0, "record 0"), (3, "record 4")]}, "did not continue at offset 3"),
        ({"log": [(0, "record 0")]}, "the log is not what the consumer read"),
        ({"committed_after": 2}, "the committed offset at the end is 2"),
        ({"ends_after": {1: 5, 2: 4, 3: 4}}, "the replicas differ at the end"),
    ],
)
def test_unexpected_committed_offset_is_a_fault(changed: dict[str, Any], fault: str) -> None:
    (found,) = committed(**changed).faults()
    assert fault in found


# acks ---------------------------------------------------------------------------------------------


def killed(
    change: Callable[[ProducerRow], ProducerRow] = lambda row: row, **changed: Any
) -> leader_killed.LeaderKilledResult:
    lost = {(Level(0), LAGGING): 9, (Level(1), LAGGING): 8}
    duplicated = {(ALL, CAUGHT_UP): 7}
    rows = [
        ProducerRow(
            *(level, successor, 100, None if level.acks == 0 else 100, 0),
            lost.get((level, successor), 0),
            duplicated.get((level, successor), 0),
        )
        for level in LEVELS
        for successor in SUCCESSORS
    ]
    result = leader_killed.LeaderKilledResult(list(map(change, rows)), 800, 0, [])
    return result._replace(**changed)


def test_expected_counts_have_no_faults() -> None:
    assert not list(killed().faults())


@pytest.mark.parametrize(
    ("level", "successor", "changed", "fault"),
    [
        (ALL, CAUGHT_UP, {"lost": 1}, "acks=all, broker 2 elected: 1 acknowledged records are"),
        (IDEMPOTENT, LAGGING, {"lost": 1}, "1 acknowledged records are lost"),
        (IDEMPOTENT, CAUGHT_UP, {"duplicated": 2}, "2 records are duplicated"),
        (ALL, CAUGHT_UP, {"duplicated": 0}, "acks=all, broker 2 elected: no record is duplicated"),
        (Level(0), LAGGING, {"lost": 0}, "acks=0, broker 3 elected: no record is lost"),
        (Level(1), LAGGING, {"lost": 0}, "acks=1, broker 3 elected: no record is lost"),
        (Level(1), CAUGHT_UP, {"acknowledged": 0}, "no record was acknowledged"),
        (ALL, LAGGING, {"refused": 4}, "the producer gave up 4 records"),
    ],
)
def test_unexpected_count_is_a_fault(
    level: Level, successor: int, changed: dict[str, Any], fault: str
) -> None:
    def change(row: ProducerRow) -> ProducerRow:
        return row._replace(**changed) if row[:2] == (level, successor) else row

    (found,) = killed(change).faults()
    assert fault in found


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"inconsistent": [RecordPosition("acks-1-3", 0, 5)]}, "records that are not in the log"),
        ({"unread": 2}, "missed 2"),
        ({"read": 0}, "read 0 records"),
    ],
)
def test_inconsistent_consumer_is_a_fault(changed: dict[str, Any], fault: str) -> None:
    (found,) = killed(**changed).faults()
    assert fault in found


# The only in-sync replica -------------------------------------------------------------------------


def only(name: str, **changed: Any) -> only_replica.OnlyReplicaResult:
    shared = [f"shared {number}" for number in range(SHARED)]
    alone = [f"alone {number}" for number in range(ALONE)]
    later = [f"later {number}" for number in range(LATER)]
    before = dict(enumerate([*shared, *alone]))
    outcomes = {
        CLEAN: only_replica.TopicOutcome(
            CLEAN,
            False,
            acknowledged={*shared, *alone, *later},
            leader=-1,
            refused="LeaderNotAvailableError",
            before=before,
            after=dict(enumerate([*shared, *alone, *later])),
        ),
        UNCLEAN: only_replica.TopicOutcome(
            UNCLEAN,
            True,
            acknowledged={*shared, *alone, *later},
            leader=OUTSIDE,
            out_of_range="OffsetOutOfRangeError",
            before=before,
            after=dict(enumerate([*shared, *later])),
        ),
    }
    for key, value in changed.items():
        setattr(outcomes[name], key, value)
    return only_replica.OnlyReplicaResult(outcomes)


def test_expected_outcomes_have_no_faults() -> None:
    assert not list(only(CLEAN).faults())


@pytest.mark.parametrize(
    ("name", "changed", "fault"),
    [
        (CLEAN, {"leader": ONLY}, "broker 2 was elected without an unclean election"),
        (CLEAN, {"refused": ""}, "without an unclean election"),
        (CLEAN, {"after": {}}, "unclean-off: 19 records are lost"),
        (UNCLEAN, {"leader": -1}, "unclean-on: the topic is not available"),
        (UNCLEAN, {"refused": "no"}, "unclean-on: the topic is not available: no"),
        (UNCLEAN, {"acknowledged": {"shared 0"}}, "0 acknowledged records are lost, not 10"),
        (UNCLEAN, {"before": {0: "shared 0", 1: "x"}}, "offsets [1] differ"),
        (UNCLEAN, {"out_of_range": ""}, "a consumer at the old end got a record"),
    ],
)
def test_unexpected_outcome_is_a_fault(name: str, changed: dict[str, Any], fault: str) -> None:
    (found,) = only(name, **changed).faults()
    assert fault in found
