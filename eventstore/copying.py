"""Copying a log to another folder, also while a daemon writes it."""

import shutil
from pathlib import Path

from eventstore import folders, snapshots
from eventstore.errors import LogExists, from_os
from eventstore.segment import open_segment


def copy_log(source: Path, target: Path) -> list[Path]:
    """Copy a log, a folder or one segment, with its snapshots into the folder `target`; returns
    the new segments. Each is as it was at one moment. `verify` then checks the copy.

    Raises LogExists if there is a log in `target`, and what reading and writing raise.
    """
    originals = folders.segments_of(source)
    try:
        target.mkdir(parents=True, exist_ok=True)
        if folders.segments_in(target):
            raise LogExists(target, "holds a log already: name another folder")
        copies = [_copy_segment(original, target) for original in originals]
        if source.is_dir():
            for name in snapshots.names_in(source):
                shutil.copy(name.path, target)
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
