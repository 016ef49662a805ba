"""The work after a roll-over of the log."""

import logging
from pathlib import Path

import pytest

from controller.core.fold import Fold
from controller.event_log.housekeeping import Housekeeping, Retention
from controller.event_log.records import command_record, event_record
from eventstore.folders import segments_in
from eventstore.reader import LogReader
from eventstore.snapshots import names_in
from eventstore.writer import LogWriter
from replay.cli.run import snapshot_command
from replay.logs.decode import UPCASTERS
from replay.verify.verification import verify_decisions
from tests.replay.recorded_log import CONFIGURATION, header, incident, write_log

SEGMENT_BYTES = 1
NO_LIMIT = Retention()
SMALL = Retention(bytes_max=1)


def housekeeping(log: Path, retention: Retention) -> Housekeeping:
    return Housekeeping(log, retention, snapshot_command())


def rolled_log(folder: Path, fingerprint: str | None = None) -> Path:
    """A closed log of several segments, rolled as by the daemon while the fold is idle."""
    fold = Fold(CONFIGURATION)
    with LogWriter.create(folder, header(fingerprint), segment_bytes=SEGMENT_BYTES) as writer:
        for recorded, issued in incident().history:
            commands = [command_record(one) for one in issued]
            writer.append([event_record(recorded)], commands)
            for _ in fold.apply(recorded):
                pass
            if fold.is_idle:
                writer.roll_if_due()
    assert len(segments_in(folder)) > 2
    return folder


async def test_each_segment_gets_a_snapshot(tmp_path: Path) -> None:
    log = rolled_log(tmp_path / "run")
    before = segments_in(log)
    await housekeeping(log, NO_LIMIT).after_roll()
    assert len(names_in(log)) == len(before) - 1
    assert segments_in(log) == before


async def test_old_segments_are_removed_and_the_rest_agrees(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = rolled_log(tmp_path / "run")
    before = segments_in(log)
    total = sum(file.stat().st_size for file in log.iterdir())
    with caplog.at_level(logging.INFO):
        await housekeeping(log, Retention(bytes_max=total * 2 // 3)).after_roll()
    left = segments_in(log)
    assert 0 < len(left) < len(before)
    assert f"removed {len(before) - len(left)} old segments" in caplog.text
    with LogReader.open(log, UPCASTERS) as reader:
        assert verify_decisions(reader).mismatched == 0


async def test_without_a_snapshot_no_segment_is_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The helper process cannot fold a log of another core. This is logged."""
    log = rolled_log(tmp_path / "run", fingerprint="another core")
    before = segments_in(log)
    with caplog.at_level(logging.WARNING):
        await housekeeping(log, NO_LIMIT).after_roll()
    assert "no snapshot was made of the new segment, so old segments are kept" in caplog.text
    assert "recorded by core another core" in caplog.text
    assert segments_in(log) == before


async def test_without_the_snapshot_program_no_segment_is_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = rolled_log(tmp_path / "run")
    before = segments_in(log)
    with caplog.at_level(logging.WARNING):
        await Housekeeping(log, NO_LIMIT, [str(tmp_path / "absent")]).after_roll()
    assert "old segments are kept: cannot start the helper process" in caplog.text
    assert "absent" in caplog.text
    assert segments_in(log) == before


async def test_logs_of_earlier_runs_are_removed_first(tmp_path: Path) -> None:
    earlier = write_log(tmp_path / "run-1", incident())
    with LogWriter.create(tmp_path / "run-2", header()):
        await housekeeping(tmp_path / "run-2", SMALL).apply_retention()
        assert not earlier.exists()
        assert segments_in(tmp_path / "run-2")


async def test_unreadable_folder_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        await housekeeping(tmp_path / "gone" / "run", SMALL).apply_retention()
    assert "cannot remove old segments" in caplog.text
