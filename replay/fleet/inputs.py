"""Finding what to read in the given sources: segments, archives and folders of stock clusters."""

import glob
import os
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from eventstore import folders
from replay.fleet.errors import FleetError
from replay.stock_clusters.zookeeper_log.data_folder import log_zxid
from replay.stock_clusters.zookeeper_log.source import ARCHIVES


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


def named(sources: Iterable[str]) -> list[Path]:
    """The paths of the sources with globs expanded, without duplicates. Raises FleetError if a
    source does not exist."""
    return list(dict.fromkeys(path for source in sources for path in _paths_of(source)))


def inputs_below(sources: Iterable[str]) -> Iterator[Input]:
    """All inputs in the sources, without duplicates. Raises FleetError if a source does not exist
    or contains nothing to read."""
    seen: set[Path] = set()
    for source in sources:
        is_empty = True
        paths = _paths_of(source)
        # A glob may also match unrelated files.
        is_any_read = paths == [Path(source).absolute()]
        for one in chain.from_iterable(_inputs_of(path, is_any_read) for path in paths):
            is_empty = False
            if one.path not in seen:
                seen.add(one.path)
                yield one
        if is_empty:
            raise FleetError(
                f"{source} contains nothing to read: no segment (.refold), no archive"
                f" ({', '.join(ARCHIVES)}) and no ZooKeeper log (log.ZXID)"
            )


def check_inputs(sources: Iterable[str]) -> None:
    """Raises FleetError if a source does not exist or contains nothing to read."""
    for source in sources:
        next(inputs_below([source]))


def segments_below(sources: Iterable[str]) -> list[Path]:
    """The segments of the logs in the sources. Raises FleetError if there are none."""
    found: dict[Path, None] = {}
    for path in named(sources):
        files = [path] if path.is_file() else sorted(_files(path))
        segments = [one for one in files if folders.is_segment(one) or one == path]
        if not segments:
            raise FleetError(f"{path} contains no segment (such as 00000000000000000001.refold)")
        found |= dict.fromkeys(segments)
    return list(found)


def _paths_of(source: str) -> list[Path]:
    paths = [Path(source)]
    if not paths[0].exists() and glob.has_magic(source):
        paths = sorted(map(Path, glob.glob(source, recursive=True)))  # noqa: PTH207
    if not paths or not paths[0].exists():
        raise FleetError(f"{source} does not exist: name a folder, a log or an archive")
    return [path.absolute() for path in paths]


def _inputs_of(path: Path, is_any_read: bool) -> Iterator[Input]:
    """The inputs in a folder, ordered by name. The data of a stock cluster is one input. With
    `is_any_read` a file counts as a segment whatever its name is."""
    if path.is_file():
        kind = Kind.ARCHIVE if _is_archive(path) else Kind.SEGMENT
        if is_any_read or kind == Kind.ARCHIVE or folders.is_segment(path):
            yield Input(kind, path, path.stat().st_size)
        return
    of_stock = 0
    for file in sorted(_files(path)):
        if folders.is_segment(file):
            yield Input(Kind.SEGMENT, file, _size(file) + _size(folders.write_ahead_log(file)))
        elif log_zxid(file.name) is not None:
            of_stock += _size(file)
        elif _is_archive(file):
            yield Input(Kind.ARCHIVE, file, _size(file))
    if of_stock:
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
