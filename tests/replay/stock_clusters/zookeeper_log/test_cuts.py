"""A cut recording is read to the same end as the whole recording."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from replay.stock_clusters.imported_log.events import DecisionObserved
from replay.stock_clusters.imports.importing import Selection, import_source
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.source import open_source
from replay.znode_tree.tree import Znode
from tests.replay.stock_clusters.cuts import CUTS, Cut, cuts
from tests.replay.stock_clusters.zookeeper_log.samples import tree_digest
from tools.zookeeper_log.incidents import IncidentTransactions

WITH_SNAPSHOT = ("snapshot", "mid_term", "fuzzy")
TIME = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] ", re.MULTILINE)


@pytest.fixture(scope="module", params=[1, 2])
def recording_cuts(
    request: pytest.FixtureRequest, incident: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[Cut]:
    return cuts(incident, tmp_path_factory.mktemp("cuts"), request.param)


def held_at(folder: Path, end: int) -> tuple[dict[str, Znode], dict[int, int]]:
    """The znodes and sessions after the transactions up to `end`."""
    with open_source(folder) as source:
        state = source.first_state()
        for transaction in source.transactions(state.zxid):
            if transaction.zxid <= end:
                state.apply(transaction)
    return state.tree.dump(), state.sessions


def last_zxid(folder: Path) -> int:
    with open_source(folder) as source:
        return [one.zxid for one in source.transactions()][-1]


def decisions_after(folder: Path, zxid: int) -> list[tuple[int, str, int]]:
    with open_source(folder) as source:
        incident = IncidentTransactions(source)
        found = [incident.decisions.classify(one) for one in incident]
    return [
        (one.zxid, one.what, one.error)
        for one in found
        if isinstance(one, DecisionObserved) and one.zxid > zxid
    ]


def test_every_kind_of_cut_is_made_with_whole_and_cut_logs(recording_cuts: list[Cut]) -> None:
    expected = [(how, are_logs_cut) for how in CUTS for are_logs_cut in (False, True)]
    assert [(one.how, one.are_logs_cut) for one in recording_cuts] == expected


def test_end_equals_that_of_the_whole_recording(incident: Path, recording_cuts: list[Cut]) -> None:
    for cut in recording_cuts:
        end = last_zxid(cut.folder)
        assert end == (last_zxid(incident) if cut.how in WITH_SNAPSHOT else cut.zxid)
        assert held_at(cut.folder, end) == held_at(incident, end)


@pytest.mark.sampled
def test_cut_recording_is_imported_without_a_gap(tmp_path: Path, recording_cuts: list[Cut]) -> None:
    for cut in recording_cuts:
        result = import_source(cut.folder, tmp_path / cut.folder.name, Selection())
        assert result.gaps == []
        assert result.transactions > 0
        assert result.to_ms == cut.to_ms
        if cut.how in WITH_SNAPSHOT:
            assert (result.from_zxid == cut.zxid) is (cut.how != "fuzzy")
            assert result.from_zxid >= cut.zxid
            assert f"snapshot.{cut.zxid:x}" in result.notes[0]
        else:
            assert (result.from_zxid, result.to_zxid) == (0, cut.zxid)
        assert len(result.damages) == (cut.how == "torn")
        assert all(f"at zxid {cut.zxid:#x}: the" in one for one in result.damages)
        assert all("cut off" in one for one in result.damages)


def test_decisions_equal_those_of_the_whole_recording(
    incident: Path, recording_cuts: list[Cut]
) -> None:
    for cut in recording_cuts:
        if cut.how in WITH_SNAPSHOT and not cut.are_logs_cut:
            with open_source(cut.folder) as source:
                exact_from = source.first_state().exact_from
            whole = decisions_after(incident, exact_from)
            assert decisions_after(cut.folder, exact_from) == whole


def test_cut_in_mid_term_has_a_controller_and_only_later_logs(recording_cuts: list[Cut]) -> None:
    for cut in recording_cuts:
        if cut.how in ("mid_term", "fuzzy"):
            with open_source(cut.folder) as source:
                first = next(iter(source.transactions()))
                tree = source.first_state().tree.dump()
                assert source.server.logs[0].zxid == first.zxid
            if cut.how == "mid_term":
                assert any(path.endswith("/controller") for path in tree)
                assert first.zxid == cut.zxid + 1
            else:
                assert first.zxid <= cut.zxid


def test_fuzzy_snapshot_has_some_later_changes(incident: Path, recording_cuts: list[Cut]) -> None:
    """Transactions applied to it match ZooKeeper's digests from the zxid where it is exact."""
    fuzzy = [one for one in recording_cuts if one.how == "fuzzy"]
    for cut in fuzzy:
        with open_source(cut.folder) as source:
            state = source.first_state()
            assert state.exact_from > cut.zxid
            assert state.tree.dump() != held_at(incident, state.exact_from)[0]
            compared = compare_digests(state, source.transactions)
            assert compared


def compare_digests(state: ZooKeeperState, transactions: Callable) -> int:
    compared = 0
    for transaction in transactions(state.zxid):
        state.apply(transaction)
        if transaction.zxid >= state.exact_from and transaction.digest is not None:
            assert transaction.digest.value == tree_digest(state.tree), hex(transaction.zxid)
            compared += 1
    return compared


def test_torn_log_ends_within_a_record(recording_cuts: list[Cut]) -> None:
    for cut in recording_cuts:
        if cut.how == "torn":
            with open_source(cut.folder) as source:
                logs = source.transactions()
                list(logs)
            assert [one.is_torn for one in logs.damages] == [True]


@pytest.mark.sampled
def test_brokers_logs_are_whole_or_cut_to_the_same_time(
    incident: Path, recording_cuts: list[Cut]
) -> None:
    for cut in recording_cuts:
        for path in incident.glob("logs/*/*-*.log"):
            whole = path.read_text()
            left = (cut.folder / path.relative_to(incident)).read_text()
            if cut.are_logs_cut:
                assert whole.count(left) == 1 or not left
                assert times_ms(left) == [
                    one for one in times_ms(whole) if cut.from_ms <= one <= cut.to_ms
                ]
            else:
                assert left == whole


def times_ms(text: str) -> list[int]:
    found = [datetime.strptime(one, "%Y-%m-%d %H:%M:%S,%f") for one in TIME.findall(text)]
    return [round(one.replace(tzinfo=UTC).timestamp() * 1000) for one in found]


def test_same_seed_makes_the_same_cuts(incident: Path, tmp_path: Path) -> None:
    once, again = cuts(incident, tmp_path / "1", 5), cuts(incident, tmp_path / "2", 5)
    for one, other in zip(once, again, strict=True):
        assert one.zxid == other.zxid
        for path in one.folder.rglob("*.*"):
            copy = other.folder / path.relative_to(one.folder)
            assert path.is_dir() or path.read_bytes() == copy.read_bytes()
