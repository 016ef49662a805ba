"""The logs of a run that `refold explore` or `refold what-if` has saved.

The folder of a run has `run.json` and one log for each run of each daemon, such as
`refold-100-run-1`. An incident may have the run.json of the run that it was made from; its log is
packed.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from controller.core.values import counted
from eventstore.folders import logs_in, segments_in
from eventstore.reader import LogReader
from eventstore.statistics import statistics
from replay.errors import ReplayError
from replay.logs.decode import UPCASTERS, time_of, wall_ns_of
from replay.logs.log_kinds import LogKind, kind_of_log

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
    begun = {}
    for log in logs_in(folder):
        with LogReader.open(log, UPCASTERS) as reader:
            if kind_of_log(reader.header) is not LogKind.IMPORTED:
                begun[log] = wall_ns_of(reader, reader.header.first_seq)
    return sorted(begun, key=lambda one: (begun[one], one))


def last_log(logs: Sequence[Path]) -> Path | None:
    """The log in which a run ends."""
    return max(logs, key=_last_ns, default=None)


def _last_ns(log: Path) -> int:
    with LogReader.open(log, UPCASTERS) as reader:
        return wall_ns_of(reader, reader.last_seq)


def require_one_log(folder: Path) -> None:
    """Check that a folder does not have several logs, and that a saved run has one. Raises
    ReplayError, which names the logs."""
    kinds = _kinds_of_logs(folder)
    is_run = (folder / RUN_FILE).is_file()
    if is_run and LogKind.BROKER in kinds.values():
        return  # A run of the 0.8 design has no terms.
    if is_run and not kinds:
        raise ReplayError(f"{folder} has no log: stock controllers write none")
    if len(kinds) < 2:
        return
    logs = _logs_in_run(folder, kinds) if is_run else _last_logs([*kinds])
    counts = Counter(kinds.values())
    held = " and ".join(counted(counts[one], one) for one in LogKind if one in counts)
    of_run = ", `refold report` those of the run" if is_run else ""
    raise ReplayError(
        f"{folder} has {held}: give one of {logs}. {_commands_for_all(counts)}{of_run}"
    )


def _kinds_of_logs(folder: Path) -> dict[Path, LogKind]:
    """The logs in a folder that is not a log itself."""
    found = {}
    for log in logs_in(folder) if folder.is_dir() and not segments_in(folder) else []:
        with LogReader.open(log, UPCASTERS) as reader:
            found[log] = kind_of_log(reader.header)
    return found


def _commands_for_all(kinds: Collection[LogKind]) -> str:
    """The commands that read logs of these kinds together."""
    if LogKind.BROKER in kinds:
        return "`refold events` and `decisions` read all of them"
    if LogKind.IMPORTED in kinds:
        text = "`refold events` and `decisions` read all of them"
        return f"{text}, `refold why --term` those of one cluster"
    return "`refold why`, `events` and `decisions` read all of them"


def _last_logs(logs: Sequence[Path]) -> str:
    """The last logs with their times: terms would be counted, which takes long."""
    shown = [f"{log} ({_times(log)})" for log in logs[-_SHOWN:]]
    earlier = f" and {len(logs) - _SHOWN} earlier ones" if len(logs) > _SHOWN else ""
    return ", ".join(shown) + earlier


def _times(log: Path) -> str:
    with LogReader.open(log, UPCASTERS) as reader:
        first, last = (time_of(reader, one) for one in (reader.header.first_seq, reader.last_seq))
    return f"{first} to {last}" if first else "no events"


def _logs_in_run(folder: Path, kinds: Mapping[Path, LogKind]) -> str:
    """The logs of a run with their terms, then the imported ones, which are not of the run."""
    others = [f"{log} (imported)" for log, kind in kinds.items() if kind is LogKind.IMPORTED]
    return ", ".join([*logs_with_terms(logs_of_run(folder)), *others])


def logs_with_terms(logs: Sequence[Path]) -> list[str]:
    """The logs of a run, each with its terms. The one that the run ends in is marked."""
    last = last_log(logs)
    return [
        f"{log} ({', '.join([_terms(log), *(['the end of the run'] if log == last else [])])})"
        for log in logs
    ]


def _terms(log: Path) -> str:
    # Term 0 is before the first election.
    terms = [str(one) for one in statistics(log).terms if one]
    if not terms:
        return "never controller"
    return f"{'term' if len(terms) == 1 else 'terms'} {', '.join(terms)}"
