"""Reads the point of no return from the JSON of `refold what-if --invariant`."""

from pathlib import Path
from typing import Final

from msgspec import Struct

from replay.errors import ReplayError
from replay.report.command_output import read_output
from replay.report.document import CurvePoint, PointOfNoReturn, Report
from replay.times import nanoseconds_of

_SEARCH: Final = "refold what-if LOG --invariant ... --json"


class _Point(Struct):
    seq: int
    time: str
    likelihood: float
    low: float
    high: float


class _Curve(Struct):
    condition: str
    points: list[_Point]


def read_futures(path: Path, report: Report) -> PointOfNoReturn:
    """The curve in a file, which is one of the log of this report. Raises ReplayError."""
    found = read_output(path, _Curve, _SEARCH)
    if not found.points:
        raise ReplayError(
            f"{path} has no points, because the search was interrupted: search again with "
            f"`{_SEARCH}`"
        )
    # The first moment of an imported log may be that of its first state.
    later = [one for one in found.points if one.seq >= report.first_seq] or found.points
    for one in later:
        if report.wall_ns_of(one.seq, one.time) is None:
            raise ReplayError(
                f"{path} is the point of no return of another log: {report.path} has no event "
                f"{one.seq} at {one.time}. Search again with this log: `{_SEARCH}`"
            )
    points = [
        CurvePoint(one.seq, nanoseconds_of(one.time), one.likelihood, one.low, one.high)
        for one in found.points
    ]
    return PointOfNoReturn(found.condition, points)
