"""A cut recording agrees as the whole recording does."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from eventstore.reader import LogReader
from replay.agreement.comparison import agree
from replay.agreement.results import AgreementResult
from replay.logs.decode import UPCASTERS
from replay.stock_clusters.imported_log.reading import open_imported
from replay.stock_clusters.imports.importing import Selection, import_source
from replay.stock_clusters.zookeeper_log.transactions import Multi, SetData, Transaction
from tests.replay.stock_clusters.cuts import CUTS, Cut, cuts, ended_at

Get = Callable[[str], Path]

SEED = 0
STARTS_LATE = ("snapshot", "mid_term", "fuzzy")


@pytest.fixture(scope="module")
def cuts_of(folder_of: Get, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Cut]]:
    made: dict[str, list[Cut]] = {}

    def cut(name: str) -> list[Cut]:
        if name not in made:
            made[name] = cuts(folder_of(name), tmp_path_factory.mktemp("cuts"), SEED)
        return made[name]

    return cut


def result_of(cut: Cut, log: Path) -> AgreementResult:
    import_source(cut.folder, log, Selection())
    return agree(log)


def diverging(result: AgreementResult) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return [(one.verdict, one.paths, one.differences) for one in result.divergences]


@pytest.mark.long
@pytest.mark.parametrize("are_logs_cut", [False, True])
@pytest.mark.parametrize("how", CUTS)
def test_cut_recording_agrees(
    how: str,
    are_logs_cut: bool,
    recording: str,
    cuts_of: Callable[[str], list[Cut]],
    tmp_path: Path,
) -> None:
    [cut] = [
        one for one in cuts_of(recording) if (one.how, one.are_logs_cut) == (how, are_logs_cut)
    ]
    result = result_of(cut, tmp_path / "log")
    assert diverging(result) == []
    assert result.explained == result.requests.explained == []
    assert result.warm == 0 or how in STARTS_LATE


def test_cut_recording_with_a_broker_that_serves_late_agrees(
    folder_of: Get, tmp_path: Path
) -> None:
    """All requests of the term that its log has are after the start, and none is missing."""
    made = cuts(folder_of("zookeeper-80105"), tmp_path / "cuts", 7)
    for number, cut in enumerate(one for one in made if one.how == "fuzzy"):
        assert diverging(result_of(cut, tmp_path / f"log-{number}")) == []


@pytest.mark.sampled
@pytest.mark.parametrize("recording", ["broker-crash-2", "reassign-cancel-6"])
def test_recording_that_ends_after_a_requested_write_agrees(
    recording: str, folder_of: Get, tmp_path: Path
) -> None:
    """The request is answered after the end, and is therefore not in the log."""
    import_source(folder_of(recording), tmp_path / "whole", Selection())
    moments = requested_state_writes(tmp_path / "whole")
    assert moments
    for number, moment in enumerate(moments[:: 1 + len(moments) // 4]):
        log = tmp_path / f"log-{number}"
        import_source(folder_of(recording), log, Selection(to_ms=moment))
        assert diverging(agree(log)) == []


def requested_state_writes(log: Path) -> list[int]:
    """Times of state writes that keep leader and leader epoch: brokers request such writes."""
    before: dict[str, tuple[int, int]] = {}
    moments: list[int] = []
    with LogReader.open(log, UPCASTERS) as reader:
        for _, event in open_imported(reader).events():
            if not isinstance(event, Transaction) or not isinstance(event.content, Multi):
                continue
            for one in event.content.operations:
                if isinstance(one, SetData) and one.path.endswith("/state"):
                    state = json.loads(one.data or b"{}")
                    leader = (state["leader"], state["leader_epoch"])
                    if before.get(one.path) == leader:
                        moments.append(event.time_ms)
                    before[one.path] = leader
    return moments


def with_a_gap(folder: Path, copy: Path) -> Path:
    """A recording whose first log is truncated in the middle."""
    shutil.copytree(folder, copy)
    [first] = copy.rglob("log.1")
    first.write_bytes(first.read_bytes()[:30_000])
    return copy


def test_judging_stops_at_missing_transactions_until_the_next_election(
    folder_of: Get, tmp_path: Path
) -> None:
    source = with_a_gap(folder_of("chaos-5"), tmp_path / "source")
    import_source(source, tmp_path / "log", Selection())
    result = agree(tmp_path / "log")
    assert diverging(result) == []
    assert 200 < result.decisions < 300
    assert result.requests.agreed == result.requests.decisions > 0
    [note] = [one for one in result.notes if one.startswith("transactions between zxid ")]
    assert note.endswith(
        " and 0x13c are missing: what follows is not judged up to the first election after zxid"
        " 0x13b, of zookeeper/version-2/snapshot.13b"
    )


def test_judging_ends_at_missing_transactions_without_a_snapshot(
    folder_of: Get, tmp_path: Path
) -> None:
    source = with_a_gap(folder_of("chaos-5"), tmp_path / "source")
    [snapshot] = source.rglob("snapshot.13b")
    snapshot.unlink()
    import_source(source, tmp_path / "log", Selection())
    result = agree(tmp_path / "log")
    assert diverging(result) == []
    assert 0 < result.decisions < 150
    [note] = [one for one in result.notes if one.startswith("transactions between zxid ")]
    assert note.endswith(" and 0x13c are missing: what follows is not judged")


def test_decisions_after_a_missing_election_are_warm(folder_of: Get, tmp_path: Path) -> None:
    """The transaction that the snapshot lacks elects the controller that decides after it."""
    shutil.copytree(folder_of("controller-91008"), tmp_path / "source")
    [gone] = (tmp_path / "source").rglob("log.1")
    gone.unlink()
    import_source(tmp_path / "source", tmp_path / "log", Selection())
    result = agree(tmp_path / "log")
    assert diverging(result) == []
    assert result.decisions == 0
    assert result.warm >= 18
    assert "transactions between zxid 0x259 and 0x25b are missing" in result.notes


@pytest.mark.parametrize("from_ms", [1795220653549, 1795220653568])
def test_writes_of_a_controller_that_was_deposed_before_the_log_are_warm(
    from_ms: int, folder_of: Get, tmp_path: Path
) -> None:
    """/controller was deleted by hand before the first transaction, and no broker elected since."""
    selection = Selection(from_ms=from_ms)
    import_source(folder_of("controller-znode-delete-2"), tmp_path / "log", selection)
    result = agree(tmp_path / "log")
    assert diverging(result) == []
    assert result.agrees
    assert result.warm >= 10
    assert result.decisions > 250


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("recording", "name", "decisions", "warm", "requests"),
    [
        ("chaos-4", "log.1", 600, 50, 960),
        ("chaos-4", "log.1b6", 500, 50, 1190),
        ("log-dirs-91010", "log.11b", 150, 90, 180),
    ],
)
def test_judging_continues_after_a_removed_log_file(
    recording: str,
    name: str,
    decisions: int,
    warm: int,
    requests: int,
    folder_of: Get,
    tmp_path: Path,
) -> None:
    """Judging continues at the first election after the snapshot. The whole recordings have 972 and
    416 decisions, and 1879 and 392 requests."""
    shutil.copytree(folder_of(recording), tmp_path / "source")
    [gone] = (tmp_path / "source").rglob(name)
    gone.unlink()
    import_source(tmp_path / "source", tmp_path / "log", Selection())
    result = agree(tmp_path / "log")
    assert diverging(result) == []
    assert result.decisions >= decisions
    assert result.warm >= warm
    assert result.requests.decisions == result.requests.agreed >= requests


def test_first_reassignment_after_a_cut_is_in_kafkas_order(folder_of: Get, tmp_path: Path) -> None:
    """The order considers partitions of a topic's znode that differ from the first state."""
    [cut] = [
        one
        for one in cuts(folder_of("chaos-5"), tmp_path / "cuts", 1)
        if one.how == "mid_term" and not one.are_logs_cut
    ]
    result = result_of(cut, tmp_path / "log")
    assert [one for one in diverging(result) if one[1] != ("/feature",)] == []


@pytest.mark.sampled
@pytest.mark.parametrize("zxid", [0xA6, 0xC8, 0x10C, 0x111])
def test_request_in_progress_at_the_end_of_the_log_is_inferred(
    zxid: int, folder_of: Get, tmp_path: Path
) -> None:
    """Other requests served meanwhile do not prove that all requests are in the log."""
    cut = ended_at(zxid, folder_of("reassign-cancel-6"), tmp_path / "cut")
    result = result_of(cut, tmp_path / "log")
    assert diverging(result) == []
    assert result.inputs > 0


@pytest.mark.sampled
@pytest.mark.parametrize("zxid", [0x145, 0x215, 0x21A, 0x27E, 0x297])
def test_request_in_progress_that_has_only_written_the_znode_is_inferred(
    zxid: int, folder_of: Get, tmp_path: Path
) -> None:
    cut = ended_at(zxid, folder_of("chaos-5"), tmp_path / "cut")
    assert diverging(result_of(cut, tmp_path / "log")) == []
