"""Replaying the logs of a table: the results equal those of `refold diff` and `refold agree`."""

import re
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from controller.core.canonical import decode_reason
from eventstore.reader import LogReader
from replay.agreement.comparison import agree, temporary_import
from replay.diff.comparing import compare
from replay.diff.logs import open_logs
from replay.diff.references import Version, find_version
from replay.diff.version.decisions import parts_of
from replay.diff.version.recorded_history import decoded_body
from replay.fleet.errors import FleetError
from replay.fleet.ingest import ingest
from replay.fleet.replaying import results
from replay.fleet.replaying.divergence_list import DivergenceFilter, list_divergences
from replay.fleet.replaying.replay import replay
from replay.fleet.replaying.results import open_replays
from replay.fleet.replaying.summary import RULES_MAX
from replay.stock_clusters.imports.importing import Selection
from tests.replay.diff import versions
from tests.replay.diff.versions import INCIDENTS, ROOT, changed
from tests.replay.fleet.replaying.logs import FAILS_AND_HANGS, HANGS_BEFORE_MS, write_rolled
from tools.fleet.histories import simulated_history, write_log

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(600),
    # Spark's client leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

RECORDING = ROOT / "tests" / "recordings" / "broker-crash-2.tar.xz"
INCIDENT = INCIDENTS / "broker-crash" / "log.tar.xz"
CLUSTER = "rS7EErMoTjyCjHuj1Crl1Q"
NOW_MS = 1_790_000_000_000


class Fleet(NamedTuple):
    """The logs, a table with them, and two versions, one with a planted defect."""

    logs: list[Path]
    table: Path
    versions: list[Version]


@pytest.fixture(scope="module")
def fleet(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    folder = tmp_path_factory.mktemp("fleet")
    logs = [
        write_log(folder / "logs" / "a" / "1", simulated_history(400, NOW_MS, 1), "a", 1),
        write_log(
            folder / "logs" / "b" / "1", simulated_history(300, NOW_MS, 2), "b", 1, is_closed=False
        ),
        write_rolled(folder / "logs" / "b" / "2", simulated_history(400, NOW_MS + 1, 0), "b", 3),
        # The changed version makes other decisions in this log.
        write_rolled(folder / "logs" / "c" / "1", simulated_history(300, NOW_MS + 1, 5), "c", 3),
    ]
    table = folder / "table"
    ingested = ingest(spark, [*map(str, logs), str(INCIDENT), str(RECORDING)], table)
    assert (ingested.logs, ingested.set_aside) == (6, 0)
    defect = changed(folder / "defect", versions.LAST_OF_ISR)
    found = [find_version(str(one), ROOT, folder / "cache") for one in (ROOT, defect)]
    return Fleet([*logs, INCIDENT, RECORDING], table, found)


@pytest.fixture(scope="module")
def collected(spark: SparkSession, fleet: Fleet) -> list[tuple[int, set[str]]]:
    """Replay all logs, split, and then as a whole in a copy of the table. For each call that
    collected rows on the driver: the number of rows, and their columns."""
    frame = type(spark.range(1))
    found: list[tuple[int, set[str]]] = []
    shutil.copytree(fleet.table, unsplit_table(fleet))
    with pytest.MonkeyPatch.context() as patch:
        collect = frame.collect

        def counting(self: Any) -> list[Any]:
            rows: list[Any] = collect(self)
            found.append((len(rows), set(self.columns)))
            return rows

        patch.setattr(frame, "collect", counting)
        for refused in ("toLocalIterator", "toPandas", "toArrow"):
            patch.delattr(frame, refused)
        replay(spark, fleet.table, fleet.versions, split_events=1)
    replay(spark, unsplit_table(fleet), fleet.versions)
    return found


def unsplit_table(fleet: Fleet) -> Path:
    return fleet.table.with_name("whole")


def rows_of(spark: SparkSession, table: Path) -> dict[tuple[str, str, str], Any]:
    rows = results.replayed(spark, table).collect()
    return {(row.cluster, row.log, row.version): row for row in rows}


def test_counts_are_those_of_the_logs(spark: SparkSession, fleet: Fleet, collected: object) -> None:
    """A version that follows the logs agrees with all recorded decisions."""
    recorded = 0
    with open_logs(fleet.logs) as found:
        for log in found:
            with LogReader.open(log.path) as reader:
                if reader.header.kind == "recorded":
                    commands = [decoded_body(one) for one in reader.commands()]
                    recorded += sum(len([*parts_of(one)]) for one in commands if one is not None)
                    assert None not in commands
    with temporary_import(RECORDING, Selection(), lambda *_: None) as log:
        result = agree(log)
        of_kafka = result.decisions + result.requests.decisions
        agreed = result.agreed + result.requests.agreed
    rows = [row for row in rows_of(spark, fleet.table).values() if row.version == str(ROOT)]
    assert len(rows) == 6
    assert all(row.reason is None and row.divergences == row.left_at == 0 for row in rows)
    of_stock = [row for row in rows if row.kind == "world-backed"]
    assert [(row.decisions, row.agreed) for row in of_stock] == [(of_kafka, agreed)]
    of_daemons = [row for row in rows if row.kind == "recorded"]
    assert sum(row.decisions for row in of_daemons) == recorded
    assert sum(row.agreed for row in of_daemons) == recorded


def test_decisions_and_agreements_are_counted_by_rule_and_cluster(
    spark: SparkSession, fleet: Fleet, collected: object
) -> None:
    recorded: Counter[tuple[str, str]] = Counter()
    clusters = {str(fleet.logs[0]): "a", str(fleet.logs[3]): "c", str(INCIDENT): CLUSTER}
    with open_logs(fleet.logs[:1] + fleet.logs[3:5]) as found:
        for log in found:
            with LogReader.open(log.path) as reader:
                for one in reader.commands():
                    rule = decode_reason(one.reason).rule
                    body = decoded_body(one)
                    assert body is not None
                    general = re.sub("remove [0-9]+ from", "remove N from", rule)
                    recorded[clusters[log.name], general] += len([*parts_of(body)])
    rows = results.by_rule(spark, fleet.table).collect()
    of_followers = [row for row in rows if row.code == code_of(fleet, spark, 0)]
    assert all((row.divergences, row.first, row.following) == (0, 0, 0) for row in of_followers)
    assert all(row.decisions == row.agreed and row.log is None for row in of_followers)
    actual = {(row.cluster, row.rule): row.decisions for row in of_followers}
    assert {key: one for key, one in actual.items() if key[0] in clusters.values()} == {
        key: count for key, count in recorded.items() if count
    }
    of_defect = [row for row in rows if row.code == code_of(fleet, spark, 1)]
    for name in ("decisions", "agreed", "divergences"):
        sums: Counter[str] = Counter()
        for row in of_defect:
            sums[row.cluster] += row[name]
        whole: Counter[str] = Counter()
        for one in rows_of(spark, fleet.table).values():
            if one.code == code_of(fleet, spark, 1):
                whole[one.cluster] += one[name]
        assert sums == whole, name
    elections = [row for row in of_defect if row.rule == "offline partition leader election"]
    assert any(row.agreed < row.decisions and row.first for row in elections)
    assert all((row.log is None) == (not row.divergences) for row in of_defect)


def code_of(fleet: Fleet, spark: SparkSession, version: int) -> str:
    name = str(fleet.versions[version].reference)
    return str({row.version: row.code for row in rows_of(spark, fleet.table).values()}[name])


def test_planted_defect_is_reported_by_rule_and_cluster(
    spark: SparkSession, fleet: Fleet, collected: object
) -> None:
    """As `refold diff` reports it for the same logs, with the log as the base."""
    result = replay(spark, fleet.table, fleet.versions)
    assert (result.todo, result.batch, result.failed) == (0, None, 0)
    head = str(fleet.versions[1].reference)
    diverging = [one for one in result.rules if one.divergences]
    assert {one.version for one in diverging} == {head}
    assert "offline partition leader election" in {one.rule for one in diverging}

    ends = {"a": 400, "c": 300}
    found = Counter(
        (row.cluster, row.first_rule, row.what, row.kind, row.seq)
        for row in results.divergences(spark, fleet.table).collect()
        if row.seq < ends.get(row.cluster, sys.maxsize)
    )
    with open_logs(fleet.logs[:1] + fleet.logs[3:5]) as logs:
        actual = compare(logs, fleet.versions[0], fleet.versions[1], {}, lambda *_: None)
    expected: Counter[tuple[str, str, str, str, int]] = Counter()
    clusters = {str(fleet.logs[0]): "a", str(fleet.logs[3]): "c", str(INCIDENT): CLUSTER}
    for group in actual.groups:
        for instance in group.instances:
            cluster, root = clusters[instance.log], instance.root
            for one in (root.first, *root.followers):
                # `refold diff` also compares decisions after the end of a log.
                if one.seq < ends.get(cluster, sys.maxsize):
                    key = (cluster, root.first.rule, one.what, one.kind, one.seq)
                    expected[key] += 1
    clusters_of_diff = set(clusters.values())
    assert {key: one for key, one in found.items() if key[0] in clusters_of_diff} == expected
    assert expected


def test_planted_defect_is_found_in_a_stock_clusters_log(
    spark: SparkSession, fleet: Fleet, collected: object
) -> None:
    found = results.divergences(spark, fleet.table).where("zxid > 0").collect()
    decisions = [one for one in found if one.subject == "decision"]
    assert {one.rule for one in decisions} == {"offline partition leader election"}
    assert {one.version for one in found} == {str(fleet.versions[1].reference)}
    assert {one.time.year for one in decisions} == {2026}


def test_filter_finds_a_single_divergence(
    spark: SparkSession, fleet: Fleet, collected: object
) -> None:
    head = str(fleet.versions[1].reference)
    rule = "offline partition leader election"
    of_cluster = DivergenceFilter(version=head, rule=rule, cluster=CLUSTER)
    count, [first, *_] = list_divergences(spark, fleet.table, of_cluster, 5)
    assert count >= 1
    wanted = DivergenceFilter(head, rule, first.cluster, first.log, first.partitions[0], first.seq)
    count, [one, *_] = list_divergences(spark, fleet.table, wanted, 5)
    assert (one.what, one.kind, one.seq) == ("changed", "set", first.seq)
    [leader] = [each for each in one.differences if each.part == "data.leader"]
    assert leader.recorded != leader.version
    assert any(text.startswith("the version, ") for text in one.details)


def test_split_replay_equals_the_whole_one(
    spark: SparkSession, fleet: Fleet, collected: object
) -> None:
    split, whole = rows_of(spark, fleet.table), rows_of(spark, unsplit_table(fleet))
    assert split.keys() == whole.keys()
    assert max(row.pieces for row in whole.values()) == 1
    # A version that leaves a log continues in a diverged simulation, with or without
    # a divergence.
    pieces = {key: row.pieces for key, row in split.items() if row.pieces > 1}
    assert {version: one for (_, _, version), one in pieces.items()} == {str(ROOT): 3}
    assert len(pieces) == 2
    free = {"seconds", "pieces", "batch"}
    for key, row in split.items():
        ours, theirs = row.asDict(), whole[key].asDict()
        assert {name: ours[name] for name in ours.keys() - free} == {
            name: theirs[name] for name in theirs.keys() - free
        }
    tables = (fleet.table, unsplit_table(fleet))
    of_split, of_whole = (results.divergences(spark, one).drop("batch") for one in tables)
    assert of_split.exceptAll(of_whole).count() == of_whole.exceptAll(of_split).count() == 0
    assert of_split.count() > 0


def test_driver_receives_only_counts(fleet: Fleet, collected: list[tuple[int, set[str]]]) -> None:
    assert collected
    for rows, columns in collected:
        assert rows <= RULES_MAX
        assert columns.isdisjoint({"stored", "segments", "differences", "details", "payload"})


def test_damaged_log_does_not_affect_the_others(spark: SparkSession, tmp_path: Path) -> None:
    """Logs with a missing segment, from a newer version, at which a version fails, and at which it
    makes no progress."""
    logs = tmp_path / "logs"
    write_log(logs / "good", simulated_history(120, NOW_MS, 1), "good", 1)
    write_log(logs / "crash", simulated_history(160, NOW_MS, 2), "crash", 1)
    write_log(logs / "hang", simulated_history(120, HANGS_BEFORE_MS - 10**9, 3), "hang", 1)
    cut = write_rolled(logs / "cut", simulated_history(160, NOW_MS, 4), "cut", 3)
    LogReader(cut).segments[1].unlink()
    short_history = simulated_history(120, NOW_MS, 5)
    short_history.events[50] = short_history.events[50]._replace(schema=99)
    write_log(logs / "newer", short_history, "newer", 1)
    ingest(spark, [str(logs)], tmp_path / "table")
    bad = changed(tmp_path / "bad", FAILS_AND_HANGS)
    found = [find_version(str(one), ROOT, tmp_path / "cache") for one in (ROOT, bad)]
    result = replay(spark, tmp_path / "table", found, patience_s=15)
    reasons = {(one.cluster, one.version): one.reason for one in result.failures}
    this, other = str(ROOT), str(bad)
    assert reasons.keys() == {
        ("crash", other), ("hang", other), ("cut", this), ("cut", other), ("newer", this),
        ("newer", other),
    }  # fmt: skip
    assert "failed at the log: KeyError: 150 (fold.py, line" in reasons["crash", other]
    assert "no progress for 15 s after event" in reasons["hang", other]
    assert "are not in the table: ingest the complete log" in reasons["cut", this]
    assert "newer" in reasons["newer", this]
    assert result.failed == 6
    assert {(one.version, one.logs - one.failed) for one in result.versions} == {
        (this, 3), (other, 1)
    }  # fmt: skip
    # Only the failed logs are replayed again.
    again = replay(spark, tmp_path / "table", found[:1], patience_s=15)
    assert (again.todo, again.failed) == (2, 2)


def test_folder_without_a_table_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    version = find_version(str(ROOT), ROOT, tmp_path / "cache")
    with pytest.raises(FleetError, match="is not a table: create one with `refold fleet ingest`"):
        replay(spark, tmp_path, [version])


def test_second_replay_of_a_table_is_refused(
    spark: SparkSession, fleet: Fleet, collected: object
) -> None:
    refused = pytest.raises(FleetError, match="another replay is using")
    with open_replays(fleet.table), refused:
        replay(spark, fleet.table, fleet.versions)
