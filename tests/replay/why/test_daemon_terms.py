"""The events that a command recommends when the daemon is not the controller."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from eventstore.writer import LogWriter
from replay.inspect.at import cluster_at
from replay.logs.open_log import open_log
from replay.logs.packed import log_at
from replay.why.daemon_terms import events_to_choose
from tests.replay.recorded_log import header

INCIDENT = Path("tests/incidents/session-expiry")


@pytest.mark.parametrize(
    ("seq", "expected"),
    [
        (5, "choose event 6 or a later one"),
        (6, ""),
        (46, ""),
        (47, "choose an event before 47, or event 57 or a later one"),
        (56, "choose an event before 47, or event 57 or a later one"),
        (57, ""),
        (142, "choose an event before 142"),
    ],
)
def test_events_of_the_nearest_terms_are_recommended(seq: int, expected: str) -> None:
    with open_log(INCIDENT) as log:
        assert events_to_choose(log.reader, cluster_at(log, seq)) == expected


def test_later_damage_does_not_prevent_a_recommendation() -> None:
    with log_at(INCIDENT) as path, open_log(path) as log:
        cluster = cluster_at(log, 50)
        [segment] = Path(path).glob("*.refold")
        with closing(sqlite3.connect(segment)) as change, change:
            change.execute("drop table commands")
        assert events_to_choose(log.reader, cluster).startswith("choose")


def test_log_without_a_term_recommends_another_log(tmp_path: Path) -> None:
    LogWriter.create(tmp_path / "log", header()).close()
    with open_log(tmp_path / "log") as log:
        assert events_to_choose(log.reader, cluster_at(log, 0)).startswith("choose another log")
