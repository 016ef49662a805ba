"""Reads one transaction log: a header, a record for each transaction, and zeros to the end.

A record is a checksum (Adler32, 8 bytes), a length (4), that many bytes and the letter B
(FileTxnLog). The server fills a file with zeros before it writes into it.
"""

import struct
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, Protocol
from zlib import adler32

from replay.stock_clusters.zookeeper_log.damage import FileDamage
from replay.stock_clusters.zookeeper_log.decoding import MalformedError, decode_transaction
from replay.stock_clusters.zookeeper_log.transactions import Transaction

MAGIC: Final = b"ZKLG"
FORMAT_VERSION: Final = 2
RECORD_BYTES_MAX: Final = 64 * 1024 * 1024
"""Servers accept requests of up to 1 MB (jute.maxbuffer); few are configured for more than this."""

_FILE_HEADER: Final = struct.Struct(">4siq")
_RECORD_HEADER: Final = struct.Struct(">qi")
_TRAILER: Final = ord("B")
_CHUNK_BYTES: Final = 1024 * 1024


class TransactionReader(Protocol):
    """Iterates over the transactions of one file, in the order of the file.

    `offset` is the position of the last one, `zxid` its number. `damage` says what ends the file
    early, if anything. `is_cut`, at the end: a part of the file is missing.
    """

    offset: int
    zxid: int | None
    damage: FileDamage | None
    is_cut: bool

    def __iter__(self) -> Iterator[Transaction]: ...


class TransactionLogReader:
    """Iterates over the transactions of one file, in order; reads it once, from the start.

    Memory holds one chunk, or one record if that is larger. `damage` is set if something in the
    file is not a record. `zxid` is the last transaction so far.

    `is_cut`, at the end: the file ends within or right after a record. A server writes a record
    only where zeros follow it in the file (FilePadding), so a part of the file is missing, or the
    server does not fill its files (preAllocSize 0).
    """

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        on_bytes: Callable[[int], None] = lambda _: None,
        *,
        start: int = 0,
        is_growing: bool = False,
    ) -> None:
        """`start` is the offset of a record to begin at, where `stream` is; 0: the whole file.

        `is_growing`: a server is writing the file, so what follows the last record is not examined.
        """
        self.damage: FileDamage | None = None
        self.zxid: int | None = None
        self.is_cut = False
        self.offset = 0
        """The byte offset of the last transaction's record."""
        self._stream = stream
        self._name = name
        self._on_bytes = on_bytes
        self._is_growing = is_growing
        self._buffer = b""
        self._at = 0
        self._start = start

    @property
    def end(self) -> int:
        """The byte offset after the last transaction's record."""
        return self._start + self._at

    def __iter__(self) -> Iterator[Transaction]:
        if not self._start and not self._read_file_header():
            return
        while (record := self._next_record()) is not None:
            try:
                transaction = decode_transaction(record)
            except MalformedError as error:
                self._at -= len(record) + _RECORD_HEADER.size + 1
                self._stop(str(error))
                return
            self.zxid = transaction.zxid
            self.offset = self._start + self._at - len(record) - _RECORD_HEADER.size - 1
            yield transaction

    def _read_file_header(self) -> bool:
        if not self._fill(_FILE_HEADER.size):
            # A server that is killed early leaves an empty file and starts over it.
            self._stop(f"it has {len(self._buffer)} bytes, a header has 16", is_torn=True)
            return False
        magic, version, _ = _FILE_HEADER.unpack_from(self._buffer)
        if magic != MAGIC:
            self._stop(f"it begins with {magic!r} and not with {MAGIC!r}: no transaction log")
        elif version != FORMAT_VERSION:
            self._stop(f"it has format version {version}, only {FORMAT_VERSION} can be read")
        self._at = _FILE_HEADER.size
        return self.damage is None

    def _next_record(self) -> bytes | None:
        """The next record with a correct checksum; None at the end."""
        if not self._fill(_RECORD_HEADER.size):
            self.is_cut = True
            if any(self._buffer[self._at :]):
                self._stop("the last record is cut off", is_torn=True)
            return None
        checksum, size = _RECORD_HEADER.unpack_from(self._buffer, self._at)
        if not 0 < size <= RECORD_BYTES_MAX:
            self._end_at_size(checksum, size)
            return None
        if not self._fill(_RECORD_HEADER.size + size + 1):
            self.is_cut = True
            left = len(self._buffer) - self._at
            self._stop(f"the last record is cut off: {left} of {size + 13} bytes", is_torn=True)
            return None
        start = self._at + _RECORD_HEADER.size
        end = start + size
        record = self._buffer[start:end]
        if self._buffer[end] != _TRAILER:
            # The part that an interrupted write did not reach is still zero.
            is_torn = self._is_zero_from(end)
            what = "is cut off" if is_torn else "does not end with B"
            self._stop(f"the record of {size} bytes there {what}", is_torn)
            return None
        if adler32(record) != checksum:
            self._stop("the checksum of the record there is wrong")
            return None
        self._at = end + 1
        return record

    def _end_at_size(self, checksum: int, size: int) -> None:
        """Handle an impossible size: the zeros after the last record, or damage."""
        if size:
            self._stop(f"a record of {size} bytes is impossible")
        elif self._is_growing:
            return
        elif not self._is_zero_from(self._at + _RECORD_HEADER.size):
            self._stop("there are zeros, and then something else")
        elif checksum:
            self._stop("the last record is cut off", is_torn=True)

    def _is_zero_from(self, at: int) -> bool:
        """Whether the file holds nothing more; reads on without moving."""
        rest = self._buffer[at:]
        while rest:
            if rest.count(0) != len(rest):
                return False
            rest = self._read(_CHUNK_BYTES)
        return True

    def _fill(self, size: int) -> bool:
        """Have that many bytes from here on in the buffer; False if the file has fewer."""
        while len(self._buffer) - self._at < size:
            # A length that is wrong must not be taken for granted: memory grows with the file.
            more = self._read(_CHUNK_BYTES)
            self._start += self._at
            self._buffer = self._buffer[self._at :] + more
            self._at = 0
            if not more:
                return False
        return True

    def _read(self, size: int) -> bytes:
        more = self._stream.read(size)
        self._on_bytes(len(more))
        return more

    def _stop(self, reason: str, is_torn: bool = False) -> None:
        self.damage = FileDamage(self._name, self._start + self._at, self.zxid, reason, is_torn)
