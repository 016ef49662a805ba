"""What follows a roll-over of the log."""

import logging
from pathlib import Path

import pytest

from controller.housekeeping import Housekeeping, Retention
from eventstore.folders import segments_in
from eventstore.snapshots import names_in
from eventstore.writer import LogWriter
from tests.replay.recorded_log import header, incident, write_log


@pytest.fixture
def rolled(tmp_path: Path) -> Path:
    """A log of two segments, which is still written."""
    return tmp_path / "logs" / "run-1"
