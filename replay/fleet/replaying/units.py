"""What an executor does with a log, or with a piece of one: fold it by the versions, and judge.

A log fails alone, and with one version only: what is wrong is the reason in its row.
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
from replay.diff.processes import Answered
from replay.errors import ReplayError
from replay.fleet.errors import reason_of
from replay.fleet.replaying.judging import Found, Judged, judge
from replay.fleet.replaying.rebuilt import StoredLog, StoredSegment, rebuild
from replay.fleet.replaying.results import DIVERGENCES, REPLAYED
from replay.fleet.replaying.sides import Sides
from replay.fleet.replaying.splitting import Snapshots
from replay.fleet.replaying.versions import Shipped
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
        ("segments", pa.list_(pa.field("element", SEGMENT))),
        ("tokens", pa.list_(pa.field("element", pa.string()))),
        ("codes", pa.list_(pa.field("element", pa.string()))),
        ("piece", pa.int64()),
    ]
)
"""A log, or its piece of one segment (`piece`, null: all of it), and the versions to fold it by."""

PIECES: Final = pa.schema([*REPLAYED, ("piece", pa.int64()), ("follows", pa.bool_())])
"""REPLAYED of a unit. `follows`: the version decides as the log says, to the end of the piece."""

OUTCOMES: Final = pa.schema(
    [("result", pa.struct(list(PIECES))), ("divergence", pa.struct(list(DIVERGENCES)))]
)
"""What comes of units: either the one or the other."""

PASSED: Final = pa.schema([("cluster", pa.string()), ("log", pa.string())])
"""A log of which snapshots are made, where that can be done."""

Row = dict[str, Any]
Values = tuple[Any, ...]


class Job(Struct, frozen=True):
    """What is the same for all units: the folder of the table, that of snapshots, and versions."""

    table: Path
    snapshots: Path
    versions: tuple[Shipped, ...]
    patience_s: float


def make_snapshots(rows: Iterable[Any], job: Job) -> Iterator[Values]:
    """Rows of UNITS to those of PASSED."""
    versions = {one.code: one for one in job.versions}
    snapshots = Snapshots(job.table, job.snapshots)
    for row in rows:
        unit = row.asDict(recursive=True)
        for code in unit["codes"]:
            snapshots.make(_stored(unit), versions[code], job.patience_s)
        yield unit["cluster"], unit["log"]


def replay_units(rows: Iterable[Any], job: Job) -> Iterator[Values]:
    """Rows of UNITS to those of OUTCOMES."""
    with (
        TemporaryDirectory(prefix="refold-fleet-") as scratch,
        Sides(job.versions, job.patience_s) as sides,
    ):
        replaying = _Replaying(job, sides, Path(scratch))
        for row in rows:
            yield from replaying.unit(row.asDict(recursive=True))


class _Replaying:
    def __init__(self, job: Job, sides: Sides, scratch: Path) -> None:
        self._job = job
        self._sides = sides
        self._scratch = scratch
        self._snapshots = Snapshots(job.table, job.snapshots)

    def unit(self, unit: Row) -> Iterator[Values]:
        """The outcomes of all versions."""
        stored, piece = _stored(unit), unit["piece"]
        with TemporaryDirectory(dir=self._scratch) as folder:
            log = Path(folder) / "log"
            chosen = slice(None) if piece is None else slice(piece, piece + 1)
            try:
                rebuild(self._job.table, stored, log, chosen)
            except Exception as error:  # a bad log fails alone
                for code in unit["codes"]:
                    yield self._result(unit, code, {"reason": reason_of(error)}), None
                return
            folds = _Folds(self._sides)
            for code in unit["codes"]:
                start = time.monotonic()
                try:
                    judged = self._judge(log, stored, piece, code, folds)
                except Exception as error:
                    text = reason_of(error).replace(str(log), "the log")
                    told: Row = {"reason": text}
                else:
                    told = _counts(judged)
                    # Where a piece shows some, the log is replayed as a whole.
                    for one in judged.divergences if piece is None else ():
                        yield None, self._divergence(unit, code, one)
                told["seconds"] = time.monotonic() - start
                yield self._result(unit, code, told), None

    def _judge(
        self, log: Path, stored: StoredLog, piece: int | None, code: str, folds: "_Folds"
    ) -> Judged:
        version = self._sides.version(code)
        if piece is not None and not self._snapshots.put_beside(log, stored, piece, version.core):
            raise ReplayError("there is no snapshot to begin with")
        # Others have no snapshot beside a piece, and that is replayed as a whole if it differs.
        others = [one for one in self._sides.codes if one != code] if piece is None else []
        with LogReader.open(log, UPCASTERS) as reader:
            of_others = [partial(folds.fold, one) for one in others]
            return judge(str(log), reader, partial(folds.fold, code), of_others)

    def _result(self, unit: Row, code: str, told: Row) -> Values:
        version = self._sides.version(code)
        row = {
            **unit,
            "version": version.reference,
            "code": code,
            "core": version.core,
            "code_version": version.code_version,
            "pieces": 1,
            **told,
        }
        return tuple(row.get(name) for name in PIECES.names)

    def _divergence(self, unit: Row, code: str, one: Found) -> Values:
        row = {
            **msgspec.structs.asdict(one),
            "version": self._sides.version(code).reference,
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
    """Those of one log: without contents each version folds it once, or fails at it once."""

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self._known: dict[str, Answered | ReplayError] = {}

    def fold(self, code: str, request: FoldLog) -> Answered:
        """What a version says of it. Raises DiffError, FleetError."""
        if request.with_contents:
            return self._sides.fold(code, request)
        if code not in self._known:
            try:
                self._known[code] = self._sides.fold(code, request)
            except ReplayError as error:
                self._known[code] = error
        known = self._known[code]
        if isinstance(known, ReplayError):
            raise known
        return known


def _counts(judged: Judged) -> Row:
    found = judged.divergences
    return {
        "events": judged.events,
        "decisions": judged.decisions,
        "agreed": judged.agreed,
        "divergences": sum(not one.is_harmless and not one.explained for one in found),
        "harmless": sum(one.is_harmless for one in found),
        "explained": sum(bool(one.explained) for one in found),
        "unjudged": judged.unjudged,
        "rules": _by_rule(judged) if judged.is_told else None,
        "left_at": judged.left_at,
        "follows": judged.follows,
    }


def _by_rule(judged: Judged) -> list[tuple[str, int, int]]:
    return [
        (rule, count, count - judged.differing[rule])
        for rule, count in sorted(judged.decided.items())
        if count
    ]


def _stored(unit: Row) -> StoredLog:
    segments = tuple(StoredSegment(**one) for one in unit["segments"])
    return StoredLog(unit["cluster"], unit["log"], unit["kind"], segments, tuple(unit["tokens"]))
