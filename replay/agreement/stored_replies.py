"""Stores the writes of an imported log whose replies were lost, next to the segments.

To find them, a long log is compared several times (search): each question would take that long.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from stat import S_IMODE
from typing import Final

import msgspec
from msgspec import Struct

from controller.fingerprint import core_fingerprint
from eventstore.folders import replacing
from eventstore.reader import LogReader
from replay.logs.caches import keeps_caches, stamp_of

WORTH_STORING: Final = 30_000
"""With fewer records, nothing is stored."""
_FORMAT: Final = 1


class _Stored(Struct, frozen=True):
    """The zxids of the writes, and the log and the code that they were found with."""

    stamp: str
    zxids: list[int]


def stored_or_found(reader: LogReader, find: Callable[[], Iterable[int]]) -> frozenset[int]:
    """The zxids of the writes whose replies were lost: those that are stored, else those that
    `find` returns, which are stored if the log is long and its folder can be written. Raises
    LogError."""
    if not reader.path.is_dir() or reader.last_seq <= WORTH_STORING:
        return frozenset(find())
    stamp = stamp_of(reader, _FORMAT)
    path = reader.path / f"{core_fingerprint()}.replies"
    # A file that cannot be read is a cache that does not exist.
    with suppress(OSError, msgspec.DecodeError):
        stored = msgspec.json.decode(path.read_bytes(), type=_Stored)
        if stored.stamp == stamp:
            return frozenset(stored.zxids)
    found = frozenset(find())
    if keeps_caches(reader.path):
        with suppress(OSError), replacing(path, is_durable=False) as file:
            os.fchmod(file.fileno(), S_IMODE(reader.segments[0].stat().st_mode))
            file.write(msgspec.json.encode(_Stored(stamp, sorted(found))))
    return found
