"""Opens the files of exports, which are compressed if their names end in .gz or .xz."""

import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from eventstore.errors import LogCorrupt, LogExists, from_os

_PARTIAL: Final = ".partial"
_DAMAGED: Final = (gzip.BadGzipFile, lzma.LZMAError, zlib.error)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file, compressed if its name ends in .gz or .xz. It has a temporary name until it
    is complete.

    Raises LogExists, LogFull, LogReadOnly, LogFailed.
    """
    if path.exists():
        raise LogExists(path, "exists already: name another file, or delete it first")
    partial = path.with_name(path.name + _PARTIAL)
    try:
        with ExitStack() as resources:
            file = resources.enter_context(partial.open("wb"))
            yield resources.enter_context(_compressed(file, path.suffix))
        partial.rename(path)
    except OSError as error:
        raise from_os(error, path) from error
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def old_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file for reading, uncompressed if its name ends in .gz or .xz.

    Raises LogNotFound, LogFailed, LogCorrupt.
    """
    try:
        with ExitStack() as resources:
            file = resources.enter_context(path.open("rb"))
            yield resources.enter_context(_uncompressed(file, path.suffix))
    except _DAMAGED as error:
        raise LogCorrupt(path, f"cannot be uncompressed: {error}") from error
    except OSError as error:
        raise from_os(error, path) from error


def _compressed(file: BinaryIO, suffix: str) -> BinaryIO:
    """Compress without name and time, so that the same content results in the same bytes."""
    match suffix:
        case ".gz":
            return cast(BinaryIO, gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        case ".xz":
            return cast(BinaryIO, lzma.LZMAFile(file, "wb"))
        case _:
            return file


def _uncompressed(file: BinaryIO, suffix: str) -> BinaryIO:
    match suffix:
        case ".gz":
            return cast(BinaryIO, gzip.GzipFile(fileobj=file))
        case ".xz":
            return cast(BinaryIO, lzma.LZMAFile(file))
        case _:
            return file
