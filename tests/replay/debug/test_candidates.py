"""With the index of a log, searches of the debugger stop where a fold of the whole log stops."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replay.debug import candidates
from replay.debug.conditions import EventCondition, condition_named
from replay.debug.seekable_log import SeekableLog
from replay.index.making import make_index
from replay.index.opening import index_of
from replay.inspect.projections import projection_of
from replay.logs.open_log import OpenedLog, open_log
from replay.logs.packed import log_at
from replay.names import partition_named
from replay.progress import unreported
from tests.replay.index.test_same_answers import INCIDENTS

OF_ALL = (
    "controller",
    "failover",
    "decision",
    "procedure",
    "procedure failover",
    "rule election",
    "rule no such rule",
    "kind watch_fired",
    "kind znodes_written",
    "kind transaction",
    "kind observed",
    "znode /controller",
    "znode /controller_epoch",
    "znode /admin/reassign_partitions",
    "znode /isr_change_notification",
    "about no-such-topic",
)
QUICK = ("broker-crash", "migration-left")
"""A log of the daemon and an imported one."""
NAMES_MAX = 3
STOPS_MAX = 5
"""More stops of a condition take long, and try nothing else."""
OF_PARTITIONS = ("leader", "isr", "offline", "partition", "about", "decision")


def conditions(log: OpenedLog) -> list[EventCondition]:
    """Of all kinds; about some of the partitions, topics and brokers."""
    seekable = SeekableLog(log)
    events = seekable.events(seekable.first_seq, seekable.last_seq)
    names = sorted({name for one in events for name in one.subjects})
    found = [*map(condition_named, OF_ALL)]
    for name in names[:: 1 + len(names) // NAMES_MAX]:
        found.append(EventCondition("about", name))
        if name.startswith("broker "):
            found.append(EventCondition("broker", name.removeprefix("broker ")))
            continue
        try:
            topic, number = partition_named(name)
        except ValueError:
            continue
        found += [EventCondition(what, name) for what in OF_PARTITIONS]
        found.append(EventCondition("znode", f"/brokers/topics/{topic}/partitions/{number}/state"))
    return [*dict.fromkeys(found)]


def expected_stops(
    log: OpenedLog, searched: list[EventCondition]
) -> dict[EventCondition, list[int]]:
    """The events that meet each condition, in one fold of the whole log."""
    found: dict[EventCondition, list[int]] = {one: [] for one in searched}
    seekable = SeekableLog(log)
    for event in seekable.events(seekable.first_seq, seekable.last_seq):
        for one in searched:
            if not one.is_of_state and one.holds(event):
                found[one].append(event.seq)
    projection = projection_of(log)
    before: dict[EventCondition, Any] = {one: one.value(projection) for one in searched}
    for record, stored in log.reader.records():
        if record.seq <= projection.seq:
            continue
        projection.apply(record, stored)
        for one in searched:
            now = one.value(projection)
            if one.is_of_state and one.is_change(before[one], now):
                found[one].append(record.seq)
            before[one] = now
    return found


@pytest.fixture(
    params=[
        pytest.param(one, id=one.name, marks=() if one.name in QUICK else pytest.mark.long)
        for one in INCIDENTS
    ]
)
def log(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OpenedLog]:
    """A log with an index of which the search uses all gaps."""
    monkeypatch.setattr(candidates, "NEAR", 3)
    with log_at(request.param) as path:
        shutil.copytree(path, tmp_path / "log")
    with open_log(tmp_path / "log") as opened:
        make_index(tmp_path / "log")
        yield opened


def stops(seekable: SeekableLog, condition: EventCondition) -> list[int]:
    found = []
    seq: int | None = seekable.first_seq - 1
    while seq is not None:
        seq = seekable.find_after(seq, condition)
        found += [] if seq is None else [seq]
    return found


def stops_backward(seekable: SeekableLog, condition: EventCondition) -> list[int]:
    found = []
    seq: int | None = seekable.last_seq + 1
    while seq is not None:
        seq = seekable.find_before(seq, condition)
        found += [] if seq is None else [seq]
    return found[::-1]


def test_searches_with_an_index_stop_where_a_fold_of_the_whole_log_does(log: OpenedLog) -> None:
    wrong = {}
    with index_of(log, unreported) as index:
        assert index is not None
        seekable = SeekableLog(log, index=index)
        for condition, expected in expected_stops(log, conditions(log)).items():
            if len(expected) <= STOPS_MAX:
                found = stops(seekable, condition), stops_backward(seekable, condition)
                if found != (expected, expected):
                    wrong[str(condition)] = found, expected
    assert wrong == {}
