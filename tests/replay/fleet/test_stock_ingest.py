"""Each transaction of a stock cluster is in the table once, whatever files bring it; damage is
recorded until another capture repairs it. Without Spark."""

import shutil
from itertools import permutations
from pathlib import Path

import pytest
from msgspec import structs

from replay.stock_clusters.imported_log.encoding import decode_event
from replay.stock_clusters.imported_log.events import ImportEnded
from replay.stock_clusters.zookeeper_log.source import open_source
from replay.stock_clusters.zookeeper_log.transactions import Multi, SetData, Transaction
from tests.replay.fleet.stock_table import Record, StockTable, capture, imported, unpacked
from tools.zookeeper_log.corruption import corrupt
from tools.zookeeper_log.incidents import transactions_of, write_again

LOGS = ("log.1", "log.9f", "log.144")
SNAPSHOTS = ("snapshot.0", "snapshot.9d", "snapshot.142")
ALTERED = 0x65
"""A transaction that writes a topic's znode."""
BROKER_LOGS = ("controller.log", "state-change.log", "control-requests.log")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stock cluster's data: three transaction logs, a snapshot before each."""
    return unpacked("chaos-9120556", tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def whole(source: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """The rows of an import of the complete source."""
    return imported(source, tmp_path_factory.mktemp("whole") / "log")


@pytest.fixture
def table(tmp_path: Path) -> StockTable:
    return StockTable(tmp_path / "table")


def flip(file: Path, offset: int) -> None:
    content = bytearray(file.read_bytes())
    content[offset] ^= 1
    file.write_bytes(content)


@pytest.mark.sampled
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_overlapping_captures_are_one_log(
    order: tuple[int, ...], source: Path, whole: list[Record], table: StockTable, tmp_path: Path
) -> None:
    """Captures of three days; autopurge removed the first files before the last two."""
    days = [
        capture(source, tmp_path / "day-1", LOGS[1:] + SNAPSHOTS[1:]),
        capture(source, tmp_path / "day-2", LOGS[2:] + SNAPSHOTS[2:]),
        capture(source, tmp_path / "day-3", LOGS[:1] + SNAPSHOTS[:1]),
    ]
    for day in order:
        table.ingest(days[day])
        assert table.reasons == {}
    assert table.only_log == whole
    [row] = table.logs
    assert (row["first_zxid"], row["last_zxid"], row["lacking"]) == (1, 0x154, [])


def test_captures_of_one_ingest_are_one_log(
    source: Path, whole: list[Record], table: StockTable, tmp_path: Path
) -> None:
    days = [
        capture(source, tmp_path / "day-1", LOGS[2:]),
        capture(source, tmp_path / "day-2", LOGS[:1] + SNAPSHOTS[:1]),
    ]
    table.ingest(*days)
    assert table.only_log == whole


def test_folder_that_grows_and_is_purged_adds_what_is_new(
    source: Path, whole: list[Record], table: StockTable, tmp_path: Path
) -> None:
    folder = capture(source, tmp_path / "folder", (*LOGS[2:], *SNAPSHOTS[2:], *BROKER_LOGS))
    [first] = table.ingest(folder)
    files = folder / "zookeeper" / "version-2"
    for name in (LOGS[2], SNAPSHOTS[2]):
        shutil.copy(source / "zookeeper" / "version-2" / name, files)
    for name in (LOGS[0], SNAPSHOTS[0]):
        (files / name).unlink()
    [second] = table.ingest(folder)
    assert second.get("replaces") is None
    assert second["from_seq"] == first["last_seq"] + 1
    [records] = table.records.values()
    assert [one[0] for one in records] == list(range(1, len(records) + 1))
    transactions = [one[2] for one in records if one[1] == "transaction"]
    assert transactions == [one[2] for one in whole if one[1] == "transaction"]
    assert table.ingest(folder) == []


def test_brokers_logs_that_arrive_later_are_added(
    source: Path, whole: list[Record], table: StockTable, tmp_path: Path
) -> None:
    table.ingest(capture(source, tmp_path / "zookeeper-only", BROKER_LOGS))
    assert table.only_log != whole
    [row] = table.ingest(capture(source, tmp_path / "with-logs", SNAPSHOTS[1:]))
    assert table.only_log == whole
    assert row["replaces"]


def test_servers_of_one_ensemble_complete_each_other(
    source: Path, whole: list[Record], table: StockTable, tmp_path: Path
) -> None:
    folder = capture(source, tmp_path / "ensemble", LOGS[2:])
    other = folder / "zookeeper-2" / "version-2"
    other.mkdir(parents=True)
    for name in (*LOGS[1:], *SNAPSHOTS[1:]):
        shutil.copy(source / "zookeeper" / "version-2" / name, other)
    table.ingest(folder)
    assert table.only_log == whole


def test_captures_far_apart_are_two_logs_until_another_one_joins_them(
    source: Path, whole: list[Record], table: StockTable, tmp_path: Path
) -> None:
    table.ingest(
        capture(source, tmp_path / "first", LOGS[1:] + SNAPSHOTS[1:]),
        capture(source, tmp_path / "last", LOGS[:2]),
    )
    assert len(table.records) == 2
    table.ingest(capture(source, tmp_path / "between", (LOGS[0], LOGS[2])))
    assert table.only_log == whole
    assert table.logs[0]["lacking"] == []


@pytest.mark.parametrize("sound_first", [True, False])
def test_sound_capture_repairs_a_damaged_one(
    sound_first: bool,
    source: Path,
    whole: list[Record],
    table: StockTable,
    tmp_path: Path,
) -> None:
    damaged = capture(source, tmp_path / "damaged")
    flip(damaged / "zookeeper" / "version-2" / LOGS[1], 20_000)
    captures = [source, damaged]
    if not sound_first:
        [row] = table.ingest(damaged)
        [damage, gap] = row["lacking"]
        assert f"{damaged}/zookeeper/version-2/log.9f ends at offset" in damage
        assert "are missing" in gap
        ended = decode_event(row["import_ended"])
        assert isinstance(ended, ImportEnded)
        assert len(ended.damages) == 1
        captures = [source]
    for one in captures:
        table.ingest(one)
    assert table.reasons == {}
    assert table.only_log == whole
    [row] = table.logs
    assert row["lacking"] == []
    ended = decode_event(row["import_ended"])
    assert isinstance(ended, ImportEnded)
    assert (ended.damages, ended.damaged, ended.is_cut) == ([], [], False)


def test_damage_at_the_end_is_recorded_until_later_transactions_arrive(
    source: Path, whole: list[Record], table: StockTable, tmp_path: Path
) -> None:
    damaged = capture(source, tmp_path / "damaged", LOGS[1:] + SNAPSHOTS[1:])
    flip(damaged / "zookeeper" / "version-2" / LOGS[0], 20_000)
    [row] = table.ingest(damaged)
    assert "log.1 ends at offset" in row["lacking"][0]
    table.ingest(source)
    assert table.only_log == whole
    assert table.logs[0]["lacking"] == []


def altered(source: Path, target: Path) -> Path:
    """A copy in which one transaction was changed, with a correct checksum; it no longer matches
    its digest."""
    capture(source, target)
    with open_source(source) as opened:
        for log in opened.server.logs:
            transactions = [_altered(one) for one in transactions_of(log.path)]
            write_again(log, target, transactions)
    return target


def _altered(one: Transaction) -> Transaction:
    if one.zxid != ALTERED or not isinstance(one.content, Multi):
        return one
    check, write = one.content.operations
    assert isinstance(write, SetData)
    content = structs.replace(
        one.content, operations=(check, structs.replace(write, data=(write.data or b"") + b" "))
    )
    return structs.replace(one, content=content)


@pytest.mark.sampled
@pytest.mark.parametrize("order", ["altered first", "sound first", "together"])
def test_altered_capture_does_not_hide_a_sound_one(
    order: str, source: Path, whole: list[Record], table: StockTable, tmp_path: Path
) -> None:
    wrong = altered(source, tmp_path / "altered")
    if order == "altered first":
        table.ingest(wrong)
        assert "does not match the digest" in table.logs[0]["lacking"][0]
        table.ingest(source)
        assert table.reasons == {}
    else:
        if order == "sound first":
            table.ingest(source)
            table.ingest(wrong)
        else:
            table.ingest(wrong, source)
        assert list(table.reasons) == [str(wrong)]
    assert table.only_log == whole
    assert table.logs[0]["lacking"] == []


def test_data_of_two_zookeepers_in_one_capture_is_incomplete(
    source: Path, table: StockTable, tmp_path: Path
) -> None:
    folder = capture(source, tmp_path / "both")
    shutil.move(unpacked("unclean-3", tmp_path / "other"), folder / "z-other")
    [row] = table.ingest(folder)
    assert "name their folders separately" in row["lacking"][0]


@pytest.mark.parametrize("changed_first", [True, False])
def test_capture_with_another_transaction_is_set_aside_unless_it_replaces(
    changed_first: bool, source: Path, whole: list[Record], table: StockTable, tmp_path: Path
) -> None:
    changed = tmp_path / "changed"
    corrupt(source, changed, seed=3)
    # Without digests, every transaction of the copy differs; so a sound capture has none either.
    first, second = (changed, source) if changed_first else (source, changed)
    table.ingest(first)
    before = table.only_log
    assert table.ingest(second) == []
    [(path, reason)] = table.reasons.items()
    assert path == str(second)
    assert "has another transaction" in reason
    assert "--replace" in reason
    assert table.only_log == before
    table.ingest(replacing=[second])
    assert table.reasons == {}
    if changed_first:
        assert table.only_log == whole
        assert table.logs[0]["lacking"] == []
