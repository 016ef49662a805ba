"""Decompresses snapshots (zookeeper.snapshot.compression.method), archives and rotated logs.

In snapshots gzip is Java's GZIPOutputStream. snappy is snappy-java's SnappyOutputStream: a header
of 16 bytes, then blocks, each a length (4 bytes) and as many bytes of raw snappy.
"""

import bz2
import gzip
import io
import lzma
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, Final, cast
from zlib import error as ZlibError

from cramjam import DecompressionError, snappy

BROKEN: Final = (EOFError, gzip.BadGzipFile, ZlibError)
"""The errors of reading a damaged compressed stream."""

_BY_FIRST_BYTES: Final[Mapping[bytes, Callable[[BinaryIO], object]]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\0": lzma.open,
    b"BZh": bz2.open,
}
_FIRST_BYTES_MAX: Final = 6

_SNAPPY_MAGIC: Final = b"\x82SNAPPY\0"
_SNAPPY_HEADER_BYTES: Final = 16
_BLOCK_BYTES_MAX: Final = 32 * 1024 * 1024
"""The size of a block, compressed or not. Servers write blocks of 32 KB; larger is damage."""

_LENGTH: Final = struct.Struct(">i")


def decompressed_by_content(stream: BinaryIO) -> BinaryIO:
    """The content of a gzip, xz or bzip2 file, by its first bytes; of another file its own."""
    first = stream.read(_FIRST_BYTES_MAX)
    stream.seek(0)
    for magic, opened in _BY_FIRST_BYTES.items():
        if first.startswith(magic):
            return cast(BinaryIO, opened(stream))
    return stream


def decompressed(stream: BinaryIO, name: str) -> io.BufferedIOBase:
    """A snapshot's stream, decompressed while it is read, by the file's name. Reading may raise one
    of BROKEN."""
    if name.endswith(".gz"):
        return gzip.GzipFile(fileobj=stream)
    if name.endswith(".snappy"):
        return io.BufferedReader(_Blocks(stream))
    return cast(io.BufferedIOBase, stream)


class _Blocks(io.RawIOBase):
    """A stream of the contents of all blocks."""

    def __init__(self, stream: BinaryIO) -> None:
        self._blocks = _snappy_blocks(stream)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer)
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = memoryview(block)
        part = self._rest[: len(target)]
        target[: len(part)] = part
        self._rest = self._rest[len(part) :]
        return len(part)


def _snappy_blocks(stream: BinaryIO) -> Iterator[bytes]:
    header = _exactly(stream, _SNAPPY_HEADER_BYTES)
    if not header.startswith(_SNAPPY_MAGIC):
        raise EOFError("it does not begin with the snappy header")
    while length := stream.read(_LENGTH.size):
        if len(length) < _LENGTH.size:
            raise EOFError("a block is cut off")
        (size,) = _LENGTH.unpack(length)
        if not 0 < size <= _BLOCK_BYTES_MAX:
            raise EOFError(f"a block of {size} bytes is impossible")
        yield _decoded(_exactly(stream, size))


def _decoded(block: bytes) -> bytes:
    try:
        size = snappy.decompress_raw_len(block)
        if size > _BLOCK_BYTES_MAX:
            raise EOFError(f"a block decodes to {size} bytes")
        return bytes(snappy.decompress_raw(block))
    except DecompressionError as error:
        raise EOFError(f"a block cannot be decoded: {error}") from None


def _exactly(stream: BinaryIO, size: int) -> bytes:
    read = stream.read(size)
    if len(read) < size:
        raise EOFError("a block is cut off")
    return read
