"""What an export goes to and comes from: a file, compressed if its name says so."""

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
    """A new file, compressed if it is called .gz or .xz, there only when it is whole.

    Raises LogExists, LogFull, LogReadOnly, LogFailed.
    """
    if path.exists():
        raise LogExists(path, "is there already: name another file, or remove it first")
    try:
        with replacing(path) as file, _packing(file, path.suffix) as packed:
            yield packed
    except OSError as error:
        raise from_os(error, path) from error


@contextmanager
def old_file(path: Path) -> Iterator[BinaryIO]:
    """A file for reading, unpacked if it is called .gz or .xz.

    Raises LogNotFound, LogFailed, LogCorrupt.
    """
    try:
        with path.open("rb") as file, _unpacking(file, path.suffix) as unpacked:
            yield unpacked
    except _DAMAGED as error:
        raise LogCorrupt(path, f"cannot be unpacked: {error}") from error
    except OSError as error:
        raise from_os(error, path) from error


def _packing(file: BinaryIO, suffix: str) -> AbstractContextManager[BinaryIO]:
    """The same content gives the same bytes: no name and no time goes in."""
    match suffix:
        case ".gz":
            return cast(BinaryIO, gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        case ".xz":
            return cast(BinaryIO, lzma.LZMAFile(file, "wb"))
        case _:
            return nullcontext(file)


def _unpacking(file: BinaryIO, suffix: str) -> BinaryIO:
    match suffix:
        case ".gz":
            return cast(BinaryIO, gzip.GzipFile(fileobj=file))
        case ".xz":
            return cast(BinaryIO, lzma.LZMAFile(file))
        case _:
            return file
