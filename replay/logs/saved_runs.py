"""The logs of a run that `refold explore` or `refold what-if` has saved.

The folder of a run has `run.json` and one log for each run of each daemon, such as
`refold-100-run-1`. An incident may have the run.json of the run that it was made from; its log is
packed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from eventstore.folders import logs_in, segments_in
from eventstore.reader import LogReader
from eventstore.statistics import Statistics, statistics
from replay.errors import ReplayError
from replay.logs.broker_log import is_of_broker
from replay.logs.decode import UPCASTERS, time_of

RUN_FILE: Final = "run.json"
_SHOWN: Final = 5
_READ_ALL: Final = "`refold why`, `events` and `decisions` read all of them"


def folder_named_by(path: Path) -> Path:
    """The folder of a saved run or an incident that is given by its run.json; another path is
    returned unchanged."""
    return path.parent if path.name == RUN_FILE else path


def logs_of_run(path: Path) -> list[Path]:
    """The logs of a saved run, which is given by its folder or its run.json, in the order in which
    they begin. Empty for another path."""
    folder = folder_named_by(path)
    if not (folder / RUN_FILE).is_file():
        return []
    return sorted(logs_in(folder), key=lambda one: (statistics(one).first_ns or 0, one))


def require_one_log(folder: Path) -> None:
    """Check that a folder does not have the logs of several runs of a daemon, and that a saved run
    has one log. Raises ReplayError, which names the logs."""
    if not (folder / RUN_FILE).is_file():
        _require_one_run(folder)
        return
    logs = logs_of_run(folder)
    if any(is_of_broker(statistics(one).header) for one in logs):
        return  # A run of the 0.8 design has no terms.
    if not logs:
        raise ReplayError(f"{folder} has no log: stock controllers write none")
    if len(logs) > 1:
        raise ReplayError(
            f"{folder} has {len(logs)} logs, one for each run of a daemon: give one of "
            f"{', '.join(logs_with_terms(logs))}. {_READ_ALL}, `refold report` too"
        )


def _require_one_run(folder: Path) -> None:
    """Check that a folder does not have several logs. Raises ReplayError with their times: terms
    would be counted, which takes long."""
    logs = logs_in(folder) if folder.is_dir() and not segments_in(folder) else []
    if len(logs) < 2:
        return
    shown = [f"{log} ({_times(log)})" for log in logs[-_SHOWN:]]
    earlier = f" and {len(logs) - _SHOWN} earlier ones" if len(logs) > _SHOWN else ""
    raise ReplayError(
        f"{folder} has {len(logs)} logs, one for each run of a daemon: give one of "
        f"{', '.join(shown)}{earlier}. {_READ_ALL}"
    )


def _times(log: Path) -> str:
    with LogReader.open(log, UPCASTERS) as reader:
        first, last = (time_of(reader, one) for one in (reader.header.first_seq, reader.last_seq))
    return f"{first} to {last}" if first else "no events"


def logs_with_terms(logs: Sequence[Path]) -> list[str]:
    """The logs of a run, each with its terms. The one that the run ends in is marked."""
    found = {log: statistics(log) for log in logs}
    last = max(logs, key=lambda one: found[one].last_ns or 0)
    return [
        f"{log} ({', '.join([_terms(of), *(['the end of the run'] if log == last else [])])})"
        for log, of in found.items()
    ]


def _terms(of: Statistics) -> str:
    # Term 0 is before the first election.
    terms = [str(one) for one in of.terms if one]
    if not terms:
        return "never controller"
    return f"{'term' if len(terms) == 1 else 'terms'} {', '.join(terms)}"
