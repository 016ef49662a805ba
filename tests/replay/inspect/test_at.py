"""The state at any event is the same from a snapshot as from the beginning of the log."""

import shutil
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from controller.core.events import TimerFired
from controller.core.snapshot import take_snapshot
from controller.event_log.records import command_record, event_record
from controller.fingerprint import core_fingerprint
from eventstore import folders, snapshots
from eventstore.writer import LogWriter
from replay.cluster_view.views import NO_BROKER, ClusterView
from replay.inspect import at as opening
from replay.inspect.at import cluster_at, make_snapshots
from replay.inspect.changes import changes
from replay.listing.recorded import events_and_decisions
from replay.logs.open_log import RecordedLog, open_log
from replay.progress import unreported
from replay.world.simulation import Simulation
from tests.replay.recorded_log import CONFIGURATION, header, incident, write_log

MAKING = "once for this log: making the index"


@pytest.fixture
def simulation() -> Simulation:
    return incident()


@pytest.fixture
def log(simulation: Simulation, tmp_path: Path) -> Path:
    return write_log(tmp_path / "log", simulation)


@pytest.fixture
def snapshots_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a snapshot every few events, because each reading of the clock is a second later."""
    clock = SimpleNamespace(process_time=count().__next__)
    monkeypatch.setattr(opening, "time", clock)
    monkeypatch.setattr(opening, "CLOCK_EVERY", 1)


def state(log: Path, seq: int) -> ClusterView:
    with open_log(log) as opened:
        return cluster_at(opened, seq)


def test_state_at_the_end_has_brokers_controller_and_partitions(
    log: Path, simulation: Simulation
) -> None:
    found = state(log, len(simulation.history))
    assert [one.id for one in found.brokers] == [1, 2]
    assert (found.controller.role, found.controller.broker, found.controller.epoch) == (
        "active",
        1000,
        2,
    )
    assert {one.name: one.status for one in found.partitions()} == {
        "t-0": "online",
        "t-1": "online",
        "u-0": "offline",
    }
    dead = found.partition("u", 0)
    assert dead is not None
    assert (dead.leader, dead.isr, dead.offline_replicas) == (NO_BROKER, (3,), (3,))


def test_state_from_snapshots_equals_the_folded_state(
    simulation: Simulation, log: Path, tmp_path: Path, snapshots_everywhere: None
) -> None:
    with_snapshots = write_log(tmp_path / "with", simulation)
    assert make_snapshots(with_snapshots) > 10
    for seq in range(1, len(simulation.history) + 1, 5):
        assert state(with_snapshots, seq) == state(log, seq)


@pytest.mark.long
def test_state_from_snapshots_of_an_imported_log_equals_the_folded_state(
    log_of: object, tmp_path: Path, snapshots_everywhere: None
) -> None:
    log = log_of("unclean-3")  # type: ignore[operator]
    before = {seq: state(log, seq) for seq in (60, 300, 750, 1095)}
    assert make_snapshots(log) > 10
    try:
        assert {seq: state(log, seq) for seq in before} == before
    finally:
        for one in log.glob("*.snapshot"):
            one.unlink()


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with enough events for snapshots, which are made first."""
    simulation = incident()
    for _ in range(opening.FOLDED_AT_ONCE_MAX):
        simulation.happen(TimerFired("an unknown timer"), "timer")
    folder = tmp_path_factory.mktemp("long") / "log"
    with LogWriter.create(folder, header()) as writer:
        events = [event_record(recorded) for recorded, _ in simulation.history]
        commands = [command_record(one) for _, issued in simulation.history for one in issued]
        writer.append(events, commands)
    return folder


def opened_at_the_end(log: Path) -> tuple[ClusterView, set[str]]:
    """The state at the end of a log, and the reported progress."""
    reported: set[str] = set()
    with open_log(log) as opened:
        last = opened.reader.last_seq
        cluster = cluster_at(opened, last, lambda what, done, total: reported.add(what))
    return cluster, reported


@pytest.mark.long
def test_events_and_decisions_late_in_a_long_log_are_listed_from_a_snapshot(
    long_log: Path, tmp_path: Path
) -> None:
    reported: set[str] = set()
    with open_log(Path(shutil.copytree(long_log, tmp_path / "log"))) as opened:
        assert isinstance(opened, RecordedLog)
        last = opened.reader.last_seq
        whole = list(events_and_decisions(opened, 1, last, unreported))[-5:]
        late = events_and_decisions(
            opened, last - 4, last, lambda what, done, total: reported.add(what)
        )
        assert list(late) == whole
    assert MAKING in reported


def test_snapshots_of_a_long_log_are_made_first(long_log: Path, tmp_path: Path) -> None:
    log = Path(shutil.copytree(long_log, tmp_path / "log"))
    found, reported = opened_at_the_end(log)
    assert reported == {MAKING, "folding"}
    assert [one.id for one in found.brokers] == [1, 2]


def test_snapshots_of_another_core_are_not_used(log: Path, simulation: Simulation) -> None:
    """Snapshots of another core would have that core's interpretation of the events."""
    right = state(log, 52)
    snapshots.put_snapshot(log, "0" * 24, 50, take_snapshot(incident().fold))
    assert state(log, 52) == right
    snapshots.put_snapshot(log, core_fingerprint(), 50, b"damaged")
    assert state(log, 52) == right


@pytest.mark.long
def test_no_snapshots_of_a_growing_log_are_made(long_log: Path, tmp_path: Path) -> None:
    log = Path(shutil.copytree(long_log, tmp_path / "log"))
    lock = folders.FolderLock(log)
    _, reported = opened_at_the_end(log)
    assert reported == {"folding"}
    assert list(log.glob("*.snapshot")) == []
    lock.release()
    assert MAKING in opened_at_the_end(log)[1]


def test_running_procedure_is_part_of_the_state(log: Path, simulation: Simulation) -> None:
    running = [
        one.procedure
        for seq in range(1, len(simulation.history) + 1, 2)
        if (one := state(log, seq)).procedure is not None
    ]
    names = {one.name for one in running if one is not None}
    assert {"Startup", "BrokerChange", "TopicChange"} <= names
    failover = next(one for one in running if one is not None and one.name == "Startup")
    assert failover.since < len(simulation.history)
    assert failover.rule
    assert failover.asked.split()[0] in ("read_znodes", "read_stats", "read_children")


def test_changes_between_two_events_are_listed(log: Path, simulation: Simulation) -> None:
    end = len(simulation.history)
    before = next(
        found
        for seq in range(end, 0, -1)
        if (found := state(log, seq)).broker(3) is not None and found.topic("u") is not None
    )
    found = {
        (one.subject, one.what): (one.before, one.after) for one in changes(before, state(log, end))
    }
    assert ("broker 3", "") in found
    assert found["partition u-0", "status"] == ("online", "offline")
    assert found["partition u-0", "leader"] == (3, NO_BROKER)
    assert not any(subject == "topic u" for subject, _ in found)
    assert changes(before, before) == []


def test_log_without_events_has_an_empty_state(tmp_path: Path) -> None:
    LogWriter.create(tmp_path / "log", header(configuration=CONFIGURATION)).close()
    found = state(tmp_path / "log", 0)
    assert (found.controller.role, found.topics, found.time) == ("standby", [], "")
