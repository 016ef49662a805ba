"""The work of an executor on a log or a piece of it: fold it with the versions and compare.

A failure affects only its log and version: the row contains the reason.
"""

import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
import pyarrow as pa
from msgspec import Struct

from eventstore.reader import LogReader
from replay.diff.messages import FoldLog
from replay.diff.processes import FoldResult
from replay.errors import ReplayError
from replay.fleet.errors import reason_of
from replay.fleet.rebuild import StoredLog, StoredSegment, rebuild
from replay.fleet.replaying.comparison import FoundDivergence, VersionReplay, compare_log
from replay.fleet.replaying.results import DIVERGENCES, REPLAYED
from replay.fleet.replaying.snapshots import Snapshots
from replay.fleet.replaying.version_processes import VersionProcesses
from replay.fleet.replaying.versions import ShippedVersion
from replay.logs.decode import UPCASTERS

_NS_IN_US: Final = 1000

SEGMENT: Final = pa.struct(
    [
        ("first_seq", pa.int64()),
        ("header", pa.string()),
        ("last_seq", pa.int64()),
        ("commands", pa.int64()),
        ("event_chain", pa.binary()),
        ("command_chain", pa.binary()),
        ("is_closed", pa.bool_()),
        ("import_ended", pa.binary()),
    ]
)

UNITS: Final = pa.schema(
    [
        ("cluster", pa.string()),
        ("log", pa.string()),
        ("kind", pa.string()),
        ("recorded_by", pa.string()),
        ("last_seq", pa.int64()),
        ("commands", pa.int64()),
        ("is_closed", pa.bool_()),
        ("content", pa.string()),
        ("segments", pa.list_(pa.field("element", SEGMENT))),
        ("tokens", pa.list_(pa.field("element", pa.string()))),
        ("codes", pa.list_(pa.field("element", pa.string()))),
        ("piece", pa.int64()),
    ]
)
"""A log, or its piece of one segment (`piece`, null for the whole log), and the versions to fold it
with."""

PIECES: Final = pa.schema([*REPLAYED, ("piece", pa.int64()), ("follows", pa.bool_())])
"""REPLAYED for a unit. `follows`: the version decides as recorded, up to the end of the piece."""

OUTCOMES: Final = pa.schema(
    [("result", pa.struct(list(PIECES))), ("divergence", pa.struct(list(DIVERGENCES)))]
)
"""The results of units: each row has either a result or a divergence."""

PASSED: Final = pa.schema([("cluster", pa.string()), ("log", pa.string())])
"""A log whose snapshots were made, if possible."""

Row = dict[str, Any]
Values = tuple[Any, ...]


class Job(Struct, frozen=True):
    """The arguments that all units share: the folders of the table and of the snapshots, and the
    versions.
    """

    table: Path
    snapshots: Path
    versions: tuple[ShippedVersion, ...]
    patience_s: float


def make_snapshots(rows: Iterable[Any], job: Job) -> Iterator[Values]:
    """Map rows of UNITS to rows of PASSED."""
    versions = {one.code: one for one in job.versions}
    snapshots = Snapshots(job.table, job.snapshots)
    for row in rows:
        unit = row.asDict(recursive=True)
        for code in unit["codes"]:
            snapshots.make(_stored_log(unit), versions[code], job.patience_s)
        yield unit["cluster"], unit["log"]


def replay_units(rows: Iterable[Any], job: Job) -> Iterator[Values]:
    """Map rows of UNITS to rows of OUTCOMES."""
    with (
        TemporaryDirectory(prefix="refold-fleet-") as scratch,
        VersionProcesses(job.versions, job.patience_s) as processes,
    ):
        replaying = _UnitReplay(job, processes, Path(scratch))
        for row in rows:
            yield from replaying.unit(row.asDict(recursive=True))


class _UnitReplay:
    def __init__(self, job: Job, processes: VersionProcesses, scratch: Path) -> None:
        self._job = job
        self._processes = processes
        self._scratch = scratch
        self._snapshots = Snapshots(job.table, job.snapshots)

    def unit(self, unit: Row) -> Iterator[Values]:
        """The outcomes of all versions."""
        stored, piece = _stored_log(unit), unit["piece"]
        with TemporaryDirectory(dir=self._scratch) as folder:
            log = Path(folder) / "log"
            chosen = slice(None) if piece is None else slice(piece, piece + 1)
            try:
                rebuild(self._job.table, stored, log, chosen)
            except Exception as error:  # a damaged log must not affect the others
                for code in unit["codes"]:
                    yield self._result(unit, code, {"reason": reason_of(error)}), None
                return
            folds = _Folds(self._processes)
            for code in unit["codes"]:
                start = time.monotonic()
                try:
                    comparison = self._compare(log, stored, piece, code, folds)
                except Exception as error:
                    text = reason_of(error).replace(str(log), "the log")
                    outcome: Row = {"reason": text}
                else:
                    outcome = _counts(comparison)
                    # If a piece has divergences, the log is replayed as a whole.
                    for one in comparison.divergences if piece is None else ():
                        yield None, self._divergence(unit, code, one)
                outcome["seconds"] = time.monotonic() - start
                yield self._result(unit, code, outcome), None

    def _compare(
        self, log: Path, stored: StoredLog, piece: int | None, code: str, folds: "_Folds"
    ) -> VersionReplay:
        version = self._processes.version(code)
        if piece is not None and not self._snapshots.copy_to_piece(
            log, stored, piece, version.core
        ):
            raise ReplayError("there is no snapshot for the beginning of this piece")
        # Other versions have no snapshot for a piece. A piece that differs is replayed as a whole.
        others = [one for one in self._processes.codes if one != code] if piece is None else []
        with LogReader.open(log, UPCASTERS) as reader:
            of_others = [partial(folds.fold, one) for one in others]
            return compare_log(str(log), reader, partial(folds.fold, code), of_others)

    def _result(self, unit: Row, code: str, outcome: Row) -> Values:
        version = self._processes.version(code)
        row = {
            **unit,
            "version": version.reference,
            "code": code,
            "core": version.core,
            "code_version": version.code_version,
            "pieces": 1,
            **outcome,
        }
        return tuple(row.get(name) for name in PIECES.names)

    def _divergence(self, unit: Row, code: str, one: FoundDivergence) -> Values:
        row = {
            **msgspec.structs.asdict(one),
            "version": self._processes.version(code).reference,
            "code": code,
            "cluster": unit["cluster"],
            "log": unit["log"],
            "time": datetime.fromtimestamp(one.time_ns // _NS_IN_US / 1e6, UTC),
            "partitions": list(one.partitions),
            "differences": [msgspec.structs.astuple(each) for each in one.differences],
            "details": list(one.details),
        }
        return tuple(row[name] for name in DIVERGENCES.names)


class _Folds:
    """The folds of one log. Without contents, each version folds the log once, or fails once."""

    def __init__(self, processes: VersionProcesses) -> None:
        self._processes = processes
        self._known: dict[str, FoldResult | ReplayError] = {}

    def fold(self, code: str, request: FoldLog) -> FoldResult:
        """A version's fold of the log. Raises DiffError, FleetError."""
        if request.with_contents:
            return self._processes.fold(code, request)
        if code not in self._known:
            try:
                self._known[code] = self._processes.fold(code, request)
            except ReplayError as error:
                self._known[code] = error
        known = self._known[code]
        if isinstance(known, ReplayError):
            raise known
        return known


def _counts(comparison: VersionReplay) -> Row:
    found = comparison.divergences
    return {
        "events": comparison.events,
        "decisions": comparison.decisions,
        "agreed": comparison.agreed,
        "divergences": sum(not one.is_harmless and not one.explained for one in found),
        "harmless": sum(one.is_harmless for one in found),
        "explained": sum(bool(one.explained) for one in found),
        "unjudged": comparison.unjudged,
        "rules": _by_rule(comparison) if comparison.knows_agreement else None,
        "left_at": comparison.left_at,
        "follows": comparison.follows,
    }


def _by_rule(comparison: VersionReplay) -> list[tuple[str, int, int]]:
    return [
        (rule, count, count - comparison.differing[rule])
        for rule, count in sorted(comparison.decided.items())
        if count
    ]


def _stored_log(unit: Row) -> StoredLog:
    segments = tuple(StoredSegment(**one) for one in unit["segments"])
    return StoredLog(unit["cluster"], unit["log"], unit["kind"], segments, tuple(unit["tokens"]))
