"""Why a rollback waits."""

from pathlib import Path

from tests.core.interrupting import cancel_all, remove_cancel
from tests.core.test_rollback_waiting import only_the_target_in_sync
from tests.replay.why.asked import first

T0 = {"topic": "t", "partition": 0}


def test_rollback_that_waits(tmp_path: Path) -> None:
    """Not the targets that are not in sync: a dead broker 4 could come back, and nothing ended."""
    cluster = only_the_target_in_sync()
    cancel_all(cluster)
    assert first(cluster, tmp_path, **T0, is_reassignment=True) == (
        "The reassignment of t-0 to 3,4 is cancelled, and waits since event N to go back to 1,2: "
        "none of its original replicas [1, 2] is live and in sync: its rollback waits until one "
        "is, its leader stays."
    )
    remove_cancel(cluster)
    assert "broker 4 blocks it" in first(cluster, tmp_path, **T0, is_reassignment=True)
