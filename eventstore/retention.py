"""Removes segments that are too old or exceed the size limit, the oldest segments of the oldest
logs first.

A segment is removed only if the rest of the log can be folded without it. The next segment must
begin with a snapshot, so segments are removed in groups that end before a snapshot. The last group
of a log is removed only with the whole log, and never while a daemon writes it.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from eventstore import folders, snapshots
from eventstore.errors import LogError, from_os
from eventstore.segment import open_segment
from eventstore.subjects import index_path


class _Group(Struct, frozen=True):
    """Files to remove together. `newest_ns`: the wall clock of the last record in them.
    `is_last`: they are the rest of the log."""

    log: Path
    files: list[Path]
    bytes: int
    newest_ns: int
    removable: bool
    is_last: bool


def retain(
    parent: Path,
    max_bytes: int | None,
    max_age_ms: int | None,
    now_ns: int,
    own: Path | None = None,
    is_held: Callable[[Path], bool] = lambda _: False,
) -> list[Path]:
    """Remove what exceeds a limit from the logs in `parent`; return the removed segments.

    `own` is the log that the caller writes. Logs of other running daemons and unreadable logs are
    neither removed nor counted. A segment with `is_held` and the later segments of its log are
    kept. None means no limit. Raises LogReadOnly, LogFailed.
    """
    try:
        groups = [group for log in folders.logs_in(parent) for group in _groups(log, own, is_held)]
        due = _due(groups, max_bytes, max_age_ms, now_ns)
        for group in due:
            _remove(group)
    except OSError as error:
        raise from_os(error, parent) from error
    return [file for group in due for file in group.files if folders.is_segment(file)]


def _due(
    groups: list[_Group], max_bytes: int | None, max_age_ms: int | None, now_ns: int
) -> list[_Group]:
    """The groups to remove, oldest first."""
    total = sum(group.bytes for group in groups)
    due: list[_Group] = []
    kept_logs: set[Path] = set()
    for group in sorted(groups, key=lambda group: group.newest_ns):
        too_much = max_bytes is not None and total > max_bytes
        too_old = max_age_ms is not None and now_ns - group.newest_ns > max_age_ms * 1_000_000
        if group.removable and group.log not in kept_logs and (too_much or too_old):
            due.append(group)
            total -= group.bytes
        else:
            # Keep the rest of a log if an earlier part is kept.
            kept_logs.add(group.log)
    return due


def _groups(log: Path, own: Path | None, is_held: Callable[[Path], bool]) -> list[_Group]:
    is_own = own is not None and log.samefile(own)
    living = folders.is_being_written(log)
    if living and not is_own:
        return []
    segments = folders.segments_in(log)
    taken = snapshots.names_in(log)
    starts = {name.seq + 1 for name in taken}
    groups: list[_Group] = []
    members: list[Path] = []
    for position, segment in enumerate(segments):
        members.append(segment)
        is_last = position + 1 == len(segments)
        if not is_last and folders.first_seq_of(segments[position + 1]) not in starts:
            continue
        # A segment's files: the segment, SQLite's files, its index, and the snapshots before its
        # end.
        end = None if is_last else folders.first_seq_of(segments[position + 1]) - 1
        passed = [name.path for name in taken if end is None or name.seq < end]
        taken = [name for name in taken if name.path not in passed]
        try:
            newest_ns = _newest_ns(segment)
        except LogError:
            return groups
        files = [file for member in members for file in _files_of(member)] + passed
        size = sum(file.stat().st_size for file in files)
        removable = not (is_last and living) and not any(map(is_held, members))
        groups.append(_Group(log, files, size, newest_ns, removable, is_last))
        members = []
    return groups


def _files_of(segment: Path) -> list[Path]:
    adjacent = [segment.with_name(segment.name + suffix) for suffix in ("-wal", "-shm")]
    return [file for file in (segment, *adjacent, index_path(segment)) if file.exists()]


def _newest_ns(segment: Path) -> int:
    with open_segment(segment) as opened:
        rows = opened.query("select wall_ns from events order by seq desc limit 1")
        return int(rows[0][0]) if rows else opened.header.created_ns


def _remove(group: _Group) -> None:
    """Remove the oldest files first, so that the rest is a valid log after a crash."""
    for file in group.files:
        file.unlink(missing_ok=True)
    if group.is_last:
        for name in (folders.LOCK_NAME, folders.MIRRORED_NAME):
            (group.log / name).unlink(missing_ok=True)
        # The folder is kept if it contains other files.
        with suppress(OSError):
            group.log.rmdir()
