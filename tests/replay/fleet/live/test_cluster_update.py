"""Folding batches of messages of one cluster; without Spark."""

from pathlib import Path
from types import SimpleNamespace

from pyarrow import parquet

from eventstore.folders import segments_in
from eventstore.segment import open_segment
from replay.fleet.live.cluster_update import fold_messages
from replay.fleet.live.folder import LiveFolder
from replay.fleet.segments import log_name
from tests.replay.fleet.live.mirrored import published
from tools.fleet.histories import GeneratedHistory, write_log


def take(logs: list[Path], out: Path) -> dict[str, str]:
    """Fold all messages of logs of cluster "a"; returns the state of each log."""
    rows = [
        SimpleNamespace(cluster="a", key=f"a/{log.name}", value=value, part=None)
        for log in logs
        for value in published(log)
    ]
    [taken] = fold_messages(rows, LiveFolder(out))
    assert taken.broken == {}
    found = parquet.read_table(out / "logs" / "cluster=a" / "logs.parquet", partitioning=None)
    return {row["folder"]: row["state"] for row in found.to_pylist()}


def test_log_of_a_killed_daemon_is_superseded(
    short_history: GeneratedHistory, tmp_path: Path
) -> None:
    first = write_log(tmp_path / "run-1", short_history, "a", 1, is_closed=False)
    assert take([first], tmp_path / "out") == {"run-1": "controller"}
    second = write_log(tmp_path / "run-2", short_history, "a", 2, is_closed=False)
    states = {"run-1": "superseded", "run-2": "controller"}
    assert take([second], tmp_path / "out") == states
    assert take([first, second], tmp_path / "other") == states
    whole = write_log(tmp_path / "whole" / "run-2", short_history, "a", 2)
    assert take([whole], tmp_path / "out") == {"run-1": "superseded", "run-2": "ended"}


def test_log_has_the_name_that_a_table_gives_it(
    short_history: GeneratedHistory, tmp_path: Path
) -> None:
    first = write_log(tmp_path / "run-1", short_history, "a", 1, until=200, is_closed=False)
    out = tmp_path / "out"
    take([first], out)
    grown = write_log(tmp_path / "grown" / "run-1", short_history, "a", 1)
    take([grown], out)
    with open_segment(segments_in(grown)[0]) as segment:
        name = log_name(segment).log
    for table in ("logs", "health"):
        file = out / table / "cluster=a" / f"{table}.parquet"
        rows = parquet.read_table(file, partitioning=None).to_pylist()
        assert {row["log"] for row in rows} == {name}
