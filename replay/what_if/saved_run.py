"""Runs of the explorer and of what-if, as folders: which log of a run is meant, and saving one."""

from pathlib import Path

from eventstore.folders import segments_in
from replay.errors import ReplayError
from replay.explore.saved import RUN_FILE, SavedRun, write_document, write_logs
from replay.what_if.continuing import Continued


def save(continued: Continued, folder: Path) -> list[Path]:
    """Write a run into a new folder, as `refold explore` does; return its logs. Raises ReplayError,
    LogError."""
    run = SavedRun(
        scenario=continued.scenario,
        inputs=continued.inputs,
        violation=None,
        digest=continued.cluster.digest(),
        strategy="what-if",
    )
    write_document(run, folder)
    return write_logs(continued.cluster, folder)


def log_of(path: str) -> str:
    """The log that a path names: the path itself, or the log in the folder of a saved run, which
    may also be given by its run.json. Raises ReplayError if a run has none or several."""
    given = Path(path)
    folder = given.parent if given.name == RUN_FILE else given
    if not (folder / RUN_FILE).is_file():
        return path
    logs = sorted(one for one in folder.iterdir() if one.is_dir() and segments_in(one))
    if len(logs) == 1:
        return str(logs[0])
    if not logs:
        raise ReplayError(f"{folder} has no log: stock controllers write none")
    names = ", ".join(str(one) for one in logs)
    raise ReplayError(
        f"{folder} has several logs, one for each run of a controller: give one of {names}"
    )
