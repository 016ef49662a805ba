"""A log with several segments can be folded from the snapshot at the start of a segment."""

from pathlib import Path

import pytest
from msgspec import structs

from controller.core.events import VersionsOffered
from controller.core.snapshot import load_snapshot, take_snapshot
from controller.event_log.records import command_record, event_record
from controller.fingerprint import core_fingerprint
from eventstore.folders import segments_of
from eventstore.reader import LogReader
from eventstore.retention import retain
from eventstore.writer import LogWriter
from replay.errors import ReplayError
from replay.logs.decode import UPCASTERS
from replay.logs.snapshots import make_snapshots
from replay.verify.verification import verify_decisions
from replay.world.simulation import Simulation
from tests.controller.core.offered_versions import OFFERED
from tests.replay.recorded_log import CONFIGURATION, header, incident


def rolled_log(folder: Path) -> Simulation:
    """Writes a log that begins a new segment whenever the fold is idle."""
    simulation = Simulation(CONFIGURATION)
    writer = LogWriter.create(folder, header(), segment_bytes=1)
    stored = 0

    def store() -> None:
        nonlocal stored
        for recorded, issued in simulation.history[stored:]:
            writer.append([event_record(recorded)], [command_record(one) for one in issued])
        stored = len(simulation.history)
        assert simulation.fold.is_idle
        writer.roll_if_due()

    for broker in (1, 2, 3):
        simulation.start_broker(broker)
    simulation.connect()
    store()
    simulation.put("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1,2,3],"1":[2,3,1]}}')
    store()
    simulation.stop_broker(1)
    store()
    simulation.start_broker(1)
    store()
    writer.close()
    return simulation


def test_fold_continues_from_a_snapshot_with_the_same_commands() -> None:
    whole = incident()
    simulation = Simulation(CONFIGURATION)
    for broker in (1, 2, 3):
        simulation.start_broker(broker)
    simulation.connect()
    simulation.put("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1,2,3],"1":[2,3,1]}}')
    data = take_snapshot(simulation.fold)
    simulation.fold = load_snapshot(data, CONFIGURATION)
    assert take_snapshot(simulation.fold) == data
    simulation.stop_broker(1)
    simulation.start_broker(1)
    simulation.expire()
    simulation.put("/brokers/topics/u", b'{"version":1,"partitions":{"0":[3]}}')
    simulation.stop_broker(3)
    assert simulation.commands() == whole.commands()


def test_snapshot_has_the_releases_of_brokers() -> None:
    simulation = Simulation(CONFIGURATION)
    simulation.start_broker(1)
    simulation.connect()
    [epoch] = simulation.fold.controller.context.channels.values()
    simulation.happen(VersionsOffered(1, epoch, list(OFFERED[2, 8].items())), "broker:1")
    loaded = load_snapshot(take_snapshot(simulation.fold), CONFIGURATION)
    assert loaded.controller.context.releases == {1: (2, 8)}


def test_snapshot_has_the_registrations_that_may_be_stuck() -> None:
    configuration = structs.replace(CONFIGURATION, registration_check_ms=1000)
    simulation = Simulation(configuration)
    for broker in (1, 2):
        simulation.start_broker(broker)
    simulation.connect()
    simulation.stop_broker(2)
    context = simulation.fold.controller.context
    loaded = load_snapshot(take_snapshot(simulation.fold), configuration).controller.context
    assert loaded.suspects.keys() == {2}
    assert loaded.suspects[2] == context.suspects[2]
    assert loaded.sessions == context.sessions


def test_log_agrees_after_segments_before_a_snapshot_are_deleted(tmp_path: Path) -> None:
    log = tmp_path / "run"
    rolled_log(log)
    before = segments_of(log)
    assert len(before) == 5
    assert make_snapshots(log) == 4
    assert make_snapshots(log) == 0
    total = sum(file.stat().st_size for file in log.iterdir())
    retain(tmp_path, max_bytes=total // 2, max_age_ms=None, now_ns=2**62)
    left = segments_of(log)
    assert 0 < len(left) < len(before)
    with LogReader.open(log, UPCASTERS) as reader:
        assert reader.header.first_seq > 1
        result = verify_decisions(reader)
    assert result.mismatched == 0


def test_later_segment_without_its_snapshot_cannot_be_folded(tmp_path: Path) -> None:
    log = tmp_path / "run"
    rolled_log(log)
    segments_of(log)[0].unlink()
    with (
        LogReader.open(log, UPCASTERS) as reader,
        pytest.raises(ReplayError, match=f"no snapshot at event .* core {core_fingerprint()} can"),
    ):
        verify_decisions(reader)
