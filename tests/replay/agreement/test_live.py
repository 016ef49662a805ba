"""A log that is compared while it grows: the result is the one of `refold agree` at its end."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec import structs

from controller.core import election
from controller.core.configuration import Configuration
from controller.core.operations import BAD_VERSION
from eventstore.reader import LogReader
from eventstore.records import EventRecord
from replay.agreement import live as live_agreement
from replay.agreement.comparison import agree
from replay.agreement.live import EVIDENCE_MS, SETTLED_MS, SHUTDOWN_MS, LiveAgreement, LiveSettings
from replay.agreement.results import AgreementResult, Divergence
from replay.logs.decode import UPCASTERS
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import (
    DecisionObserved,
    ImportedEvent,
    RequestInferred,
)
from replay.stock_clusters.imports.importing import Selection, import_source
from replay.stock_clusters.zookeeper_log.transactions import (
    CloseSession,
    Error,
    Multi,
    OpCode,
    Transaction,
)
from tools.agreement.fewer_logs import copy_with_fewer_logs

Get = Callable[[str], Path]
Record = tuple[EventRecord, ImportedEvent]

_NS = 1_000_000
_MUCH_LATER_MS = 10 * SHUTDOWN_MS


def records_of(log: Path) -> list[Record]:
    with LogReader.open(log, UPCASTERS) as reader:
        return [(one, event_of(one)) for one in reader.events()]


def log_with(kind: str, recording: Path, folder: Path) -> Path:
    """The imported log of a recording with some of the brokers' logs."""
    copy_with_fewer_logs(recording, folder / "source", kind)
    import_source(folder / "source", folder / "log", Selection())
    return folder / "log"


def batches(records: list[Record], ms: int) -> Iterator[list[Record]]:
    """The records as they appear in intervals of this length."""
    batch: list[Record] = []
    for record, event in records:
        is_new = not isinstance(event, (DecisionObserved, RequestInferred))
        if batch and is_new and record.wall_ns >= batch[0][0].wall_ns + ms * _NS:
            yield batch
            batch = []
        batch.append((record, event))
    yield batch


class GrowingLog:
    """A log that grows; `reported` are the divergences with the time of the report in ms."""

    def __init__(self, settings: LiveSettings | None = None) -> None:
        self.live = LiveAgreement(settings or LiveSettings())
        self.reported: list[tuple[int, Divergence]] = []
        self.memory: list[int] = []
        self._now_ms = 0

    def grow(self, records: list[Record], ms: int = 4_000) -> None:
        for batch in batches(records, ms):
            if self._now_ms and batch[0][0].wall_ns // _NS > self._now_ms + ms:
                self.wait(EVIDENCE_MS + ms // 2)
            self.live.add(batch)
            self._now_ms = max(self._now_ms, batch[-1][0].wall_ns // _NS)
            self._compare()

    def wait(self, ms: int) -> None:
        """Nothing is written for this time."""
        self._now_ms += ms
        self._compare()

    def _compare(self) -> None:
        self.reported += [(self._now_ms, one) for one in self.live.compare(self._now_ms)]
        self.memory.append(self.live.memory)


def counts(result: AgreementResult) -> list[object]:
    sides = (result, result.requests)
    return [
        (one.agreed, one.differs, one.missing, one.extra, one.unjudged, one.inputs, one.warm)
        for one in sides
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["none", "level INFO, no request log"])
@pytest.mark.parametrize("recording", ["broker-crash-2", "chaos-5"])
def test_growing_log_agrees_as_the_whole_log(
    kind: str, recording: str, folder_of: Get, tmp_path: Path
) -> None:
    log = log_with(kind, folder_of(recording), tmp_path)
    growing = GrowingLog()
    growing.grow(records_of(log))
    result = growing.live.result
    assert growing.reported == []
    assert counts(result) == counts(agree(log))
    assert result.agreed > 100
    assert (growing.live.undecided, growing.live.unseen) == (0, 0)


@pytest.mark.long
def test_size_of_the_batches_changes_nothing(folder_of: Get, tmp_path: Path) -> None:
    log = log_with("none", folder_of("topics-1"), tmp_path)
    results = []
    for ms in (200, 5_000, 10**9):
        growing = GrowingLog()
        growing.grow(records_of(log), ms)
        results.append(counts(growing.live.result))
    assert results[0] == results[1] == results[2]


@pytest.mark.long
def test_settled_records_are_forgotten(folder_of: Get, tmp_path: Path) -> None:
    """After a quiet time only the last records are kept, and the counts remain."""
    log = log_with("no request log", folder_of("chaos-5"), tmp_path)
    records = records_of(log)
    growing = GrowingLog()
    growing.grow(records)
    before = growing.live.result
    growing.wait(SETTLED_MS + 1)
    assert max(growing.memory) > 300
    assert growing.memory[-1] < 150
    assert counts(growing.live.result) == counts(before)


def wrong_offline_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fold chooses the last live replica of the ISR for a partition without a leader."""
    rule = election.offline_partition_leader
    monkeypatch.setattr(
        election,
        "offline_partition_leader",
        lambda replicas, *rest: rule(replicas[::-1], *rest),
    )


@pytest.mark.long
def test_changed_election_rule_is_reported_within_two_seconds(
    folder_of: Get, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_with("none", folder_of("broker-crash-2"), tmp_path)
    records = records_of(log)
    wrong_offline_leader(monkeypatch)
    growing = GrowingLog()
    growing.grow(records, 500)
    growing.wait(2_000)
    assert growing.reported
    times_ms = {record.seq: record.wall_ns // _NS for record, _ in records}
    for reported_ms, one in growing.reported:
        assert (one.verdict, one.kind) == ("differs", "partition_state")
        assert "leader" in one.differences[0]
        assert reported_ms <= times_ms[one.seq] + 2_000
    result = growing.live.result
    assert result.differs == len(growing.reported) == len({one.seq for _, one in growing.reported})


def test_controlled_shutdown_waits_for_the_end_of_the_session(
    folder_of: Get, tmp_path: Path
) -> None:
    """Without controller.log, only the end of a broker's session shows its request."""
    log = log_with("none", folder_of("rolling-restart-4"), tmp_path)
    records = records_of(log)
    ended = next(
        place
        for place, (_, event) in enumerate(records)
        if isinstance(event, Transaction) and isinstance(event.content, CloseSession) and event.cxid
    )
    growing = GrowingLog()
    growing.grow(records[:ended])
    assert growing.live.is_waiting
    assert growing.reported == []
    growing.grow(records[ended:])
    result = growing.live.result
    assert (growing.reported, result.diverging, growing.live.unseen) == ([], 0, 0)


@pytest.mark.parametrize("ms", [500, 2_000])
def test_deletion_waits_for_what_a_failed_broker_knew(
    ms: int, folder_of: Get, tmp_path: Path
) -> None:
    """A broker fails while a topic is deleted. Later lines show the order of the events."""
    import_source(folder_of("deletion-11"), tmp_path / "log", Selection())
    growing = GrowingLog()
    growing.grow(records_of(tmp_path / "log"), ms)
    assert growing.reported == []
    assert growing.live.result.agreed > 300


def test_decision_without_a_visible_request_is_unseen(folder_of: Get, tmp_path: Path) -> None:
    """If the session never ends, nothing shows the request: the decision counts as unseen."""
    log = log_with("none", folder_of("rolling-restart-4"), tmp_path)
    records = [
        one
        for one in records_of(log)
        if not (isinstance(one[1], Transaction) and isinstance(one[1].content, CloseSession))
    ]
    growing = GrowingLog()
    growing.grow(records)
    growing.wait(_MUCH_LATER_MS)
    result = growing.live.result
    assert growing.live.unseen > 0
    assert (growing.reported, result.missing) == ([], 0)
    assert result.agreed < agree(log).agreed


def test_decision_that_waits_at_the_end_is_undecided(folder_of: Get, tmp_path: Path) -> None:
    log = log_with("none", folder_of("rolling-restart-4"), tmp_path)
    records = records_of(log)
    closings = [
        place
        for place, (_, event) in enumerate(records)
        if isinstance(event, Transaction) and isinstance(event.content, CloseSession)
    ]
    growing = GrowingLog()
    growing.grow(records[: closings[0]])
    result = growing.live.result
    assert growing.live.undecided > 0
    assert (result.diverging, result.requests.diverging) == (0, 0)


@pytest.mark.long
def test_refused_write_of_an_unknown_request_is_unseen(folder_of: Get, tmp_path: Path) -> None:
    """At level INFO no line has the request, and ZooKeeper logs only the error of the write."""
    log = log_with("level INFO, no request log", folder_of("broker-crash-2"), tmp_path)
    records = records_of(log)
    last = max(
        place
        for place, (_, event) in enumerate(records)
        if isinstance(event, RequestInferred) and event.alter_partition
    )
    written, request = records[last - 1][1], records[last][1]
    assert isinstance(written, Transaction)
    assert isinstance(written.content, Multi)
    assert isinstance(request, RequestInferred)
    refused = Multi((OpCode.CHECK, -1), (written.content.operations[0], Error(BAD_VERSION)))
    found = DecisionObserved(written.zxid, "refused", request.broker, 0, BAD_VERSION, warm=False)
    records[last - 1] = (records[last - 1][0], structs.replace(written, content=refused))
    records[last] = (records[last][0], found)
    growing = GrowingLog()
    growing.grow(records)
    growing.wait(_MUCH_LATER_MS)
    assert growing.reported == []
    assert (growing.live.result.diverging, growing.live.unseen > 0) == (0, True)


def test_versions_in_between_that_were_not_read_are_unseen(
    folder_of: Get, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_with("none", folder_of("broker-crash-2"), tmp_path)
    wrong_offline_leader(monkeypatch)
    growing = GrowingLog()
    growing.live.unseen_zxids = {
        event.zxid for _, event in records_of(log) if isinstance(event, Transaction)
    }
    growing.grow(records_of(log))
    growing.wait(2_000)
    result = growing.live.result
    assert growing.reported == []
    assert (result.diverging, growing.live.unseen > 0) == (0, True)


def test_settings_that_show_later_are_noticed(folder_of: Get, tmp_path: Path) -> None:
    """The protocol version is unknown until /feature is written."""
    log = log_with("none", folder_of("broker-crash-2"), tmp_path)
    growing = GrowingLog()
    growing.grow(records_of(log))
    learned = growing.live.learned
    assert {one.inter_broker_protocol_version for one in learned.values()} <= {"3.9-IV0"}
    assert not growing.live.is_outdated
    older = {
        session: Configuration(
            broker_id=one.broker_id, is_broker=True, inter_broker_protocol_version="2.6"
        )
        for session, one in learned.items()
    }
    other = LiveAgreement(LiveSettings(), older)
    outdated = []
    for batch in batches(records_of(log), 5_000):
        other.add(batch)
        other.compare(batch[-1][0].wall_ns // _NS)
        outdated.append(other.is_outdated)
    assert any(outdated)


def test_either_order_is_explained_while_the_log_grows(folder_of: Get, tmp_path: Path) -> None:
    log = log_with("none", folder_of("zk-session-expiry-1") / "zookeeper", tmp_path)
    growing = GrowingLog()
    growing.grow(records_of(log))
    growing.wait(_MUCH_LATER_MS)
    result = growing.live.result
    assert [one.explained for one in result.divergences] == ["either-order"]
    assert (growing.reported, result.unexplained) == ([], 0)
    assert counts(result) == counts(agree(log))


def whole(live: LiveAgreement, records: list[Record]) -> int:
    """Take the whole log; returns a time at which nothing more can explain a divergence."""
    live.add(records)
    return records[-1][0].wall_ns // _NS + _MUCH_LATER_MS


def test_last_comparison_without_time_for_the_search_counts_as_undecided(
    folder_of: Get, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another order of the events explains the difference, so it must not be reported as one."""
    import_source(folder_of("zk-session-expiry-1") / "zookeeper", tmp_path / "log", Selection())
    records = records_of(tmp_path / "log")
    monkeypatch.setattr(live_agreement, "SEARCH_SECONDS", 0.0)
    hurried = LiveAgreement(LiveSettings())
    assert hurried.compare(whole(hurried, records), is_last=True) == []
    assert hurried.undecided > 0
    assert hurried.result.unexplained == 0
    monkeypatch.undo()
    patient = LiveAgreement(LiveSettings())
    assert patient.compare(whole(patient, records), is_last=True) == []
    assert (patient.undecided, len(patient.result.explained)) == (0, 1)


def test_comparison_ends_early_if_refold_stops(
    folder_of: Get, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without trying other orders, without a result; the last comparison starts from the same
    state."""
    import_source(folder_of("zk-session-expiry-1") / "zookeeper", tmp_path / "log", Selection())
    live = LiveAgreement(LiveSettings())
    now_ms = whole(live, records_of(tmp_path / "log"))
    memory = live.memory
    with monkeypatch.context() as patch:
        patch.delattr(live_agreement, "search")
        assert live.compare(now_ms, is_stopping=lambda: True) == []
    assert (live.result.decisions, live.memory) == (0, memory)
    assert live.compare(now_ms, is_last=True) == []
    assert (live.result.unexplained, len(live.result.explained)) == (0, 1)


def test_last_comparison_does_not_prepare_the_next_one(folder_of: Get, tmp_path: Path) -> None:
    """After a flood of events that takes as long as the comparison itself."""
    import_source(folder_of("broker-crash-2"), tmp_path / "log", Selection())
    results = []
    for is_last in (False, True):
        live = LiveAgreement(LiveSettings())
        now_ms = whole(live, records_of(tmp_path / "log"))
        before = live.memory
        live.compare(now_ms, is_last=is_last)
        assert (live.memory == before) is is_last
        results.append(counts(live.result))
    assert results[0] == results[1]
