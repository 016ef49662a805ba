"""Opens the files of exports, which are compressed if their names end in .gz or .xz."""

import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, Final, cast

from eventstore.errors import LogCorrupt, LogExists, from_os
from eventstore.folders import replacing

_DAMAGED: Final = (gzip.BadGzipFile, lzma.LZMAError, zlib.error)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file, compressed if its name ends in .gz or .xz. It has a temporary name until it
    is complete. Only this user may read it, as the log.

    Raises LogExists, LogFull, LogReadOnly, LogFailed.
    """
    if path.exists():
        raise LogExists(path, "exists already: name another file, or delete it first")
    try:
        with (
            replacing(path, is_private=True) as file,
            _compressed_stream(file, path.suffix) as compressed,
        ):
            yield compressed
    except OSError as error:
        raise from_os(error, path) from error


@contextmanager
def old_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file for reading, uncompressed if its name ends in .gz or .xz.

    Raises LogNotFound, LogFailed, LogCorrupt.
    """
    try:
        with path.open("rb") as file, _uncompressed_stream(file, path.suffix) as uncompressed:
            yield uncompressed
    except _DAMAGED as error:
        raise LogCorrupt(path, f"cannot be uncompressed: {error}") from error
    except OSError as error:
        raise from_os(error, path) from error


def _compressed_stream(file: BinaryIO, suffix: str) -> AbstractContextManager[BinaryIO]:
    """Compress without name and time, so that the same content results in the same bytes."""
    match suffix:
        case ".gz":
            return cast(BinaryIO, gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        case ".xz":
            return cast(BinaryIO, lzma.LZMAFile(file, "wb"))
        case _:
            return nullcontext(file)


def _uncompressed_stream(file: BinaryIO, suffix: str) -> BinaryIO:
    match suffix:
        case ".gz":
            return cast(BinaryIO, gzip.GzipFile(fileobj=file))
        case ".xz":
            return cast(BinaryIO, lzma.LZMAFile(file))
        case _:
            return file
