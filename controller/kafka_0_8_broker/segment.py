"""The records of one replica: an append-only file.

A record is stored as its length, the CRC-32 of the length and the bytes (4 bytes each, big endian),
then the bytes. A process that is killed while it writes leaves a torn record at the end, which is
removed when the file is opened. So are zeros, which a machine that loses power can leave: the
CRC-32 of a length of 0 is not 0.

Appended records are not flushed to the disk, as in Kafka: they survive the process, and the
replicas protect them from a machine that fails.
"""

import os
from array import array
from pathlib import Path
from struct import Struct
from typing import BinaryIO, Final
from zlib import crc32

_HEADER: Final = Struct(">II")
_LENGTH: Final = Struct(">I")
RECORD_BYTES_MAX: Final = 1 << 20
"""The largest record. A longer one in a file is a torn or damaged record."""


class Segment:
    """The open file of records at `path`. Methods raise OSError.

    `cut_bytes`: how many bytes at the end were not readable as records when the file was opened;
    they are removed.
    """

    def __init__(self, path: Path) -> None:
        """Open the file; create it if there is none."""
        self.path = path
        self._file: BinaryIO = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+b")
        self._ends = array("Q")
        """The position after each record."""
        size = path.stat().st_size
        self._recover()
        self.cut_bytes = size - self._end
        if self.cut_bytes:
            self._file.truncate(self._end)

    def _recover(self) -> None:
        position = 0
        while len(header := self._file.read(_HEADER.size)) == _HEADER.size:
            length, checksum = _HEADER.unpack(header)
            if length > RECORD_BYTES_MAX:
                return
            record = self._file.read(length)
            if len(record) < length or _checksum(record) != checksum:
                return
            position += _HEADER.size + length
            self._ends.append(position)

    @property
    def leo(self) -> int:
        """The log end offset: the number of records."""
        return len(self._ends)

    @property
    def _end(self) -> int:
        return self._start_of(self.leo)

    def _start_of(self, offset: int) -> int:
        return self._ends[offset - 1] if offset else 0

    def append(self, records: list[bytes]) -> int:
        """Append records; returns the log end offset."""
        position = self._end
        ends = []
        parts = []
        for record in records:
            parts += [_HEADER.pack(len(record), _checksum(record)), record]
            position += _HEADER.size + len(record)
            ends.append(position)
        self._file.seek(self._end)
        self._file.write(b"".join(parts))
        self._file.flush()
        self._ends.extend(ends)
        return self.leo

    def truncate(self, offset: int) -> int:
        """Remove the records from `offset` on; returns the log end offset."""
        if offset < self.leo:
            del self._ends[offset:]
            self._file.truncate(self._end)
        return self.leo

    def read(self, start: int, end: int, bytes_max: int) -> list[bytes]:
        """The records from `start` to before `end` that fit into `bytes_max` as they are stored,
        but at least one. A record is not longer in a response than in the file."""
        records: list[bytes] = []
        size = 0
        self._file.seek(self._start_of(min(start, self.leo)))
        for offset in range(start, min(end, self.leo)):
            stored = self._ends[offset] - self._start_of(offset)
            length = stored - _HEADER.size
            size += stored
            if records and size > bytes_max:
                break
            self._file.seek(_HEADER.size, os.SEEK_CUR)
            records.append(self._file.read(length))
        return records

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def delete(self) -> None:
        """Close and delete the file."""
        self.close()
        self.path.unlink(missing_ok=True)


def _checksum(record: bytes) -> int:
    return crc32(record, crc32(_LENGTH.pack(len(record))))
