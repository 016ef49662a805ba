"""Reads the point of no return from the JSON of `refold what-if --invariant`."""

from pathlib import Path

import msgspec
from msgspec import Struct

from replay.errors import ReplayError
from replay.report.document import CurvePoint, Futures
from replay.times import nanoseconds_of


class _Point(Struct):
    seq: int
    time: str
    likelihood: float
    low: float
    high: float


class _Curve(Struct):
    condition: str
    points: list[_Point]


def read_futures(path: Path) -> Futures:
    """The curve in a file. Raises ReplayError."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Curve)
    except OSError as error:
        raise ReplayError(f"{path} cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise ReplayError(
            f"{path} is not the output of `refold what-if LOG --invariant ... --json`: {error}"
        ) from error
    points = [
        CurvePoint(one.seq, nanoseconds_of(one.time), one.likelihood, one.low, one.high)
        for one in found.points
    ]
    return Futures(found.condition, points)
