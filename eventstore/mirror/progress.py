"""A note next to the log of how far it is published: where to look on the topic, and which
segments may be removed."""

from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from eventstore import folders
from eventstore.errors import from_os
from eventstore.mirror.outbox import PublishedPosition


class TopicLocation(Struct, frozen=True):
    """A topic and its bootstrap servers; other clusters may have a topic of the same name."""

    topic: str
    servers: str


class MirrorProgress(Struct, frozen=True):
    """The last message that was certainly published: on `partition` at `offset`.

    It may be earlier than the actual end, never later. `is_whole`: the log is complete.
    """

    topic: str
    partition: int
    offset: int
    at: PublishedPosition
    is_whole: bool = False
    servers: str = ""

    @property
    def place(self) -> TopicLocation:
        """The topic of the note."""
        return TopicLocation(self.topic, self.servers)


def read_progress(log: Path, topic: str) -> MirrorProgress | None:
    """The note; None if it is missing, unreadable, or about another topic."""
    with suppress(OSError, msgspec.DecodeError):
        found = msgspec.json.decode((log / folders.MIRRORED_NAME).read_bytes(), type=MirrorProgress)
        return found if found.topic == topic else None
    return None


def write_progress(log: Path, progress: MirrorProgress) -> None:
    """Write the note. Raises LogFull, LogReadOnly, LogFailed."""
    path = log / folders.MIRRORED_NAME
    try:
        with folders.replacing(path, is_durable=False, is_private=True) as file:
            file.write(msgspec.json.encode(progress))
    except OSError as error:
        raise from_os(error, path) from error


def is_mirrored(segment: Path, place: TopicLocation) -> bool:
    """Whether a whole segment is certainly on the topic."""
    found = read_progress(segment.parent, place.topic)
    if found is None or found.place != place:
        return False
    return found.is_whole or found.at.segment > folders.first_seq_of(segment)
