"""The disk of a broker: a file of records for each replica, and the checkpointed high watermarks.

All methods block, and raise DiskError. The broker calls them in one thread, in order.
"""

import hashlib
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from controller.kafka_0_8.state import Name
from controller.kafka_0_8_broker.errors import DiskError
from controller.kafka_0_8_broker.segment import Segment

logger = logging.getLogger(__name__)

_SUFFIX: Final = ".records"
CHECKPOINT: Final = "high-watermarks.json"
RESPONSE_BYTES_MAX: Final = 1 << 20
"""How many bytes of records one response has, unless its first record is longer."""
_NAME_BYTES_MAX: Final = 200

_checkpoint = msgspec.json.Decoder(list[tuple[str, int, int]])


class Disk:
    """The files in `folder`, which is created if necessary."""

    def __init__(self, folder: Path) -> None:
        """Reads the checkpoint. Raises DiskError if it cannot be read. Without a checkpoint, all
        high watermarks are 0, which is reported if there are logs."""
        self._folder = folder
        self._segments: dict[Name, Segment] = {}
        with _no_os_error(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self._checkpoint_file = folder / CHECKPOINT
        self._hws = self._read_checkpoint()
        if not self._checkpoint_file.exists():
            self._begin_checkpoint()

    # Records

    def open_log(self, name: Name, czxid: int) -> tuple[int, int]:
        """The log end offset and the checkpointed high watermark (0: none) of a replica. A log with
        another czxid is deleted first. The others need a log that is open."""
        path = self._path(name, czxid)
        if not path.exists() and files_of(self._folder, name):
            self.delete_log(name)
        if name not in self._segments:
            self._segments[name] = self._open_segment(name, path)
        return self._segments[name].leo, self._hws.get(name, 0)

    def append(self, name: Name, records: list[bytes]) -> int:
        """Append records; returns the log end offset."""
        segment = self._segments[name]
        with _no_os_error(segment.path):
            return segment.append(records)

    def truncate(self, name: Name, offset: int) -> int:
        """Remove the records from `offset` on; returns the log end offset."""
        segment = self._segments[name]
        with _no_os_error(segment.path):
            return segment.truncate(offset)

    def read(self, name: Name, start: int, end: int) -> list[bytes]:
        """The first records from `start` to before `end`; none if there is no such replica."""
        segment = self._segments.get(name)
        if start >= end or segment is None:
            return []
        with _no_os_error(segment.path):
            return segment.read(start, end, RESPONSE_BYTES_MAX)

    def delete_log(self, name: Name) -> None:
        """Delete a replica with its checkpointed high watermark."""
        segment = self._segments.pop(name, None)
        with _no_os_error(self._folder):
            if segment is not None:
                segment.delete()
            for path in files_of(self._folder, name):
                path.unlink()
        if self._hws.pop(name, None) is not None:
            self._write()

    def close(self) -> None:
        """Close all files."""
        for segment in self._segments.values():
            segment.close()
        self._segments.clear()

    def _open_segment(self, name: Name, path: Path) -> Segment:
        with _no_os_error(path):
            segment = Segment(path)
        if segment.cut_bytes:
            text = "%s ended with %d bytes that are no whole record: they were removed"
            logger.warning(text, path, segment.cut_bytes)
        hw = self._hws.get(name, 0)
        if segment.leo < hw:
            text = "%s has %d records, but %d were committed: the file is damaged"
            logger.error(text, path, segment.leo, hw)
        return segment

    def _path(self, name: Name, czxid: int) -> Path:
        """The file of a replica."""
        return self._folder / f"{_prefix(name)}{czxid}{_SUFFIX}"

    # High watermarks

    def write_checkpoint(self, hws: Iterable[tuple[str, int, int]]) -> None:
        """Store these high watermarks; those of other replicas stay."""
        self._hws |= {(topic, partition): hw for topic, partition, hw in hws}
        self._write()

    def _write(self) -> None:
        rows = [(*name, hw) for name, hw in sorted(self._hws.items())]
        partial = self._checkpoint_file.with_suffix(".partial")
        with _no_os_error(self._checkpoint_file):
            with partial.open("wb") as file:
                file.write(msgspec.json.encode(rows))
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self._checkpoint_file)

    def _begin_checkpoint(self) -> None:
        """A new broker has an empty file, so that one that is missing later was lost."""
        with _no_os_error(self._folder):
            logs = len(list(self._folder.glob(f"*{_SUFFIX}")))
        if not logs:
            self._write()
            return
        text = (
            "%s does not exist, but there are logs of %d replicas: their high watermarks are 0. "
            "They remove all their records when they follow a leader; to prevent it, stop the "
            "broker and restore the file"
        )
        logger.error(text, self._checkpoint_file, logs)

    def _read_checkpoint(self) -> dict[Name, int]:
        path = self._checkpoint_file
        try:
            with _no_os_error(path):
                rows = _checkpoint.decode(path.read_bytes()) if path.exists() else []
        except msgspec.DecodeError as error:
            raise DiskError(
                f"{path} cannot be read as high watermarks: {error}; restore the file. Without it "
                "the replicas of this broker remove all their records when they follow a leader"
            ) from None
        return {(topic, partition): hw for topic, partition, hw in rows}


def files_of(folder: Path, name: Name) -> list[Path]:
    """The file of a replica, or that of a deleted partition with the same name."""
    return sorted(folder.glob(f"{_prefix(name)}*{_SUFFIX}"))


def _prefix(name: Name) -> str:
    """How the names of the files of a partition begin. Any topic that ZooKeeper can have is part of
    a valid file name; no topic is quoted with an @."""
    topic, partition = name
    text = quote(topic, safe="")
    if len(text) > _NAME_BYTES_MAX:
        text = hashlib.blake2b(topic.encode(), digest_size=20).hexdigest()
    return f"{text}-{partition}@"


@contextmanager
def _no_os_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        text = error.strerror or error
        raise DiskError(f"{path}: {text}; check the disk and the permissions") from error
