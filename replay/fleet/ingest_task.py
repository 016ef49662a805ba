"""Ingest on an executor: survey an input, and write its records to the files of the table.

A unit is a segment with its copies, an archive of logs, or all captures of a stock cluster. A unit
that cannot be read does not affect the others: its row contains the reason, and none of its records
are kept.
"""

import lzma
import shutil
import tarfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa

from eventstore import chain, folders
from eventstore.segment import open_segment
from replay.errors import ReplayError
from replay.fleet.day_files import DayFiles
from replay.fleet.errors import OutputError, reason_of
from replay.fleet.inputs import Kind
from replay.fleet.manifest import INGESTED, KnownRecords, known_records_of, name_of_log
from replay.fleet.read_ahead import with_read_ahead
from replay.fleet.segment_ingest import ingest_segment, require_copy
from replay.fleet.segments import log_name, segment_id
from replay.fleet.stock_ingest import StockIngest, capture_of
from replay.garbage_collection import paused_garbage_collection

INPUTS: Final = pa.schema([("kind", pa.string()), ("path", pa.string()), ("size", pa.int64())])
"""The inputs that the driver lists."""

SURVEYED: Final = pa.schema(
    [
        *INPUTS,
        ("place", pa.string()),
        ("folder", pa.string()),
        ("unit", pa.string()),
        ("cluster", pa.string()),
        ("log", pa.string()),
        ("last_seq", pa.int64()),
        ("last_command", pa.int64()),
        ("before", pa.binary()),
        ("container", pa.string()),
        ("reason", pa.string()),
    ]
)
"""The result of surveying an input. Of a segment: the folder that it is in and the name of that
folder, its id, its log, its last event and command, and the event chain of the segment `before`. Of
an archive or a stock cluster's folder: `container`, which changes when its content changes."""

_CAPTURE: Final = pa.struct(
    [
        ("path", pa.string()),
        ("first_zxid", pa.int64()),
        ("last_zxid", pa.int64()),
        ("container", pa.string()),
    ]
)

IDENTIFIED: Final = pa.schema(
    [
        *INPUTS,
        ("container", pa.string()),
        ("cluster", pa.string()),
        ("capture", _CAPTURE),
        ("reason", pa.string()),
    ]
)
"""The content of a changed archive or folder. Kind ARCHIVE: the logs of daemons. Kind STOCK: the
data of a stock cluster with its first and last transaction.
"""

UNITS: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("folder", pa.string()),
        ("unit", pa.string()),
        ("cluster", pa.string()),
        ("log", pa.string()),
        ("containers", pa.list_(pa.field("element", pa.string()))),
        ("copies", pa.list_(pa.field("element", pa.string()))),
        ("captures", pa.list_(pa.field("element", _CAPTURE))),
        ("known", pa.struct([("last_seq", pa.int64()), ("last_command", pa.int64()),
                             ("event_chain", pa.binary()), ("command_chain", pa.binary())])),
    ]
)  # fmt: skip
"""The data to ingest. Of a segment: its `copies`, those with most records first, and how much of it
the table contains (`known`).
"""

OWN_FILES_BYTES: Final = 64 << 20
"""A larger segment is written to its own files, which are deleted if the segment is damaged."""

Row = dict[str, Any]
Values = tuple[Any, ...]


def survey(rows: Iterable[Any]) -> Iterator[Values]:
    """Map rows of INPUTS to rows of SURVEYED: opens segments and lists folders, unpacks nothing."""
    for row in rows:
        entry = row.asDict()
        yield _values({**entry, **_survey_input(entry)}, SURVEYED)


def identify(rows: Iterable[Any]) -> Iterator[Values]:
    """Map rows of SURVEYED of archives and folders to rows of IDENTIFIED: reads transactions."""
    for row in rows:
        entry = row.asDict()
        yield _values({**entry, **_identify(entry)}, IDENTIFIED)


def ingest_units(
    rows: Iterable[Any], table: Path, files: Path, replacing: frozenset[str] = frozenset()
) -> Iterator[Values]:
    """Map rows of UNITS to rows of INGESTED and write the records to the folder `files`. Captures
    with a path in `replacing` replace what the table has of the same transactions. Raises
    OutputError."""
    task = Task(table, files, replacing)
    with paused_garbage_collection():
        for row in with_read_ahead(rows, lambda row: Path(row.path)):
            for ingested in task.ingest(row.asDict(recursive=True)):
                yield _values(ingested, INGESTED)
        task.shared.close()


def _values(row: Row, schema: pa.Schema) -> Values:
    return tuple(row.get(name) for name in schema.names)


class Task:
    """Ingests the units of one task. Small segments share files, which are complete when the task
    ends."""

    def __init__(self, table: Path, files: Path, replacing: frozenset[str] = frozenset()) -> None:
        self.shared = DayFiles(files, uuid.uuid4().hex)
        self._table = table
        self._files = files
        self._replacing = replacing

    def ingest(self, unit: Row) -> list[Row]:
        """Rows of INGESTED for a unit: one for each segment with new records, and the reasons why
        inputs are set aside. Raises OutputError."""
        try:
            match unit["kind"]:
                case Kind.SEGMENT:
                    return list(self._copies(unit))
                case Kind.STOCK:
                    stock = StockIngest(self._table, self._files, unit["cluster"], self._replacing)
                    return [{**unit, **found} for found in stock.ingest(unit["captures"])]
                case _:
                    return [{**unit, **found} for found in self._archive(unit)]
        except OutputError:
            raise
        except Exception as error:  # a damaged log must not affect the others
            return [{**unit, "reason": reason_of(error)}]

    def _copies(self, unit: Row) -> Iterator[Row]:
        """Ingest the first copy of a segment that is sound; the others must agree with it."""
        known = None if unit["known"] is None else KnownRecords(**unit["known"])
        copies = [*map(Path, unit["copies"])]
        for number, path in enumerate(copies, 1):
            sink = Sink(self.shared, DayFiles(self._files, uuid.uuid4().hex), unit["cluster"])
            try:
                with sink:
                    found = ingest_segment(path, known, unit["cluster"], unit["log"], sink.add)
            except OutputError:
                raise
            except Exception as error:  # a changed copy must not hide a sound one
                yield {**unit, "path": str(path), "reason": reason_of(error)}
            else:
                yield {**unit, **found.row(), "path": str(path), "token": sink.token}
                yield from self._set_aside_others(unit, path, copies[number:])
                return

    def _set_aside_others(self, unit: Row, read: Path, others: Sequence[Path]) -> Iterator[Row]:
        """Set aside those that are no copies of the segment that was read."""
        for path in others:
            try:
                require_copy(read, path)
            except Exception as error:  # as above
                yield {**unit, "path": str(path), "reason": reason_of(error)}

    def _archive(self, unit: Row) -> Iterator[Row]:
        """Ingest the segments of an archive."""
        path = Path(unit["path"])
        with TemporaryDirectory(prefix="refold-fleet-") as scratch:
            for number, segment in enumerate(_unpack_segments(path, Path(scratch))):
                files = DayFiles(self._files, uuid.uuid4().hex)
                about = {"path": f"{path}#{number + 1}", "folder": _folder_name(segment)}
                try:
                    with open_segment(segment) as opened:
                        origin, name = log_name(opened), segment_id(opened)
                        before = opened.header.predecessor
                    about["unit"] = name
                    end = b"" if before is None else before.event_chain
                    log = name_of_log(self._table, origin.cluster, [name], end) or origin.log
                    with Sink(None, files, origin.cluster) as sink:
                        known = known_records_of(self._table, name)
                        found = ingest_segment(segment, known, origin.cluster, log, sink.add)
                except OutputError:
                    raise
                except Exception as error:  # a damaged segment must not affect the others
                    yield {**about, "reason": reason_of(error).replace(str(segment), segment.name)}
                else:
                    if found.has_news:
                        yield {**found.row(), **about, "token": files.token}


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
            before = segment.header.predecessor
            return {
                "place": str(path.parent),
                "folder": _folder_name(path),
                "unit": segment_id(segment),
                "cluster": origin.cluster,
                "log": origin.log,
                "last_command": segment.command_count(),
                "last_seq": segment.last_seq(),
                "before": None if before is None else before.event_chain,
            }
    except Exception as error:  # a damaged log must not affect the others
        return {"reason": reason_of(error)}


def _folder_name(segment: Path) -> str:
    return segment.parent.name


def _identify(row: Row) -> Row:
    path = Path(row["path"])
    try:
        if row["kind"] == Kind.ARCHIVE and _has_segments(path):
            return {"kind": Kind.ARCHIVE.value}
        cluster, capture = capture_of(path)
        return {
            "kind": Kind.STOCK.value,
            "cluster": cluster,
            "capture": (capture.path, capture.first_zxid, capture.last_zxid, row["container"]),
        }
    except Exception as error:  # an input that cannot be read must not affect the others
        return {"reason": reason_of(error)}


def _content_stamp(path: Path) -> str:
    """A text that changes when the file changes, or a file in the folder."""
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    entries = [f"{one.relative_to(path)} {(at := one.stat()).st_size} {at.st_mtime_ns}"
            for one in files]  # fmt: skip
    return f"{path} {chain.checksum(chr(10).join(entries).encode(errors='replace')).hex()}"


def _has_segments(archive: Path) -> bool:
    """Whether an archive contains segments, as far as it can be read."""
    with suppress(ReplayError), _errors_of(archive), tarfile.open(archive) as tar:
        return any(folders.is_segment(Path(one.name)) for one in tar)
    return False


@contextmanager
def _errors_of(archive: Path) -> Iterator[None]:
    try:
        yield
    except tarfile.ReadError as error:
        reason = "it is not a tar archive, or its beginning is damaged"
        if not str(error).startswith("file could not be opened"):
            reason = str(error)
        raise ReplayError(f"{archive} cannot be unpacked: {reason}") from None
    except (tarfile.TarError, lzma.LZMAError, OSError, EOFError) as error:
        raise ReplayError(f"{archive} cannot be unpacked: {error}") from None


def _unpack_segments(archive: Path, folder: Path) -> list[Path]:
    """Unpack the segments of an archive into one folder per log. Raises ReplayError."""
    segments: list[Path] = []
    places: dict[PurePosixPath, Path] = {}
    with _errors_of(archive), tarfile.open(archive) as tar:
        for member in tar:
            name = PurePosixPath(member.name)
            is_wanted = folders.is_segment(Path(name.name.removesuffix("-wal")))
            content = tar.extractfile(member) if is_wanted and member.isreg() else None
            if content is None:
                continue
            place = places.setdefault(
                name.parent, folder / str(len(places)) / (name.parent.name or archive.name)
            )
            place.mkdir(parents=True, exist_ok=True)
            with (place / name.name).open("wb") as target:
                shutil.copyfileobj(content, target)
            if folders.is_segment(place / name.name):
                segments.append(place / name.name)
    return segments
