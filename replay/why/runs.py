"""Several logs of one cluster, passed one by one or as the folder of a daemon's runs."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from eventstore.folders import logs_in, segments_in
from eventstore.reader import LogReader
from replay.errors import ReplayError
from replay.logs.decode import wall_ns_of
from replay.logs.open_log import OpenedLog, RecordedLog, open_log, open_reader, seq_at
from replay.logs.packed import packed_at
from replay.logs.saved_runs import folder_named_by
from replay.why.recorded import LogPart
from replay.why.terms import ImportedPart


def logs_of(given: Sequence[str]) -> list[str]:
    """The paths of the logs, each once. A folder of logs means all logs in it; a saved
    run may also be given by its run.json."""
    found: list[str] = []
    for one in given:
        path = folder_named_by(Path(one))
        is_parent = path.is_dir() and not segments_in(path) and packed_at(path) is None
        below = [str(log) for log in logs_in(path)] if is_parent else []
        found += below or [one]
    by_path = {Path(one).resolve() if one != "-" else Path(one): one for one in found}
    return list(by_path.values())


def in_order(logs: Sequence[str]) -> list[str]:
    """Several logs in the order of their first events, without those that have none unless none
    has any. Raises LogError, ReplayError."""
    begun = []
    for one in logs:
        with open_reader(one) as reader:
            begun.append((_begun_ns(reader), one))
    return [one for begun_ns, one in sorted(begun) if begun_ns] or [*logs]


@contextmanager
def open_runs(logs: Sequence[str]) -> Iterator[list[tuple[str, OpenedLog]]]:
    """Open several logs, each with a distinct name. Raises ReplayError, LogError."""
    names = [Path(one).name for one in logs]
    with ExitStack() as stack:
        yield [
            (name if names.count(name) == 1 else log, stack.enter_context(open_log(log)))
            for name, log in zip(names, logs, strict=True)
        ]


def parts_of(opened: Sequence[tuple[str, OpenedLog]], wall_ns: int | None) -> list[LogPart]:
    """The logs up to a wall-clock time in ns, in the order of their first events. Raises
    ReplayError if they cannot be read together, or all begin later."""
    for name, log in opened:
        if not isinstance(log, RecordedLog):
            raise ReplayError(
                f"{name} is an imported log: only --term reads it with other logs; ask about this "
                "one alone"
            )
    return all_parts_of(opened, wall_ns)[0]


def all_parts_of(
    opened: Sequence[tuple[str, OpenedLog]], wall_ns: int | None
) -> tuple[list[LogPart], list[ImportedPart]]:
    """The logs of the daemon and the imported logs up to a wall-clock time in ns, each in the order
    of their first events. Raises as `parts_of` does."""
    _require_one_cluster(opened)
    begun = sorted(
        ((_begun_ns(log.reader), name, log) for name, log in opened), key=lambda one: one[:2]
    )
    runs: list[LogPart] = []
    imports: list[ImportedPart] = []
    for begun_ns, name, log in begun:
        if not begun_ns or (wall_ns is not None and begun_ns > wall_ns):
            continue
        seq = seq_at(log.reader, None, wall_ns)
        if isinstance(log, RecordedLog):
            runs.append(LogPart(log, seq, name))
        else:
            imports.append(ImportedPart(log, seq, name))
    if not runs and not imports:
        raise ReplayError(
            "the logs have no events" if wall_ns is None else "the logs begin later than that"
        )
    return runs, imports


def _require_one_cluster(logs: Sequence[tuple[str, OpenedLog]]) -> None:
    named = {log.reader.header.cluster_id: name for name, log in logs}
    named.pop("", None)
    if len(named) > 1:
        clusters = ", ".join(f"{name} of cluster {id}" for id, name in named.items())
        raise ReplayError(f"the logs are of several clusters ({clusters}): ask about one of them")


def _begun_ns(reader: LogReader) -> int:
    """The wall-clock time of the first event in ns; 0 if there is none."""
    return wall_ns_of(reader, reader.header.first_seq)
