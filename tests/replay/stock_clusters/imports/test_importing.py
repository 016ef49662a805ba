"""Imported recordings of stock clusters: what is counted, and what the log contains."""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from eventstore.errors import LogExists
from eventstore.reader import LogReader
from eventstore.verify import verify
from replay.agreement.comparison import agree
from replay.errors import ReplayError
from replay.logs.decode import UPCASTERS
from replay.stock_clusters.imported_log.events import (
    ControllerLogged,
    DecisionObserved,
    ImportedEvent,
    ImportEnded,
    RequestInferred,
    RequestServed,
    TransactionsMissing,
)
from replay.stock_clusters.imported_log.reading import open_imported
from replay.stock_clusters.imports.importing import Selection, import_source
from replay.stock_clusters.imports.report import ImportResult
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.source import open_source
from replay.stock_clusters.zookeeper_log.transactions import OPEN_ACL, OpCode, Transaction
from tests.replay.stock_clusters.zookeeper_log.samples import (
    RECORDING,
    at,
    create,
    log_file,
    tree_digest,
)
from tools.zookeeper_log.file_format import write_snapshot

CRASH = RECORDING.with_name("broker-crash-2.tar.xz")
SECOND_HALF_MS = 1_795_223_070_000


Get = Callable[[str], Path]


@pytest.fixture(scope="module")
def chaos(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ImportResult]:
    log = tmp_path_factory.mktemp("chaos") / "log"
    return log, import_source(RECORDING, log, Selection())


def events(log: Path) -> Iterator[ImportedEvent]:
    with LogReader(log, UPCASTERS) as reader:
        for _, event in open_imported(reader).events():
            yield event


def zookeeper_only(source: Path, target: Path) -> Path:
    return shutil.copytree(source / "zookeeper", target)


def test_counts_match_the_scenario(chaos: tuple[Path, ImportResult]) -> None:
    """Five terms, 20 sessions; the request logs have every AlterPartition and reassignment."""
    _, result = chaos
    assert (result.transactions, result.sessions, result.terms) == (721, 20, 5)
    assert (result.chroot, result.cluster_id) == ("/prod/k1", "BJ0gD59BQpyVzmpRHlP6CQ")
    assert (result.decisions, result.warm, result.inputs) == (336, 0, 0)
    assert result.by_kind["election"] == 5 + 5
    assert result.damages == result.gaps == []
    assert result.events == sum(result.broker_events.values()) + 721 + 336 + 3


def test_imported_log_is_sound_and_closed(chaos: tuple[Path, ImportResult]) -> None:
    log, result = chaos
    report = verify(log)
    assert report.is_sound
    assert report.closed
    assert report.events == result.events


def test_log_has_the_transactions_unchanged(chaos: tuple[Path, ImportResult]) -> None:
    with open_source(RECORDING) as source:
        expected = list(source.transactions())
    assert [one for one in events(chaos[0]) if isinstance(one, Transaction)] == expected


def test_state_and_transactions_of_the_log_match_zookeepers_digests(
    tmp_path: Path, folder_of: Get
) -> None:
    import_source(folder_of("chaos-5"), tmp_path / "log", Selection(from_ms=SECOND_HALF_MS))
    with LogReader(tmp_path / "log", UPCASTERS) as reader:
        imported = open_imported(reader)
        assert imported.state.sessions
        compared = 0
        for _, event in imported.events():
            if isinstance(event, Transaction):
                imported.state.apply(event)
                if event.digest is not None:
                    compared += 1
                    assert event.digest.value == tree_digest(imported.state.tree)
    assert compared > 100


def test_each_decision_follows_its_transaction(chaos: tuple[Path, ImportResult]) -> None:
    found: Counter[str] = Counter()
    with LogReader(chaos[0], UPCASTERS) as reader:
        before: Any = None
        for record, event in open_imported(reader).events():
            if isinstance(event, DecisionObserved):
                assert record.cause == before[0].seq
                assert before[1].zxid == event.zxid
                assert record.channel == before[0].channel
                assert record.term >= event.epoch
                found[event.what] += 1
            before = record, event
    assert found == chaos[1].by_kind


def test_brokers_lines_are_among_the_transactions_in_order_of_time(
    chaos: tuple[Path, ImportResult],
) -> None:
    with LogReader(chaos[0], UPCASTERS) as reader:
        times_ns = [record.wall_ns for record, _ in open_imported(reader).events()]
    backwards = [a - b for a, b in pairwise(times_ns) if a > b]
    assert max(backwards, default=0) < 2_000_000_000
    kinds = Counter(type(one) for one in events(chaos[0]))
    assert kinds[RequestServed] == chaos[1].broker_events["request_served"]
    elected = [
        one
        for one in events(chaos[0])
        if isinstance(one, ControllerLogged) and one.event == "Elected"
    ]
    assert len(elected) == 5


def test_requests_are_inferred_from_writes_without_request_logs(
    tmp_path: Path, folder_of: Get
) -> None:
    """The inputs are as many as the recordings' request logs have granted requests: 16
    reassignments in one recording, 27 AlterPartition in the other."""
    for recording, inputs in (
        ("chaos-5", {"alter_partition_reassignments": 16}),
        ("broker-crash-2", {"alter_partition": 27}),
    ):
        source = zookeeper_only(folder_of(recording), tmp_path / recording)
        log = tmp_path / f"log of {recording}"
        result = import_source(source, log, Selection())
        assert result.inputs_by_kind == inputs
        assert result.broker_events == {}
        inferred = [one for one in events(log) if isinstance(one, RequestInferred)]
        assert len(inferred) == result.inputs
        with_logs = import_source(folder_of(recording), tmp_path / f"{log.name} 2", Selection())
        assert with_logs.decisions == result.decisions + result.inputs


def test_transactions_before_from_are_part_of_the_first_state(
    tmp_path: Path, folder_of: Get
) -> None:
    to_ms = SECOND_HALF_MS + 20_000
    selection = Selection(from_ms=SECOND_HALF_MS, to_ms=to_ms)
    result = import_source(folder_of("chaos-5"), tmp_path / "log", selection)
    with open_source(RECORDING) as source:
        times = [one.time_ms for one in source.transactions()]
    assert result.skipped == sum(one < SECOND_HALF_MS for one in times)
    assert result.transactions == sum(SECOND_HALF_MS <= one <= to_ms for one in times)
    assert result.from_ms is not None
    assert result.to_ms is not None
    assert SECOND_HALF_MS <= result.from_ms <= result.to_ms <= to_ms
    assert result.warm > 0
    assert result.terms == result.by_kind.get("election", 0) - lost(tmp_path / "log") + 1
    with LogReader(tmp_path / "log", UPCASTERS) as reader:
        assert all(record.wall_ns <= to_ms * 1_000_000 for record in reader.events())


def test_import_from_a_time_starts_at_a_later_snapshot_if_none_precedes_the_logs(
    tmp_path: Path, folder_of: Get
) -> None:
    source = zookeeper_only(folder_of("chaos-5"), tmp_path / "zookeeper")
    selection = Selection(from_ms=SECOND_HALF_MS)
    whole = import_source(source, tmp_path / "whole", selection)
    (source / "version-2" / "snapshot.0").unlink()
    result = import_source(source, tmp_path / "log", selection)
    assert result.by_kind == whole.by_kind
    assert (result.skipped, result.transactions) == (whole.skipped, whole.transactions)
    with (
        LogReader(tmp_path / "log", UPCASTERS) as reader,
        LogReader(tmp_path / "whole", UPCASTERS) as other,
    ):
        state, expected = (
            open_imported(reader).state.tree.dump(),
            open_imported(other).state.tree.dump(),
        )
    # The initial ACL differs between servers.
    assert state.pop("/zookeeper/config").data == expected.pop("/zookeeper/config").data
    assert state == expected


def lost(log: Path) -> int:
    found = [one for one in events(log) if isinstance(one, DecisionObserved)]
    return sum(one.what == "election" and one.error != 0 and not one.warm for one in found)


def test_from_after_the_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="all transactions are before --from"):
        import_source(RECORDING, tmp_path / "log", Selection(from_ms=2**45))
    assert not (tmp_path / "log").exists()


def test_to_before_the_beginning_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="all transactions are after --to"):
        import_source(RECORDING, tmp_path / "log", Selection(to_ms=1000))
    assert not (tmp_path / "log").exists()


def test_import_begins_with_any_snapshot(tmp_path: Path, folder_of: Get) -> None:
    source = zookeeper_only(folder_of("chaos-5"), tmp_path / "zookeeper")
    for name in ("log.1", "snapshot.0"):
        (source / "version-2" / name).unlink()
    result = import_source(source, tmp_path / "log", Selection())
    assert (result.from_zxid, result.to_zxid) == (0x13B, 0x2D1)
    assert result.transactions == 0x2D1 - 0x13B
    assert result.warm > 0
    assert result.chroot == "/prod/k1"


def test_good_part_of_a_damaged_file_is_imported(tmp_path: Path, folder_of: Get) -> None:
    source = zookeeper_only(folder_of("chaos-5"), tmp_path / "zookeeper")
    log = source / "version-2" / "log.1"
    content = bytearray(log.read_bytes())
    content[20_000] ^= 0xFF
    log.write_bytes(content)
    result = import_source(source, tmp_path / "log", Selection())
    [damage] = result.damages
    [gap] = result.gaps
    assert "log.1 ends at offset" in damage
    assert "at zxid 0x" in damage
    missing = [one for one in events(tmp_path / "log") if isinstance(one, TransactionsMissing)]
    assert [one.before for one in missing] == [0x13C]
    assert f"{missing[0].after:#x}" in gap
    assert result.transactions == missing[0].after + 0x2D1 - 0x13B
    [ended] = [one for one in events(tmp_path / "log") if isinstance(one, ImportEnded)]
    assert [str(one) for one in ended.damages] == result.damages


@pytest.mark.parametrize(
    ("place", "missing"), [(0, 0x13B), (200, 0x13B - 3)], ids=["header", "fourth transaction"]
)
def test_import_after_a_damaged_first_file_starts_at_a_later_snapshot(
    place: int, missing: int, tmp_path: Path, folder_of: Get
) -> None:
    source = zookeeper_only(folder_of("chaos-5"), tmp_path / "source")
    first = source / "version-2" / "log.1"
    content = bytearray(first.read_bytes())
    content[place : place + 4] = b"XXXX"
    first.write_bytes(content)
    result = import_source(source, tmp_path / "log", Selection())
    assert result.transactions == 406
    [damage] = result.damages
    assert damage.startswith("version-2/log.1 ends at offset ")
    [gap] = result.gaps
    assert gap.endswith("0x13c are missing")
    assert result.notes[-1].startswith("starts from version-2/snapshot.13b: the logs bef")
    [ended] = [one for one in events(tmp_path / "log") if isinstance(one, ImportEnded)]
    assert ended.missing_before == missing
    assert [one.file for one in ended.damaged] == ["version-2/log.1"]
    (source / "version-2" / "snapshot.13b").unlink()
    with pytest.raises(ReplayError, match=r"log\.1 ends at offset .* no Kafka cluster"):
        import_source(source, tmp_path / "other", Selection())


@pytest.mark.parametrize("others", [True, False])
def test_damaged_snapshot_without_an_alternative_is_reported(
    others: bool, tmp_path: Path, folder_of: Get
) -> None:
    """Both with and without another snapshot, after which no log continues."""
    source = zookeeper_only(folder_of("chaos-5"), tmp_path / "source") / "version-2"
    (source / "log.1").unlink()
    if not others:
        (source / "snapshot.0").unlink()
    snapshot = source / "snapshot.13b"
    snapshot.write_bytes(snapshot.read_bytes()[:7000])
    with pytest.raises(ReplayError, match=r"snapshot\.13b ends at offset \d+: "):
        import_source(source, tmp_path / "log", Selection())


def test_transactions_that_a_damaged_snapshot_hides_are_counted(
    tmp_path: Path, folder_of: Get
) -> None:
    """Transactions between a damaged snapshot and the next log are missing."""
    source = zookeeper_only(folder_of("chaos-5"), tmp_path / "source") / "version-2"
    (source / "log.1").unlink()
    with open_source(source) as opened:
        state = opened.first_state()
        for one in islice(opened.transactions(state.zxid), 100):
            state.apply(one)
    znodes = [(path, 1, znode) for path, znode in sorted(state.tree.dump().items())]
    with (source / f"snapshot.{state.zxid:x}").open("wb") as stream:
        write_snapshot(stream, state.sessions, {1: OPEN_ACL}, znodes)
    for name in ("snapshot.0", "snapshot.13b"):
        (source / name).write_bytes(b"ZKSN")
    result = import_source(source, tmp_path / "log", Selection())
    assert len(result.damages) == 2
    assert result.from_zxid == state.zxid
    [ended] = [one for one in events(tmp_path / "log") if isinstance(one, ImportEnded)]
    assert ended.missing_before == 100
    assert agree(tmp_path / "log").missing_transactions == 100


def test_unreadable_logs_are_refused(tmp_path: Path, folder_of: Get) -> None:
    source = zookeeper_only(folder_of("chaos-5"), tmp_path / "source")
    for one in (source / "version-2").glob("log.*"):
        one.write_bytes(b"ZKLG\0\0\0\3" + bytes(8))
    with pytest.raises(
        ReplayError, match=r"no transaction can be read: .*log\.13c ends .*version 3"
    ):
        import_source(source, tmp_path / "log", Selection())
    assert not (tmp_path / "log").exists()


def test_logs_without_a_transaction_are_refused(tmp_path: Path) -> None:
    log_file(tmp_path / "version-2", [], 1)
    with pytest.raises(ReplayError, match="the logs have no transaction; no Kafka cluster is in"):
        import_source(tmp_path, tmp_path / "log", Selection())


def test_name_of_the_source_may_have_any_bytes(tmp_path: Path) -> None:
    source = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a \xff"))
    log_file(source / "version-2", [at(1, OpCode.CREATE, create("/brokers/ids", 1))])
    assert import_source(source, tmp_path / "log", Selection()).transactions == 1
    with LogReader(tmp_path / "log", UPCASTERS) as reader:
        assert open_imported(reader).begun.source.endswith(r"/a \udcff")


def test_failed_import_leaves_no_log(tmp_path: Path) -> None:
    """The second cluster is found after a part of the log was written."""
    source, paths = (
        tmp_path / "version-2",
        ["/a", "/a/brokers", "/a/brokers/ids", "/a/brokers/ids/1"],
    )
    paths += ["/b", "/b/brokers", "/b/brokers/ids"]
    made = [at(zxid, OpCode.CREATE, create(path, 1)) for zxid, path in enumerate(paths, 1)]
    log_file(source, made)
    (tmp_path / "there").mkdir()
    for name in ("new", "there"):
        with pytest.raises(ReplayError, match="under /a, /b: choose one with --chroot"):
            import_source(tmp_path, tmp_path / name, Selection())
    assert not (tmp_path / "new").exists()
    assert [one.name for one in (tmp_path / "there").iterdir()] == ["lock"]
    named = import_source(tmp_path, tmp_path / "new", Selection(chroot="/b"))
    assert (named.transactions, named.chroot) == (7, "/b")


def test_times_outside_of_the_logs_range_are_clamped(tmp_path: Path) -> None:
    far = [
        Transaction(1, 1, 1, 2**62, OpCode.CREATE, create("/brokers", 1)),
        Transaction(2, 1, 1, -(2**62), OpCode.CREATE, create("/brokers/ids", 1)),
    ]
    log_file(tmp_path / "version-2", far)
    assert import_source(tmp_path, tmp_path / "log", Selection()).transactions == 2
    assert verify(tmp_path / "log").is_sound


def test_existing_log_is_not_overwritten(chaos: tuple[Path, ImportResult]) -> None:
    with pytest.raises(LogExists):
        import_source(RECORDING, chaos[0], Selection())
    assert verify(chaos[0]).events == chaos[1].events


def test_final_tree_equals_that_of_the_recording(
    chaos: tuple[Path, ImportResult], folder_of: Get
) -> None:
    final = json.loads((folder_of("chaos-5") / "final.json").read_text())
    with LogReader(chaos[0], UPCASTERS) as reader:
        imported = open_imported(reader)
        for _, event in imported.events():
            if isinstance(event, Transaction):
                imported.state.apply(event)
    assert imported.state.tree.dump().keys() == final["znodes"].keys()


def test_first_state_of_a_fuzzy_snapshot_is_exact(tmp_path: Path) -> None:
    """The snapshot of zxid 13 contains the znode of transaction 14, but not that of 15."""
    paths = ["/brokers", "/brokers/ids", "/a", "/b", "/c"]
    made = [at(zxid, OpCode.CREATE, create(path, zxid)) for zxid, path in enumerate(paths, 11)]
    log_file(tmp_path / "version-2", made)
    state = ZooKeeperState()
    for one in made[:4]:
        state.apply(one)
    with (tmp_path / "version-2" / "snapshot.d").open("wb") as stream:
        znodes = [(path, 1, znode) for path, znode in state.tree.dump().items()]
        write_snapshot(stream, {}, {1: OPEN_ACL}, znodes)
    result = import_source(tmp_path, tmp_path / "log", Selection())
    assert (result.from_zxid, result.skipped, result.transactions) == (14, 1, 1)
    with LogReader(tmp_path / "log", UPCASTERS) as reader:
        imported = open_imported(reader)
    assert imported.state.tree.dump() == state.tree.dump()


def test_logs_of_another_time_zone_are_reported(tmp_path: Path, folder_of: Get) -> None:
    wrong = Selection(zone=ZoneInfo("Asia/Kolkata"))
    result = import_source(folder_of("broker-crash-2"), tmp_path / "log", wrong)
    [note] = [one for one in result.notes if "--zone" in one]
    assert note.startswith("the brokers' logs are 330 minutes behind ZooKeeper's")
    right = import_source(folder_of("broker-crash-2"), tmp_path / "right", Selection())
    assert [one for one in right.notes if "--zone" in one] == []
