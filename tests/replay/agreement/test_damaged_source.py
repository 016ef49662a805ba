"""The result of an agreement includes which parts of a source could not be used."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from eventstore.reader import LogReader
from eventstore.writer import LogWriter
from replay.agreement.comparison import agree, temporary_import
from replay.agreement.results import AgreementResult
from replay.logs.decode import UPCASTERS
from replay.stock_clusters.imported_log.events import DecisionObserved
from replay.stock_clusters.imports.importing import Selection, import_source
from replay.stock_clusters.zookeeper_log.source import open_source
from replay.stock_clusters.zookeeper_log.transactions import Create, Transaction
from tools.zookeeper_log.incidents import (
    IncidentTransactions,
    copy_all_but_logs,
    transactions_of,
    write_again,
)

Get = Callable[[str], Path]
Change = Callable[[list[Transaction], int], list[Transaction]]

RECORDING = "broker-crash-2"
LOG = "zookeeper/version-2/log.1"


@pytest.fixture(scope="module")
def zxids(folder_of: Get) -> dict[str, list[int]]:
    """The zxids of the recording by kind of decision; "input" for transactions without one."""
    found: dict[str, list[int]] = {}
    with open_source(folder_of(RECORDING)) as source:
        incident = IncidentTransactions(source)
        for one in incident:
            what = incident.decisions.classify(one)
            kind = what.what if isinstance(what, DecisionObserved) else "input"
            found.setdefault(kind, []).append(one.zxid)
    return found


def rewritten(folder: Path, copy: Path, zxid: int, change: Change) -> Path:
    """A copy of the recording whose log has the transactions that `change` returns; `change` is
    called with all transactions and the position of the zxid."""
    copy_all_but_logs(folder, copy)
    with open_source(folder) as source:
        [log] = source.server.logs
        whole = [*transactions_of(log.path)]
        place = next(place for place, one in enumerate(whole) if one.zxid == zxid)
        write_again(log, copy, change(whole, place))
    return copy


def doubled(whole: list[Transaction], place: int) -> list[Transaction]:
    return [*whole[: place + 1], *whole[place:]]


def repeated_later(whole: list[Transaction], place: int) -> list[Transaction]:
    return [*whole[: place + 20], whole[place], *whole[place + 20 :]]


def left_out(whole: list[Transaction], place: int) -> list[Transaction]:
    return [*whole[:place], *whole[place + 1 :]]


def jumping(count: int) -> Change:
    """A change that moves a number of transactions to zxids of a later epoch."""

    def change(whole: list[Transaction], place: int) -> list[Transaction]:
        jumped = [
            structs.replace(one, zxid=(1 << 32) + 5 + number)
            for number, one in enumerate(whole[place : place + count])
        ]
        return [*whole[:place], *jumped, *whole[place + count :]]

    return change


def agree_with(source: Path) -> AgreementResult:
    with temporary_import(source, Selection(), lambda *_: None) as log:
        return agree(log)


# Transactions that come again -----------------------------------------------------------------


@pytest.mark.parametrize("change", [doubled, repeated_later])
def test_repeated_decision_is_missing(
    change: Change, folder_of: Get, tmp_path: Path, zxids: dict[str, list[int]]
) -> None:
    """The fold decided only once. Later decisions are judged as usual."""
    zxid = zxids["partition_state"][40]
    result = agree_with(rewritten(folder_of(RECORDING), tmp_path / "copy", zxid, change))
    [found] = result.divergences
    assert (found.subject, found.verdict, found.kind) == ("decision", "missing", "partition_state")
    assert (found.zxid, found.explained) == (zxid, "")
    [path] = found.paths
    assert path.endswith("/state")
    assert any(f"zxid {zxid:#x}" in line and path in line for line in found.between)
    assert (result.missing, result.agreed, result.agrees) == (1, 132, False)
    assert (result.damaged, result.passed_over) == ({LOG: 1}, 0)


def test_repeated_election_is_missing(
    folder_of: Get, tmp_path: Path, zxids: dict[str, list[int]]
) -> None:
    zxid = zxids["election"][1]
    result = agree_with(rewritten(folder_of(RECORDING), tmp_path / "copy", zxid, doubled))
    assert [(one.verdict, one.kind, one.paths) for one in result.divergences] == [
        ("missing", "election", ("/controller", "/controller_epoch"))
    ]


def test_repeated_input_is_damage(
    folder_of: Get, tmp_path: Path, zxids: dict[str, list[int]]
) -> None:
    """The repetition is reported, but is no decision. The recording is altered."""
    zxid = zxids["input"][100]
    result = agree_with(rewritten(folder_of(RECORDING), tmp_path / "copy", zxid, doubled))
    assert (result.divergences, result.is_explained, result.damaged) == ([], True, {LOG: 1})
    assert (result.altered, result.agrees) == (1, False)


def test_changed_input_is_altered(folder_of: Get, tmp_path: Path) -> None:
    """No decision depends on the time at which a topic was configured."""
    with open_source(folder_of(RECORDING)) as source:
        zxid = next(
            one.zxid
            for one in source.transactions(0)
            if isinstance(one.content, Create) and "/config/topics/" in one.content.path
        )

    def later(history: list[Transaction], at: int) -> list[Transaction]:
        one = structs.replace(history[at], time_ms=history[at].time_ms + 1)
        return [*history[:at], one, *history[at + 1 :]]

    result = agree_with(rewritten(folder_of(RECORDING), tmp_path / "copy", zxid, later))
    assert result.is_explained
    assert result.altered >= 1
    assert not result.agrees


# Transactions that are missing ----------------------------------------------------------------


def test_write_missing_at_the_end_of_its_batch_is_reported(
    folder_of: Get, tmp_path: Path, zxids: dict[str, list[int]]
) -> None:
    """Four leaders move in one batch; the log ends with the fourth, and the fold still waits."""
    zxid = zxids["partition_state"][-2]
    result = agree_with(rewritten(folder_of(RECORDING), tmp_path / "copy", zxid, left_out))
    assert result.divergences == []
    assert result.is_explained
    assert (result.missing_transactions, result.agrees) == (1, False)


# Transactions that are out of order -----------------------------------------------------------


def test_decisions_after_a_zxid_that_jumps_ahead_are_judged(
    folder_of: Get, tmp_path: Path, zxids: dict[str, list[int]]
) -> None:
    zxid = zxids["partition_state"][40]
    result = agree_with(rewritten(folder_of(RECORDING), tmp_path / "copy", zxid, jumping(1)))
    assert result.decisions > 120
    assert (result.damaged, result.passed_over, result.agrees) == ({LOG: 1}, 1, False)


def test_log_with_skipped_transactions_does_not_agree(
    folder_of: Get, tmp_path: Path, zxids: dict[str, list[int]]
) -> None:
    """All judged decisions agree, but those after the damage were not judged."""
    zxid = zxids["election"][1] - 1
    copy = rewritten(folder_of(RECORDING), tmp_path / "copy", zxid, jumping(2))
    result = agree_with(copy)
    assert result.is_explained
    assert not result.agrees
    assert not structs.replace(result, missing_transactions=0).agrees
    after = max(map(max, zxids.values())) - zxid - 1
    assert (result.damaged, result.passed_over) == ({LOG: after}, after)


def test_imported_log_reports_the_damage_of_its_source(folder_of: Get, tmp_path: Path) -> None:
    copy = rewritten(folder_of(RECORDING), tmp_path / "copy", 0x50, jumping(1))
    import_source(copy, tmp_path / "log", Selection())
    result = agree(tmp_path / "log")
    assert (result.damaged, result.passed_over) == ({LOG: 1}, 1)


# Sources that are cut -------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [0, 9])
def test_transaction_log_that_ends_without_zeros_is_cut(
    lost: int, folder_of: Get, tmp_path: Path
) -> None:
    """After or within a record, also without brokers' logs that continue."""
    source = tmp_path / "copy"
    shutil.copytree(folder_of(RECORDING), source)
    shutil.rmtree(source / "logs")
    log = source / LOG
    records = log.read_bytes().rstrip(b"\0")
    log.write_bytes(records[: len(records) - lost])
    result = agree_with(source)
    assert (result.is_explained, result.is_cut, result.agrees) == (True, True, False)
    assert any("later transactions may be missing" in one for one in result.notes)


def test_brokers_logs_that_go_on_show_that_the_transaction_logs_are_cut(
    folder_of: Get, tmp_path: Path, zxids: dict[str, list[int]]
) -> None:
    """The last file is filled with zeros, as the server left it earlier."""
    zxid = zxids["partition_state"][40]
    source = tmp_path / "copy"
    shutil.copytree(folder_of(RECORDING), source)
    rewritten(folder_of(RECORDING), tmp_path / "other", zxid, lambda whole, at: whole[:at])
    shutil.copy(tmp_path / "other" / LOG, source / LOG)
    result = agree_with(source)
    assert any("the end of the transaction logs is missing" in one for one in result.notes)
    assert (result.is_explained, result.is_cut, result.agrees) == (True, True, False)


def test_log_without_the_end_of_its_import_is_cut(folder_of: Get, tmp_path: Path) -> None:
    import_source(folder_of(RECORDING), tmp_path / "log", Selection())
    with (
        LogReader.open(tmp_path / "log", UPCASTERS) as reader,
        LogWriter.create(tmp_path / "cut", reader.header) as writer,
    ):
        writer.append([one for one in reader.events() if one.seq < reader.last_seq])
    result = agree(tmp_path / "cut")
    assert (result.is_explained, result.is_cut, result.agrees) == (True, True, False)


# Damage that does not count -------------------------------------------------------------------


def test_incomplete_end_left_by_a_killed_server_is_no_damage(
    folder_of: Get, tmp_path: Path
) -> None:
    copy = rewritten(folder_of(RECORDING), tmp_path / "copy", 0x50, lambda whole, _: whole)
    log = copy / LOG
    whole = log.read_bytes()
    log.write_bytes(whole.rstrip(b"\0")[:-9].ljust(len(whole), b"\0"))
    result = agree_with(copy)
    assert any("ends at offset" in one for one in result.notes)
    assert (result.damaged, result.passed_over, result.is_cut) == ({}, 0, False)


def test_wrong_checksum_is_damage(folder_of: Get, tmp_path: Path) -> None:
    copy = rewritten(folder_of(RECORDING), tmp_path / "copy", 0x50, lambda whole, _: whole)
    log = copy / LOG
    content = bytearray(log.read_bytes())
    content[20_000] ^= 1
    log.write_bytes(content)
    result = agree_with(copy)
    assert result.damaged == {LOG: 1}
    assert (result.is_explained, result.is_cut, result.agrees) == (True, True, False)


# Brokers' logs --------------------------------------------------------------------------------


def test_damaged_lines_are_counted_by_file(folder_of: Get, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder_of(RECORDING), copy)
    damaged = {
        "logs/broker-1/controller.log": 2,
        "logs/broker-2/state-change.log": 3,
        "logs/broker-3/control-requests.log": 1,
    }
    for name, count in damaged.items():
        with (copy / name).open("a") as log:
            log.write("not a line of Kafka's\n" * count)
    result = agree_with(copy)
    assert result.damaged == damaged
    assert (result.is_explained, result.is_whole, result.agrees) == (True, False, False)


def test_lines_of_unknown_components_and_in_the_text_form_are_counted(
    folder_of: Get, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder_of(RECORDING), copy)
    added = {
        "logs/broker-1/controller.log": "INFO Something new (kafka.controller.New)",
        "logs/broker-3/control-requests.log": "DEBUG Completed request:RequestHeader(apiKey=FETCH)"
        " -- {} (kafka.request.logger)",
    }
    for name, line in added.items():
        with (copy / name).open("a") as log:
            log.write(f"[2026-11-21 00:10:00,000] {line}\n")
    result = agree_with(copy)
    assert result.damaged == dict.fromkeys(added, 1)
    assert (result.is_explained, result.is_whole) == (True, False)


def test_truncated_rotated_log_is_damage(folder_of: Get, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder_of(RECORDING), copy)
    log = copy / "logs/broker-1/controller.log"
    packed = gzip.compress(log.read_bytes())
    log.with_name("controller.log.1.gz").write_bytes(packed[: len(packed) // 2])
    assert agree_with(copy).damaged == {"logs/broker-1/controller.log.1.gz": 1}


def test_lines_with_damaged_content_are_counted_by_broker(folder_of: Get, tmp_path: Path) -> None:
    """The layout of the lines is intact, but their content is not."""
    copy = tmp_path / "copy"
    shutil.copytree(folder_of(RECORDING), copy)
    requests, lines = (
        next(
            log
            for log in sorted(copy.glob(f"logs/broker-*/{name}"))
            if words in log.read_text(encoding="utf-8")
        )
        for name, words in (
            ("control-requests.log", '"controllerEpoch":'),
            ("state-change.log", " become-leader and "),
        )
    )
    replace_first(requests, '"controllerEpoch":', '"controllerEpoch":"x","was":')
    replace_first(lines, " become-leader and ", " become-leader und ")
    damaged = agree_with(copy).damaged
    assert damaged == {
        f"request log of broker {requests.parent.name[-1]}": 1,
        f"state-change.log of broker {lines.parent.name[-1]}": 1,
    }


def test_requests_to_the_controller_with_damaged_content_are_counted(
    folder_of: Get, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder_of("reassign-cancel-6"), copy)
    log = next(
        log
        for log in sorted(copy.glob("logs/broker-*/control-requests.log"))
        if '"ALTER_PARTITION"' in log.read_text(encoding="utf-8")
    )
    replace_first(log, '"brokerEpoch":', '"brokerEpoch":"x","was":', of='"ALTER_PARTITION"')
    damaged = agree_with(copy).damaged
    assert damaged == {f"request log of broker {log.parent.name[-1]}": 1}


def replace_first(log: Path, old: str, new: str, of: str = "") -> None:
    """Replaces text in the first line that has it."""
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
    place = next(place for place, line in enumerate(lines) if old in line and of in line)
    lines[place] = lines[place].replace(old, new, 1)
    log.write_text("".join(lines), encoding="utf-8")
