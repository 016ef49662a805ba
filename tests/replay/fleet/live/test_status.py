"""The status of the table relative to its topic; without Kafka."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest

from replay.fleet.live.folder import LiveFolder
from replay.fleet.live.status import (
    REPORT_AFTER_S,
    Offsets,
    StatusTracker,
    publishing_status,
)

PLACE = "topic refold-log at kafka-1:9092"
GONE = f"{PLACE}: no broker answers"
BEGUN = datetime(2026, 11, 23, 10, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return BEGUN + timedelta(seconds=seconds)


def test_quiet_topic_is_up_to_date_as_of_now() -> None:
    watch = StatusTracker(PLACE, pytest.fail)
    assert watch.topic_reached({0: 7}, None, BEGUN).state == "starting"
    for seconds in (2, 4):
        found = watch.topic_reached({0: 7, 1: 0}, {0: 7}, after(seconds))
        assert (found.state, found.as_of) == ("up_to_date", after(seconds))
    found = watch.topic_reached({0: 9, 1: 1}, {0: 7}, after(6))
    assert (found.state, found.messages_behind, found.as_of) == ("behind", 3, after(4))


def test_unreachable_topic_is_reported_once_and_when_it_is_reached_again() -> None:
    messages: list[str] = []
    watch = StatusTracker(PLACE, messages.append)
    watch.topic_reached({0: 7}, {0: 7}, BEGUN)
    found = watch.unreachable(GONE, after(2))
    assert (found.state, found.trouble, found.as_of) == ("unreachable", GONE, BEGUN)
    assert watch.topic_reached({0: 7}, {0: 7}, after(4)).state == "up_to_date"
    assert messages == []
    for seconds in (10, 12, 10 + REPORT_AFTER_S, 30, 40):
        watch.unreachable(GONE, after(seconds))
    assert messages == [
        f"{GONE}: not reached for 10 s, the table was last up to date at 10:00:04 UTC"
    ]
    watch.topic_reached({0: 7}, {0: 7}, after(44))
    assert messages[1:] == [f"{PLACE} is reached again, after 34 s"]
    watch.topic_reached({0: 7}, {0: 7}, after(46))
    assert len(messages) == 2


def test_ended_job_reports_its_trouble() -> None:
    watch = StatusTracker(PLACE, pytest.fail)
    watch.topic_reached({0: 7}, {0: 7}, BEGUN)
    found = watch.ended("Spark failed", after(2))
    assert (found.state, found.as_of, found.trouble) == ("ended", BEGUN, "Spark failed")


def test_new_folder_is_removed_if_spark_does_not_start(tmp_path: Path) -> None:
    folder = LiveFolder(tmp_path / "out")
    with pytest.raises(RuntimeError), folder.owned("topic", "cluster", "core"):
        raise RuntimeError("no Spark")
    assert not folder.path.exists()
    with folder.owned("topic", "cluster", "core"):
        Path(folder.checkpoint).mkdir()
    with pytest.raises(RuntimeError), folder.owned("topic", "cluster", "core"):
        raise RuntimeError("no Spark this time")
    assert Path(folder.checkpoint).exists()


def test_job_that_ends_after_its_last_batch_was_up_to_date(tmp_path: Path) -> None:
    """`live --once` ends before the topic is checked again."""
    is_checked = Event()

    async def ends(_: object) -> Offsets:
        is_checked.set()
        return {0: 7}

    folder = LiveFolder(tmp_path)
    topic = SimpleNamespace(place=PLACE)
    taken: Offsets | None = None
    with publishing_status(topic, folder, lambda: taken, pytest.fail, ends):
        assert is_checked.wait(10)
        taken = {0: 7}
    written = json.loads((tmp_path / "status.json").read_text())
    assert written["state"] == "ended"
    assert written["as_of"] is not None
    assert written["looked"] is not None
