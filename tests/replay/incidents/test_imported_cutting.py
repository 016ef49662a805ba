"""A range of an imported log becomes a shorter log, on which the fold agrees."""

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from eventstore.reader import LogReader
from eventstore.verify import verify
from replay.agreement.comparison import agree
from replay.errors import ReplayError
from replay.incidents import imported_cutting
from replay.incidents.cutting import CutLog, cut_log
from replay.logs.decode import UPCASTERS
from replay.logs.packed import log_at
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import (
    DecisionObserved,
    ImportBegun,
    ImportedEvent,
    ImportEnded,
)
from replay.stock_clusters.imported_log.reading import open_imported
from replay.stock_clusters.imports.importing import Selection, import_source
from tests.replay.diff.versions import ROOT

RECORDINGS = ROOT / "tests" / "recordings"
FIRST_ELECTION, SECOND_ELECTION = 32, 1075
"""The transactions of zk-session-expiry-1 that begin its first two terms."""


@pytest.fixture(scope="module")
def log() -> Iterator[Path]:
    with log_at(RECORDINGS / "zk-session-expiry-1.tar.xz") as log:
        yield Path(log)


def made(log: Path, folder: Path, first: int, last: int) -> CutLog:
    with LogReader.open(log, UPCASTERS) as reader:
        return cut_log(reader, folder / "cut", first, last)


def events(log: Path) -> list[ImportedEvent]:
    with LogReader.open(log, UPCASTERS) as reader:
        return [event_of(one) for one in reader.events()]


def test_cut_begins_with_the_previous_election(log: Path, tmp_path: Path) -> None:
    found = made(log, tmp_path, SECOND_ELECTION + 100, SECOND_ELECTION + 400)
    assert (found.first, found.last) == (SECOND_ELECTION, SECOND_ELECTION + 400)
    assert verify(tmp_path / "cut").closed
    result = agree(tmp_path / "cut")
    assert result.agreed > 10
    assert result.diverging == 0
    assert len(events(tmp_path / "cut")) == found.events


def test_cut_equals_an_import_from_its_beginning(tmp_path: Path) -> None:
    """The source has no brokers' logs, whose lines may have the same time as a transaction. The cut
    knows more only about the term of a refused write by an older controller."""
    folder = unpacked(tmp_path)
    whole, later = tmp_path / "whole", tmp_path / "later"
    import_source(folder, whole, Selection())
    with LogReader.open(whole, UPCASTERS) as reader:
        [second] = [
            record
            for record, event in open_imported(reader).events()
            if isinstance(event, DecisionObserved) and event.what == "election" and event.epoch == 2
            if not event.error
        ]
        last = reader.last_seq
    import_source(folder, later, Selection(from_ms=second.wall_ns // 1_000_000))
    assert second.cause is not None
    made(whole, tmp_path, second.cause, last)
    assert without_terms_of_refusals(tmp_path / "cut") == without_terms_of_refusals(later)


def test_cut_before_any_election_begins_with_the_first_requested_event(
    log: Path, tmp_path: Path
) -> None:
    assert made(log, tmp_path, 20, 60).first == 20
    [begun] = [one for one in events(tmp_path / "cut") if isinstance(one, ImportBegun)]
    [before] = [one for one in events(log) if isinstance(one, ImportBegun)]
    assert (begun.source, begun.zxid > before.zxid) == (before.source, True)


def test_cut_keeps_a_transaction_with_its_decision(log: Path, tmp_path: Path) -> None:
    """A range that begins or ends between a transaction and its decision is one record longer."""
    found = made(log, tmp_path, FIRST_ELECTION + 1, SECOND_ELECTION)
    assert (found.first, found.last) == (FIRST_ELECTION, SECOND_ELECTION + 1)
    last = events(tmp_path / "cut")[-2]
    assert isinstance(last, DecisionObserved)
    assert last.what == "election"


def test_cut_begins_earlier_if_divergences_would_differ(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    divergences = imported_cutting.divergences
    calls: list[int] = []

    def worse(imported: object, last: int) -> set[object]:
        calls.append(last)
        return {"another"} if len(calls) == 2 else divergences(imported, last)  # type: ignore[arg-type]

    monkeypatch.setattr(imported_cutting, "divergences", worse)
    found = made(log, tmp_path, SECOND_ELECTION + 100, SECOND_ELECTION + 200)
    assert found.first == FIRST_ELECTION
    monkeypatch.setattr(
        imported_cutting, "divergences", lambda imported, last: {"another"} if last else set()
    )
    with pytest.raises(ReplayError, match="end it later"):
        made(log, tmp_path / "again", SECOND_ELECTION + 100, SECOND_ELECTION + 200)
    assert not (tmp_path / "again" / "cut").exists()


def unpacked(folder: Path) -> Path:
    """The recording's ZooKeeper files."""
    with tarfile.open(RECORDINGS / "zk-session-expiry-1.tar.xz") as archive:
        members = [one for one in archive.getmembers() if "/version-2" in one.name]
        archive.extractall(folder / "source", members, filter="data")
    return folder / "source"


def without_terms_of_refusals(log: Path) -> list[ImportedEvent]:
    """The events except the last one, without the terms of refused writes."""
    return [
        structs.replace(one, epoch=0) if isinstance(one, DecisionObserved) and one.error else one
        for one in events(log)
        if not isinstance(one, ImportEnded)
    ]
