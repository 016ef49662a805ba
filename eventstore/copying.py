"""Copies a log to another folder, even while a daemon writes it."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from eventstore import folders, snapshots
from eventstore.errors import LogExists, LogNotFound, from_os
from eventstore.segment import open_segment

Copied = Callable[[int, int], None]
"""Called with the bytes that are copied so far, and their total."""


def copy_log(source: Path, target: Path, copied: Copied = lambda done, total: None) -> list[Path]:
    """Copy a log (a folder or one segment) and its snapshots to the folder `target`; return the new
    segments. Each segment is copied as of one moment. `verify` can then check the copy.

    The copy is complete or absent: its files have other names until all of them are on disk. Files
    of an interrupted copy are replaced.

    Raises LogExists if `target` contains a log, LogExposed, and the errors of reading and writing.
    """
    originals = folders.segments_of(source)
    try:
        folders.make_private(target)
        if folders.segments_in(target):
            raise LogExists(target, "already contains a log: use another folder")
        for left in target.glob(f"*{folders.PARTIAL_SUFFIX}"):
            folders.discard(left)
        partials = _copy_segments(originals, target, copied)
        if source.is_dir():
            _copy_snapshots(source, target, partials)
        folders.sync_folder(target)
        # From the first one on: if this is interrupted, the log has its beginning.
        copies = [one.rename(one.with_suffix(folders.SEGMENT_SUFFIX)) for one in partials]
        folders.sync_folder(target)
    except OSError as error:
        raise from_os(error, target) from error
    return copies


def _copy_segments(originals: Sequence[Path], target: Path, copied: Copied) -> list[Path]:
    """Copy the segments; return the copies, under names that no reader takes for segments.

    Retention may remove the oldest segments during the copy. Then the copy begins after them.
    """
    total = sum(one.stat().st_size for one in originals if one.exists())
    partials: list[Path] = []
    done = 0
    for original in originals:
        try:
            size = original.stat().st_size
            partials.append(_copy_segment(original, target))
        except (FileNotFoundError, LogNotFound):
            if original is originals[-1]:
                raise
            for partial in partials:
                folders.discard(partial)
            partials.clear()
            continue
        done += size
        copied(done, max(done, total))
    return partials


def _copy_segment(original: Path, target: Path) -> Path:
    with open_segment(original) as segment:
        copy = folders.segment_path(target, segment.header.first_seq)
        partial = copy.with_suffix(folders.PARTIAL_SUFFIX)
        try:
            segment.copy_to(partial)
        except BaseException:
            folders.discard(partial)
            raise
        return partial


def _copy_snapshots(source: Path, target: Path, segments: Sequence[Path]) -> None:
    """Copy the snapshots from before the first of the copied segments to the end of the last."""
    with open_segment(segments[0]) as first, open_segment(segments[-1]) as last:
        begin, end = first.header.first_seq - 1, last.last_seq()
    for name in snapshots.names_in(source):
        if begin <= name.seq <= end:
            copy = target / name.path.name
            folders.make_private_file(copy)
            try:
                shutil.copyfile(name.path, copy)
            except FileNotFoundError:
                copy.unlink()
