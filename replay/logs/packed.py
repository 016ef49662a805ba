"""Unpacks logs: archives, incidents, and recordings of stock clusters."""

import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from lzma import LZMAError
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from eventstore.errors import LogError
from eventstore.folders import is_segment, logs_in, only_log_in, segments_in
from replay.errors import ReplayError
from replay.logs.saved_runs import folder_named_by, require_one_log
from replay.progress import Progress, unreported
from replay.stock_clusters.imports.importing import Selection, import_source
from replay.stock_clusters.zookeeper_log.source import bytes_allowed, is_source

PACKED: Final = (".tar.xz", ".tar.gz")
LOG_OF_INCIDENT: Final = "log.tar.xz"

_ARCHIVE_ERRORS: Final = (OSError, EOFError, ValueError, tarfile.TarError, LZMAError, zlib.error)
"""The exceptions that `tarfile` raises for a damaged archive."""


@contextmanager
def log_at(path: Path | str, progress: Progress = unreported) -> Iterator[Path | str]:
    """The path of the log, which exists for the duration of the context. That of a folder with one
    log is the log's; another path that is not packed, such as "-", is returned unchanged. A saved
    run or an incident may also be given by its run.json. An import reports its progress. Raises
    ReplayError, also for a saved run with several logs."""
    given = folder_named_by(Path(path))
    packed = packed_at(given, progress)
    if packed is None:
        only = only_log_in(given)
        if only is None:
            require_one_log(given)
            _require_log_or_recording(given)
        yield only or path
        return
    with TemporaryDirectory(prefix="refold-packed-") as scratch:
        yield unpack_or_import(packed, Path(scratch), progress)


def _require_log_or_recording(folder: Path) -> None:
    """Refuse a folder that has nothing to read. Raises ReplayError."""
    if folder.is_dir() and not segments_in(folder) and not logs_in(folder):
        raise ReplayError(
            f"{folder}: contains no segment of a log (a file such as 00000000000000000001.refold), "
            "and no files of ZooKeeper's data folder (log.*, snapshot.*)"
        )


def packed_at(path: Path, progress: Progress = unreported) -> Path | None:
    """The archive or recording from which the log must be made first: the path itself, or the
    archive of an incident. None if the path is no such thing."""
    of_incident = path / LOG_OF_INCIDENT
    if of_incident.is_file():
        return of_incident
    is_archive = path.name.endswith(PACKED) and path.is_file()
    return path if is_archive or is_recording(path, progress) else None


def is_recording(path: Path, progress: Progress = unreported) -> bool:
    """Whether the path is a folder of a stock cluster that `refold import` accepts, and no log."""
    return path.is_dir() and not segments_in(path) and is_source(path, progress)


def unpack_or_import(given: Path, scratch: Path, progress: Progress = unreported) -> Path:
    """Unpack or import into `scratch` and return the folder of the log. Raises ReplayError."""
    if given.is_dir():
        return _import_recording(given, scratch, progress)
    return unpack_log(given, scratch) or _import_recording(given, scratch, progress)


def _import_recording(recording: Path, scratch: Path, progress: Progress) -> Path:
    try:
        import_source(recording, scratch / "log", Selection(), progress)
    except (LogError, ReplayError) as error:
        raise ReplayError(f"{recording} cannot be opened: {error}") from None
    return scratch / "log"


def unpack_log(archive: Path, scratch: Path) -> Path | None:
    """Unpack the log of an archive into `scratch`, and return its folder. None if the archive has
    none, as that of a stock cluster's files. Raises ReplayError."""
    try:
        with tarfile.open(archive) as packed:
            segments = _segments(packed, bytes_allowed(archive))
            packed.extractall(scratch, segments, filter="data")
    except _ARCHIVE_ERRORS as error:
        why = str(error).partition("\n")[0].removesuffix(":")
        raise ReplayError(f"{archive} cannot be opened: {why}") from None
    return (scratch / segments[0].name).parent if segments else None


def _segments(packed: tarfile.TarFile, left: int) -> list[tarfile.TarInfo]:
    """The segments in an archive. Raises TarError if its files have more than `left` bytes; the
    rest is not even decompressed."""
    found = []
    for member in packed:
        left -= member.size
        if left < 0:
            raise tarfile.TarError("it unpacks to more bytes than logs of its size have")
        if member.isreg() and is_segment(Path(member.name)):
            found.append(member)
    return found
