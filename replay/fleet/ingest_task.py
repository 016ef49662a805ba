"""Ingest on an executor: survey an input, and write its records to the files of the table.

A unit is a segment, an archive, or the folder of a stock cluster. A unit that cannot be read does
not affect the others: its row contains the reason, and none of its records are kept.
"""

import shutil
import tarfile
import uuid
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa

from eventstore import chain, folders
from eventstore.segment import open_segment
from replay.collector import paused_collector
from replay.errors import ReplayError
from replay.fleet.day_files import DayFiles
from replay.fleet.errors import OutputError, reason_of
from replay.fleet.inputs import Kind
from replay.fleet.read_ahead import with_read_ahead
from replay.fleet.segment_ingest import ingest_segment
from replay.fleet.segments import log_name, segment_id
from replay.fleet.stock_ingest import ingest_stock
from replay.fleet.table import INGESTED, Known, known_of

INPUTS: Final = pa.schema([("kind", pa.string()), ("path", pa.string()), ("size", pa.int64())])
"""The inputs that the driver lists."""

SURVEYED: Final = pa.schema(
    [
        *INPUTS,
        ("folder", pa.string()),
        ("unit", pa.string()),
        ("cluster", pa.string()),
        ("log", pa.string()),
        ("last_seq", pa.int64()),
        ("last_command", pa.int64()),
        ("container", pa.string()),
        ("reason", pa.string()),
    ]
)
"""The result of surveying an input. Of a segment: its id, its log, and its last event and command.
Of an archive or a stock cluster's folder: `container`, which changes when its content changes."""

UNITS: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("unit", pa.string()),
        ("cluster", pa.string()),
        ("log", pa.string()),
        ("container", pa.string()),
        ("known", pa.struct([("last_seq", pa.int64()), ("last_command", pa.int64()),
                             ("event_chain", pa.binary()), ("command_chain", pa.binary())])),
    ]
)  # fmt: skip
"""What is to be ingested; `known` says how much of a segment the table contains."""

OWN_FILES_BYTES: Final = 64 << 20
"""A larger segment is written to its own files, which are deleted if the segment is damaged."""

Row = dict[str, Any]
Values = tuple[Any, ...]


def survey(rows: Iterable[Any]) -> Iterator[Values]:
    """Map rows of INPUTS to rows of SURVEYED: opens segments and lists folders, unpacks nothing."""
    for row in rows:
        entry = row.asDict()
        yield _values({**entry, **_survey_input(entry)}, SURVEYED)


def ingest_units(rows: Iterable[Any], table: Path, files: Path) -> Iterator[Values]:
    """Map rows of UNITS to rows of INGESTED and write the records to the folder `files`. Raises
    OutputError."""
    task = Task(table, files)
    with paused_collector():
        for row in with_read_ahead(rows, lambda row: Path(row.path)):
            for ingested in task.ingest(row.asDict(recursive=True)):
                yield _values(ingested, INGESTED)
        task.shared.close()


def _values(row: Row, schema: pa.Schema) -> Values:
    return tuple(row.get(name) for name in schema.names)


class Task:
    """Ingests the units of one task. Small segments share files, which are complete when the task
    ends."""

    def __init__(self, table: Path, files: Path) -> None:
        self.shared = DayFiles(files, uuid.uuid4().hex)
        self._table = table
        self._files = files

    def ingest(self, unit: Row) -> list[Row]:
        """Rows of INGESTED for a unit: one for each segment with new records, or the reason why the
        unit is set aside. Raises OutputError."""
        try:
            if unit["kind"] == Kind.SEGMENT:
                known = None if unit["known"] is None else Known(**unit["known"])
                found = self._segment(Path(unit["path"]), known, unit["cluster"], unit["log"])
                return [{**unit, **found}]
            return [{**unit, **found} for found in self._container(unit)]
        except OutputError:
            raise
        except Exception as error:  # a damaged log must not affect the others
            return [{**unit, "reason": reason_of(error)}]

    def _segment(self, path: Path, known: Known | None, cluster: str, log: str) -> Row:
        sink = Sink(self.shared, DayFiles(self._files, uuid.uuid4().hex), cluster)
        with sink:
            found = ingest_segment(path, known, cluster, log, sink.add)
        return {**found.row(), "token": sink.token}

    def _container(self, unit: Row) -> Iterator[Row]:
        """Ingest the segments of an archive, or import the data of a stock cluster."""
        path = Path(unit["path"])
        with TemporaryDirectory(prefix="refold-fleet-") as folder:
            segments = _unpacked(path, Path(folder)) if unit["kind"] == Kind.ARCHIVE else []
            if not segments:
                yield from self._stock(path, Path(folder))
            for number, segment in enumerate(segments):
                with open_segment(segment) as opened:
                    origin, name = log_name(opened), segment_id(opened)
                known = known_of(self._table, name)
                files = DayFiles(self._files, uuid.uuid4().hex)
                with Sink(None, files, origin.cluster) as sink:
                    found = ingest_segment(segment, known, *origin, sink.add)
                place = f"{path}#{number + 1}"
                if found.has_news:
                    yield {**found.row(), "path": place, "token": files.token}

    def _stock(self, path: Path, folder: Path) -> Iterator[Row]:
        files = DayFiles(self._files, uuid.uuid4().hex)
        try:
            known = partial(known_of, self._table)
            found = ingest_stock(path, folder / "log", known, files.add)
        except BaseException:
            files.discard()
            raise
        files.close()
        if found.has_news:
            yield {**found.row(), "token": files.token}


class Sink:
    """Holds back the batches of one segment until the whole segment was checked: a few batches in
    memory, more in separate files."""

    def __init__(self, shared: DayFiles | None, own: DayFiles, cluster: str) -> None:
        self._shared = shared
        self._own = own
        self._cluster = cluster
        self._kept: list[pa.RecordBatch] = []
        self._bytes = 0

    @property
    def token(self) -> str:
        """The token of the files that contain the records."""
        return self._own.token if self._shared is None else self._shared.token

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch. Raises OutputError."""
        self._kept.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= OWN_FILES_BYTES:
            self._shared = None
            self._write_to(self._own)

    def _write_to(self, files: DayFiles) -> None:
        for batch in self._kept:
            files.add(self._cluster, batch)
        self._kept, self._bytes = [], 0

    def __enter__(self) -> "Sink":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._own.discard()
            return
        self._write_to(self._shared or self._own)
        self._own.close()


def _survey_input(row: Row) -> Row:
    path = Path(row["path"])
    try:
        if row["kind"] != Kind.SEGMENT:
            return {"container": _content_stamp(path)}
        with open_segment(path) as segment:
            origin = log_name(segment)
            return {
                "folder": str(path.parent),
                "unit": segment_id(segment),
                "cluster": origin.cluster,
                "log": origin.log,
                "last_command": segment.command_count(),
                "last_seq": segment.last_seq(),
            }
    except Exception as error:  # a damaged log must not affect the others
        return {"reason": reason_of(error)}


def _content_stamp(path: Path) -> str:
    """A text that changes when the file changes, or a file in the folder."""
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    entries = [f"{one.relative_to(path)} {(at := one.stat()).st_size} {at.st_mtime_ns}"
            for one in files]  # fmt: skip
    return f"{path} {chain.checksum(chr(10).join(entries).encode(errors='replace')).hex()}"


def _unpacked(archive: Path, folder: Path) -> list[Path]:
    """Unpack the segments of an archive into one folder per log. Returns no segments if the archive
    has none. Raises ReplayError."""
    segments: list[Path] = []
    places: dict[PurePosixPath, Path] = {}
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = PurePosixPath(member.name)
                is_wanted = folders.is_segment(Path(name.name.removesuffix("-wal")))
                content = tar.extractfile(member) if is_wanted and member.isreg() else None
                if content is None:
                    continue
                place = places.setdefault(name.parent, folder / f"log-{len(places)}")
                place.mkdir(exist_ok=True)
                with (place / name.name).open("wb") as target:
                    shutil.copyfileobj(content, target)
                if folders.is_segment(place / name.name):
                    segments.append(place / name.name)
    except tarfile.ReadError as error:
        reason = "it is not a tar archive, or its beginning is damaged"
        if not str(error).startswith("file could not be opened"):
            reason = str(error)
        raise ReplayError(f"{archive} cannot be unpacked: {reason}") from None
    except (tarfile.TarError, OSError, EOFError) as error:
        raise ReplayError(f"{archive} cannot be unpacked: {error}") from None
    return segments
