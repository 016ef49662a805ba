"""What is said of how the table stands to its topic; no Kafka runs here."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from replay.fleet.live.folder import LiveFolder
from replay.fleet.live.status import REPORT_AFTER_S, StatusTracker

PLACE = "topic refold-log at kafka-1:9092"
GONE = f"{PLACE}: no broker answers"
BEGUN = datetime(2026, 11, 23, 10, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return BEGUN + timedelta(seconds=seconds)


def test_quiet_is_up_to_date_and_its_time_goes_on() -> None:
    watch = StatusTracker(PLACE, pytest.fail)
    assert watch.found({0: 7}, None, BEGUN).state == "starting"
    for seconds in (2, 4):
        status = watch.found({0: 7, 1: 0}, {0: 7}, after(seconds))
        assert (status.state, status.as_of) == ("up_to_date", after(seconds))
    status = watch.found({0: 9, 1: 1}, {0: 7}, after(6))
    assert (status.state, status.messages_behind, status.as_of) == ("behind", 3, after(4))


def test_topic_that_is_gone_for_long_is_told_once_and_again_when_it_is_back() -> None:
    said: list[str] = []
    watch = StatusTracker(PLACE, said.append)
    watch.found({0: 7}, {0: 7}, BEGUN)
    status = watch.unreachable(GONE, after(2))
    assert (status.state, status.trouble, status.as_of) == ("unreachable", GONE, BEGUN)
    assert watch.found({0: 7}, {0: 7}, after(4)).state == "up_to_date"
    assert said == []
    for seconds in (10, 12, 10 + REPORT_AFTER_S, 30, 40):
        watch.unreachable(GONE, after(seconds))
    assert said == [f"{GONE}: not reached for 10 s, the table was last up to date at 10:00:04 UTC"]
    watch.found({0: 7}, {0: 7}, after(44))
    assert said[1:] == [f"{PLACE} is reached again, after 34 s"]
    watch.found({0: 7}, {0: 7}, after(46))
    assert len(said) == 2


def test_job_that_is_over_says_by_what() -> None:
    watch = StatusTracker(PLACE, pytest.fail)
    watch.found({0: 7}, {0: 7}, BEGUN)
    status = watch.ended("Spark failed", after(2))
    assert (status.state, status.as_of, status.trouble) == ("ended", BEGUN, "Spark failed")


def test_spark_that_does_not_start_leaves_no_folder(tmp_path: Path) -> None:
    folder = LiveFolder(tmp_path / "out")
    with pytest.raises(RuntimeError), folder.owned("topic", "cluster", "core"):
        raise RuntimeError("no Spark")
    assert not folder.path.exists()
    with folder.owned("topic", "cluster", "core"):
        Path(folder.checkpoint).mkdir()
    with pytest.raises(RuntimeError), folder.owned("topic", "cluster", "core"):
        raise RuntimeError("no Spark this time")
    assert Path(folder.checkpoint).exists()
