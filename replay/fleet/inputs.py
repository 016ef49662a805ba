"""Finding what to read in the given sources: segments, archives and folders of stock clusters."""

import glob
import os
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from eventstore import folders
from replay.description.phrases import first_few
from replay.fleet.errors import FleetError
from replay.stock_clusters.zookeeper_log.data_folder import (
    broker_log_kind,
    is_wanted,
    log_zxid,
)
from replay.stock_clusters.zookeeper_log.source import ARCHIVES
from replay.uri import is_uri

_COMPANIONS: Final = ("-wal", "-shm", "-journal", folders.PARTIAL_SUFFIX)
_PACKED: Final = frozenset((".7z", ".bz2", ".gz", ".lz4", ".rar", ".xz", ".zip", ".zst"))
_OF_BROKERS: Final = (
    ". Brokers' logs are read together with ZooKeeper data: name a folder that contains both"
)
_OF_LOGS: Final = frozenset((folders.LOCK_NAME, folders.MIRRORED_NAME))


class Kind(StrEnum):
    """The kind of an input: a segment of a log; an archive of logs or of a stock cluster; a folder
    with the data of a stock cluster, as `refold import` reads it."""

    SEGMENT = "segment"
    ARCHIVE = "archive"
    STOCK = "stock"


class Input(NamedTuple):
    """One thing to read, with its size on the disk in bytes."""

    kind: Kind
    path: Path
    size: int


class PassedOverFiles(Struct):
    """Files of one kind that are not read: their suffix, or the name of the kind; how many there
    are, and all of them."""

    kind: str
    files: int
    names: list[str]


class OtherFiles:
    """Counts the files that are passed over, by kind."""

    def __init__(self) -> None:
        self._found: dict[str, PassedOverFiles] = {}

    def add(self, file: Path) -> None:
        """Count a file."""
        name = file.name
        if name in _OF_LOGS or name.endswith(_COMPANIONS):
            return
        kind = broker_log_kind(name) or file.suffix or name
        found = self._found.setdefault(kind, PassedOverFiles(kind, 0, []))
        found.files += 1
        found.names.append(str(file))

    @property
    def kinds(self) -> list[PassedOverFiles]:
        """All kinds, by name."""
        return [self._found[kind] for kind in sorted(self._found)]


def expand_sources(sources: Iterable[str]) -> list[Path]:
    """The paths of the sources with globs expanded, without duplicates. Raises FleetError if a
    source does not exist."""
    return list(dict.fromkeys(path for source in sources for path in _paths_of(source)))


def inputs_below(sources: Iterable[str], others: OtherFiles | None = None) -> Iterator[Input]:
    """All inputs in the sources, without duplicates; `others` counts the files that are passed
    over. Raises FleetError if a source does not exist or contains nothing to read."""
    others = others or OtherFiles()
    seen: set[Path] = set()
    for source in sources:
        is_empty = True
        paths = _paths_of(source)
        # A glob may also match unrelated files.
        is_any_read = paths == [Path(source).absolute()]
        for one in chain.from_iterable(_inputs_of(path, is_any_read, others) for path in paths):
            is_empty = False
            if one.path not in seen:
                seen.add(one.path)
                yield one
        if is_empty:
            there = ", ".join(
                f"{one.files} {one.kind} ({first_few(one.names, ', ')})" for one in others.kinds
            )
            raise FleetError(
                f"{source} contains nothing to read: no segment (.refold), no archive"
                f" ({', '.join(ARCHIVES)}) and no ZooKeeper log (log.ZXID)"
                f"{f'; passed over: {there}' if there else ''}"
                f"{_OF_BROKERS if any(broker_log_kind(one.kind) for one in others.kinds) else ''}"
            )


def check_inputs(sources: Iterable[str]) -> None:
    """Check that each source exists and has something to read. Raises FleetError."""
    for source in sources:
        next(inputs_below([source]))


def segments_below(sources: Iterable[str]) -> list[Path]:
    """The segments of the logs in the sources. Raises FleetError if there are none."""
    found: dict[Path, None] = {}
    for path in expand_sources(sources):
        files = [path] if path.is_file() else sorted(_files(path))
        segments = [one for one in files if folders.is_segment(one) or one == path]
        if not segments:
            raise FleetError(f"{path} contains no segment (such as 00000000000000000001.refold)")
        found |= dict.fromkeys(segments)
    return list(found)


def _paths_of(source: str) -> list[Path]:
    if is_uri(source):
        raise FleetError(f"{source} is a URI: name a path of a mounted file system")
    paths = [Path(source)]
    if not paths[0].exists() and glob.has_magic(source):
        paths = sorted(map(Path, glob.glob(source, recursive=True)))  # noqa: PTH207
    if not paths or not paths[0].exists():
        raise FleetError(f"{source} does not exist: name a folder, a log or an archive")
    return [path.absolute() for path in paths]


def _inputs_of(path: Path, is_any_read: bool, others: OtherFiles) -> Iterator[Input]:
    """The inputs in a folder, ordered by name. The data of a stock cluster is one input. With
    `is_any_read` a file counts as a segment whatever its name is, unless it is packed."""
    if path.is_file():
        kind = Kind.ARCHIVE if _is_archive(path) else Kind.SEGMENT
        is_read = is_any_read and path.suffix.lower() not in _PACKED
        if is_read or kind == Kind.ARCHIVE or folders.is_segment(path):
            yield Input(kind, path, path.stat().st_size)
        else:
            others.add(path)
        return
    of_stock = 0
    of_brokers: list[Path] = []
    for file in sorted(_files(path)):
        if folders.is_segment(file):
            yield Input(Kind.SEGMENT, file, _size(file) + _size(folders.write_ahead_log(file)))
        elif log_zxid(file.name) is not None:
            of_stock += _size(file)
        elif _is_archive(file):
            yield Input(Kind.ARCHIVE, file, _size(file))
        elif is_wanted(file.name):
            of_brokers.append(file)
        else:
            others.add(file)
    if not of_stock:
        for file in of_brokers:
            others.add(file)
    else:
        yield Input(Kind.STOCK, path, of_stock)


def _is_archive(path: Path) -> bool:
    return path.name.endswith(ARCHIVES)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _files(root: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(root, onerror=_refuse, followlinks=False):
        for name in names:
            yield Path(folder, name)


def _refuse(error: OSError) -> None:
    raise FleetError(f"{error.filename} cannot be read: {error.strerror}")
