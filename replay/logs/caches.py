"""Files next to the segments of a log that can be made again: snapshots, and what was found in the
log. They are used only for the log and the code that they were made of."""

import os
from pathlib import Path

import msgspec

from controller.fingerprint import source_fingerprint
from eventstore import folders
from eventstore.reader import LogReader
from eventstore.segment import open_segment


def keeps_caches(path: Path) -> bool:
    """Whether such files may be stored in a log's folder: not while a daemon writes there."""
    return path.is_dir() and os.access(path, os.W_OK) and not folders.is_being_written(path)


def stamp_of(reader: LogReader, format: int) -> str:
    """Names the content of a log, the code that reads it, and the format of a cache. Raises
    LogError."""
    parts: list[object] = [format, source_fingerprint("controller.core", "replay")]
    for path in reader.segments:
        for file in (path, folders.write_ahead_log(path)):
            if file.exists():
                found = file.stat()
                parts += [file.name, found.st_size, found.st_mtime_ns]
    with open_segment(reader.segments[-1]) as last:
        parts.append(last.header_body.decode())
        for table in ("events", "commands"):
            rows = last.query(f"select rowid, chain from {table} order by rowid desc limit 1")
            parts += [(number, bytes(value or b"").hex()) for number, value in rows]
    return msgspec.json.encode(parts).decode()
