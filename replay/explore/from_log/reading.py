"""Opens a log and reads its incident."""

from pathlib import Path

from replay.errors import ReplayError
from replay.explore.from_log.imported_znodes import from_imported
from replay.explore.from_log.recorded_znodes import from_recorded
from replay.explore.from_log.schedule import RunFromLog
from replay.logs.open_log import RecordedLog, open_log
from replay.progress import Progress, unreported


def start_of_log(path: Path, progress: Progress = unreported) -> RunFromLog:
    """The scenario and inputs of a log of either kind. Raises ReplayError, LogError."""
    with open_log(path, progress) as log:
        try:
            return from_recorded(log) if isinstance(log, RecordedLog) else from_imported(log)
        except ReplayError as error:
            raise ReplayError(f"{path}: {error}") from None
