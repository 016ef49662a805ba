"""Verifies a log in parts, on several cores. A part begins with the state of a snapshot, and its
end must lead to the state of the next snapshot.

Parts only confirm that a log agrees. If one does not agree, or if a snapshot is not the state that
the log leads to, the log is verified from its beginning, which finds out what differs.
"""

from collections.abc import Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct, structs

from controller.core.snapshot import load_snapshot, take_snapshot
from controller.fingerprint import core_fingerprint
from eventstore.errors import LogError
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from eventstore.snapshots import SnapshotName, read_snapshot
from eventstore.verify import check_complete, check_ends
from replay.errors import ReplayError
from replay.garbage_collection import rare_garbage_collection
from replay.logs.decode import configuration_of, decode_recorded
from replay.logs.open_log import open_reader
from replay.logs.other_core import is_of_this_core
from replay.logs.recorded_fold import fold_at_start, fold_event
from replay.progress import Progress, unreported
from replay.verify.event_fields import PartEdges, are_consistent
from replay.verify.verification import (
    Verification,
    Verifier,
    damage_reported,
    verify_decisions,
)
from replay.worker_processes import WorkerPool, worker_pool

_WORTH_A_PROCESS: Final = 20_000
"""With fewer events, no other process is started."""
_PARTS_OF_PROCESS: Final = 4
_EVENTS_IN_PART_MAX: Final = 250_000


class Part(NamedTuple):
    """A range of events, and the snapshots before and after it; None: the log begins or ends."""

    first_seq: int
    last_seq: int
    before: SnapshotName | None
    after: SnapshotName | None


class PartResult(Struct, frozen=True):
    """The result of a part that agrees, and what it assumes of the parts before."""

    verification: Verification
    edges: PartEdges


def verify_log(
    reader: LogReader, progress: Progress = unreported, processes: int = 1
) -> Verification:
    """Fold a log again and compare every command, by several processes if the log has snapshots.
    Raises ReplayError if the log is damaged or cannot be folded."""
    result: Verification | None = None
    with damage_reported():
        parts = parts_of(reader, processes) if processes > 1 else []
        if len(parts) > 1:
            with worker_pool(processes) as pool:
                result = _verify_parts(reader, parts, pool, progress)
    return verify_decisions(reader, progress) if result is None else result


def parts_of(reader: LogReader, processes: int) -> list[Part]:
    """The parts of a log, of about the same size if it has enough snapshots."""
    header = reader.header
    if header.kind != "recorded" or not is_of_this_core(header):
        return []
    first, last = header.first_seq, reader.last_seq
    events = last - first + 1
    if events < _WORTH_A_PROCESS:
        return []
    own = core_fingerprint()
    usable = [one for one in reader.snapshots if one.fingerprint == own and first <= one.seq < last]
    size = min(events // (processes * _PARTS_OF_PROCESS), _EVENTS_IN_PART_MAX)
    chosen: list[SnapshotName] = []
    for name in usable:
        if name.seq - (chosen[-1].seq if chosen else first - 1) >= size:
            chosen.append(name)
    return parts_at(reader, chosen)


def parts_at(reader: LogReader, snapshots: Sequence[SnapshotName]) -> list[Part]:
    """The parts of a log between these snapshots, which are in order."""
    first, last = reader.header.first_seq, reader.last_seq
    return [
        Part(
            first if before is None else before.seq + 1,
            last if after is None else after.seq,
            before,
            after,
        )
        for before, after in zip([None, *snapshots], [*snapshots, None], strict=True)
    ]


def _verify_parts(
    reader: LogReader, parts: list[Part], pool: WorkerPool, progress: Progress
) -> Verification | None:
    """The result of all parts; None if the log must be verified from its beginning."""
    count, done = parts[-1].last_seq - parts[0].first_seq + 1, 0
    tasks = {pool.submit(verify_part, reader.path, one): one for one in parts}
    check_complete(reader.path)
    for task in as_completed(tasks):
        if task.result() is None:
            return None
        done += tasks[task].last_seq - tasks[task].first_seq + 1
        progress("folding", done, count)
    joined = join([one for task in tasks if (one := task.result()) is not None])
    if joined is not None:
        check_ends(reader.path)
    return joined


def verify_part(path: Path, part: Part) -> PartResult | None:
    """Verify a part. None if it does not agree, or does not lead to the next snapshot."""
    try:
        with open_reader(path) as reader, rare_garbage_collection():
            return _result_of_part(reader, part)
    except (LogError, ReplayError, msgspec.DecodeError):
        return None


def _result_of_part(reader: LogReader, part: Part) -> PartResult | None:
    if part.before is None:
        fold = fold_at_start(reader)
    else:
        fold = load_snapshot(read_snapshot(part.before), configuration_of(reader.header))
    verifier = Verifier(reader, (part.first_seq, part.last_seq))
    verifier.begin(fold.term)
    for record, stored in reader.records(
        EventFilter(first_seq=part.first_seq, last_seq=part.last_seq)
    ):
        event = decode_recorded(record)
        verifier.add(record, event, fold_event(fold, event), stored, fold.term)
    result = verifier.result()
    if result.mismatched or result.notes:
        return None
    if part.after is not None and (
        result.unrecorded or not fold.is_idle or take_snapshot(fold) != read_snapshot(part.after)
    ):
        return None
    return PartResult(result, verifier.edges())


def join(parts: Sequence[PartResult]) -> Verification | None:
    """The result of all parts of a log, in order. Its end is that of the last part. None if a part
    assumes of those before it what does not hold."""
    if not are_consistent([one.edges for one in parts]):
        return None
    results = [one.verification for one in parts]
    without_commands = 0
    for result in reversed(results):
        without_commands += result.events_without_commands
        if result.events_without_commands < result.events:
            break
    return structs.replace(
        results[-1],
        events=sum(one.events for one in results),
        commands=sum(one.commands for one in results),
        agreed=sum(one.agreed for one in results),
        events_without_commands=without_commands,
    )
