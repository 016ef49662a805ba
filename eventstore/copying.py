"""Copies a log to another folder, even while a daemon writes it."""

import shutil
from collections.abc import Callable
from pathlib import Path

from eventstore import folders, snapshots
from eventstore.errors import LogExists, from_os
from eventstore.segment import open_segment

Copied = Callable[[int, int], None]
"""Called with the bytes that are copied so far, and their total."""


def copy_log(source: Path, target: Path, copied: Copied = lambda done, total: None) -> list[Path]:
    """Copy a log (a folder or one segment) and its snapshots to the folder `target`; return the new
    segments. Each segment is copied as of one moment. `verify` can then check the copy.

    The copy is complete or absent: its files have other names until all of them are on disk. What
    an interrupted copy left there is replaced.

    Raises LogExists if `target` contains a log, LogExposed, and the errors of reading and writing.
    """
    originals = folders.segments_of(source)
    try:
        folders.make_private(target)
        if folders.segments_in(target):
            raise LogExists(target, "already contains a log: use another folder")
        for left in target.glob(f"*{folders.PARTIAL_SUFFIX}"):
            folders.discard(left)
        total = sum(one.stat().st_size for one in originals)
        partials: list[Path] = []
        done = 0
        for original in originals:
            partials.append(_copy_segment(original, target))
            done += original.stat().st_size
            copied(done, max(done, total))
        if source.is_dir():
            for name in snapshots.names_in(source):
                copy = target / name.path.name
                folders.make_private_file(copy)
                shutil.copyfile(name.path, copy)
        folders.sync_folder(target)
        # From the first one on: if this is interrupted, the log has its beginning.
        copies = [one.rename(one.with_suffix(folders.SEGMENT_SUFFIX)) for one in partials]
        folders.sync_folder(target)
    except OSError as error:
        raise from_os(error, target) from error
    return copies


def _copy_segment(original: Path, target: Path) -> Path:
    """Copy a segment under a name that no reader takes for one; return its path."""
    with open_segment(original) as segment:
        copy = folders.segment_path(target, segment.header.first_seq)
        partial = copy.with_suffix(folders.PARTIAL_SUFFIX)
        try:
            segment.copy_to(partial)
        except BaseException:
            folders.discard(partial)
            raise
        return partial
