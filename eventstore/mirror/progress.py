"""How far a log is published, noted beside it: where to look in the topic, and what may go."""

from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from eventstore import folders
from eventstore.errors import from_os
from eventstore.mirror.outbox import Position


class Place(Struct, frozen=True):
    """A topic, and the servers by which it was found: on others there may be one of its name."""

    topic: str
    servers: str


class Progress(Struct, frozen=True):
    """The last message that was there for certain: on `partition` at `offset`.

    It may be behind what is published, never ahead. `is_whole`: nothing will follow.
    """

    topic: str
    partition: int
    offset: int
    at: Position
    is_whole: bool = False
    servers: str = ""

    @property
    def place(self) -> Place:
        """Where that is."""
        return Place(self.topic, self.servers)


def read_progress(log: Path, topic: str) -> Progress | None:
    """What is noted; None where there is nothing, or nothing of this topic, or no sense in it."""
    with suppress(OSError, msgspec.DecodeError):
        found = msgspec.json.decode((log / folders.MIRRORED_NAME).read_bytes(), type=Progress)
        return found if found.topic == topic else None
    return None


def write_progress(log: Path, progress: Progress) -> None:
    """Note it. Raises LogFull, LogReadOnly, LogFailed."""
    path = log / folders.MIRRORED_NAME
    partial = path.with_suffix(".partial")
    try:
        partial.write_bytes(msgspec.json.encode(progress))
        partial.replace(path)
    except OSError as error:
        raise from_os(error, path) from error


def is_mirrored(segment: Path, place: Place) -> bool:
    """Whether all of a segment is on the topic for certain."""
    found = read_progress(segment.parent, place.topic)
    if found is None or found.place != place:
        return False
    return found.is_whole or found.at.segment > folders.first_seq_of(segment)
