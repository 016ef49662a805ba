"""The logs of a run that `refold explore` or `refold what-if` has saved.

The folder of a run has `run.json` and one log for each run of each daemon, such as
`refold-100-run-1`. An incident may have the run.json of the run that it was made from; its log is
packed.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from controller.core.values import counted
from eventstore.folders import logs_in, segments_in
from eventstore.reader import LogReader
from eventstore.records import Header
from eventstore.statistics import Statistics, statistics
from replay.errors import ReplayError
from replay.logs.broker_log import is_of_broker
from replay.logs.decode import UPCASTERS, time_of

RUN_FILE: Final = "run.json"
_SHOWN: Final = 5


def folder_named_by(path: Path) -> Path:
    """The folder of a saved run or an incident that is given by its run.json; another path is
    returned unchanged."""
    return path.parent if path.name == RUN_FILE else path


def logs_of_run(path: Path) -> list[Path]:
    """The logs of a saved run, which is given by its folder or its run.json, in the order in which
    they begin; without imported logs, which are not of the run. Empty for another path."""
    folder = folder_named_by(path)
    if not (folder / RUN_FILE).is_file():
        return []
    found = {one: statistics(one) for one in logs_in(folder)}
    logs = [one for one, of in found.items() if not _is_imported(of.header)]
    return sorted(logs, key=lambda one: (found[one].first_ns or 0, one))


def require_one_log(folder: Path) -> None:
    """Raises ReplayError if a folder has several logs, or is a saved run that has none."""
    headers = _headers_in(folder)
    is_run = (folder / RUN_FILE).is_file()
    if is_run and any(map(is_of_broker, headers.values())):
        return  # A run of the 0.8 design has no terms.
    if is_run and not headers:
        raise ReplayError(f"{folder} has no log: stock controllers write none")
    if len(headers) < 2:
        return
    named = _logs_in_run(folder, headers) if is_run else _last_logs(headers)
    others = ", `refold report` those of the run" if is_run else ""
    raise ReplayError(
        f"{folder} has {_counted_by_kind(headers.values())}: give one of {named}. "
        f"{_commands_for_all(headers.values())}{others}"
    )


def _headers_in(folder: Path) -> dict[Path, Header]:
    """The logs in a folder that is not a log itself, with their headers."""
    found = {}
    for log in logs_in(folder) if folder.is_dir() and not segments_in(folder) else []:
        with LogReader.open(log, UPCASTERS) as reader:
            found[log] = reader.header
    return found


def _counted_by_kind(headers: Collection[Header]) -> str:
    """How many logs of daemons, of brokers of the 0.8 design, and of stock clusters there are."""
    imported = sum(map(_is_imported, headers))
    brokers = sum(map(is_of_broker, headers))
    daemons = len(headers) - imported - brokers
    parts = [
        (daemons, f"{counted(daemons, 'log')} of a daemon"),
        (brokers, f"{counted(brokers, 'log')} of brokers of the 0.8 design"),
        (imported, counted(imported, "imported log")),
    ]
    return " and ".join(text for count, text in parts if count)


def _commands_for_all(headers: Collection[Header]) -> str:
    """The commands that read such logs together."""
    if any(map(is_of_broker, headers)):
        return "`refold events` and `decisions` read all of them"
    if any(map(_is_imported, headers)):
        return (
            "`refold events` and `decisions` read all of them, `refold why --term` those of one "
            "cluster"
        )
    return "`refold why`, `events` and `decisions` read all of them"


def _last_logs(logs: Collection[Path]) -> str:
    """The last logs with their times: terms would be counted, which takes long."""
    shown = [f"{log} ({_times(log)})" for log in [*logs][-_SHOWN:]]
    earlier = f" and {len(logs) - _SHOWN} earlier ones" if len(logs) > _SHOWN else ""
    return ", ".join(shown) + earlier


def _times(log: Path) -> str:
    with LogReader.open(log, UPCASTERS) as reader:
        first, last = (time_of(reader, one) for one in (reader.header.first_seq, reader.last_seq))
    return f"{first} to {last}" if first else "no events"


def _logs_in_run(folder: Path, headers: Mapping[Path, Header]) -> str:
    """The logs of a run with their terms, then the imported ones, which are not of the run."""
    others = [f"{log} (imported)" for log, header in headers.items() if _is_imported(header)]
    return ", ".join([*logs_with_terms(logs_of_run(folder)), *others])


def logs_with_terms(logs: Sequence[Path]) -> list[str]:
    """The logs of a run, each with its terms. The one that the run ends in is marked."""
    found = {log: statistics(log) for log in logs}
    last = max(logs, key=lambda one: found[one].last_ns or 0, default=None)
    return [
        f"{log} ({', '.join([_terms(of), *(['the end of the run'] if log == last else [])])})"
        for log, of in found.items()
    ]


def _is_imported(header: Header) -> bool:
    return header.kind != "recorded"


def _terms(of: Statistics) -> str:
    # Term 0 is before the first election.
    terms = [str(one) for one in of.terms if one]
    if not terms:
        return "never controller"
    return f"{'term' if len(terms) == 1 else 'terms'} {', '.join(terms)}"
