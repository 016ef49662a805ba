"""Copies a log to another folder, even while a daemon writes it."""

import shutil
from pathlib import Path

from eventstore import folders, snapshots
from eventstore.errors import LogExists, from_os
from eventstore.segment import open_segment


def copy_log(source: Path, target: Path) -> list[Path]:
    """Copy a log (a folder or one segment) and its snapshots to the folder `target`; return the new
    segments. Each segment is copied as of one moment. `verify` can then check the copy.

    Raises LogExists if `target` contains a log, LogExposed, and the errors of reading and writing.
    """
    originals = folders.segments_of(source)
    try:
        folders.make_private(target)
        if folders.segments_in(target):
            raise LogExists(target, "already contains a log: use another folder")
        copies = [_copy_segment(original, target) for original in originals]
        if source.is_dir():
            for name in snapshots.names_in(source):
                copy = target / name.path.name
                folders.make_private_file(copy)
                shutil.copyfile(name.path, copy)
        folders.sync_folder(target)
    except OSError as error:
        raise from_os(error, target) from error
    return copies


def _copy_segment(original: Path, target: Path) -> Path:
    with open_segment(original) as segment:
        copy = folders.segment_path(target, segment.header.first_seq)
        partial = copy.with_suffix(folders.PARTIAL_SUFFIX)
        try:
            folders.discard(partial)
            segment.copy_to(partial)
            return partial.rename(copy)
        finally:
            folders.discard(partial)
