"""Writing a log from the table's stored columns, segment by segment, on an executor.

The records of a daemon's log are chained again from the header on. The result has to have the
checksums in the manifest, otherwise the log is rejected. An imported log has no checksums to
compare with.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, structs
from pyarrow import dataset

from eventstore import schema
from eventstore.records import Closing, CommandRecord, EventRecord, Header
from eventstore.restoring import RestoredSegment
from replay.errors import ReplayError
from replay.fleet.columns import COMMAND, EVENT, EVENT_COLUMNS, STORED
from replay.fleet.day_files import escaped
from replay.stock_clusters.imported_log.encoding import SCHEMAS

_IMPORT_ENDED: Final = "import_ended"
_EVENTS_AT_ONCE: Final = 50_000
_APPENDED: Final = 5000
_COMMAND_COLUMNS: Final = (
    "seq", "ordinal", "term", "kind", "target", "reason_stored", "digest", "stored",
)  # fmt: skip


class StoredSegment(Struct, frozen=True):
    """A segment in the manifest: its header, and its last record. `import_ended` is the last event
    of an imported log, which the table does not contain."""

    header: str
    first_seq: int
    last_seq: int
    commands: int
    event_chain: bytes
    command_chain: bytes
    is_closed: bool
    import_ended: bytes | None = None


class StoredLog(Struct, frozen=True):
    """A log in the table. `tokens` begin the names of the files that contain its records."""

    cluster: str
    log: str
    kind: str
    segments: tuple[StoredSegment, ...]
    tokens: tuple[str, ...]

    @property
    def events(self) -> int:
        """The number of events."""
        return sum(one.last_seq - one.first_seq + 1 for one in self.segments)


def rebuild(
    table: Path,
    stored: StoredLog,
    folder: Path,
    pieces: slice = slice(None),
    core: str | None = None,
) -> Path:
    """Write the log, or some of its segments, to the new folder.

    With `core`, this fingerprint replaces the one in the headers, and checksums are not compared. A
    segment that is not the log's last gets a closing record, so that all of its commands are
    required.

    Raises ReplayError if the records are not those that were ingested, LogError.
    """
    folder.mkdir()
    records = _Records(table, stored)
    _check_gaps(stored)
    last = stored.segments[-1]
    chosen = stored.segments[pieces]
    of_commands = records.commands(chosen[0].first_seq, chosen[-1].last_seq)
    for segment in chosen:
        header = segment.header.encode()
        if core is not None:
            known = structs.replace(msgspec.json.decode(header, type=Header), core_fingerprint=core)
            header = schema.document(known)
        with RestoredSegment(folder, header, stored.log, is_durable=False) as made:
            last_event = _append_events(made, records, segment)
            commands = (CommandRecord(*row) for row in islice(of_commands, segment.commands))
            while some := list(islice(commands, _APPENDED)):
                made.append((), some)
            if core is None:
                _check(made, segment, stored)
            if segment.import_ended is not None and last_event is not None:
                made.append([_import_ended(last_event, segment.import_ended)], ())
            if segment.is_closed or (len(chosen) == 1 and segment is not last):
                made.end(schema.document(Closing(_closed_ns(made.header), made.tip)))
    return folder


def _import_ended(last: EventRecord, payload: bytes) -> EventRecord:
    """The last event of an imported log, after the last one in the table."""
    return last._replace(
        seq=last.seq + 1,
        kind=_IMPORT_ENDED,
        schema=SCHEMAS[_IMPORT_ENDED],
        channel="import",
        origin="exogenous",
        cause=None,
        payload=payload,
    )


def _append_events(
    made: RestoredSegment, records: "_Records", segment: StoredSegment
) -> EventRecord | None:
    """Append the events of a segment; returns the last one."""
    last: EventRecord | None = None
    events = (EventRecord(*row) for row in records.events(segment.first_seq, segment.last_seq))
    while some := list(islice(events, _APPENDED)):
        made.append(some, ())
        last = some[-1]
    return last


def _closed_ns(header: Header) -> int:
    """The time in a closing record: that of the log's creation, because the table does not contain
    the time at which the log was closed."""
    return header.created_ns


def _check_gaps(stored: StoredLog) -> None:
    for before, after in zip(stored.segments, stored.segments[1:], strict=False):
        if after.first_seq != before.last_seq + 1:
            raise ReplayError(
                f"events {before.last_seq + 1} to {after.first_seq - 1} are not in the table:"
                " ingest the complete log"
            )


def _check(made: RestoredSegment, segment: StoredSegment, stored: StoredLog) -> None:
    tip = made.tip
    is_whole = tip.last_seq == segment.last_seq
    if stored.kind == "recorded":
        chains = (tip.event_chain, tip.command_chain)
        is_whole = is_whole and chains == (segment.event_chain, segment.command_chain)
    if not is_whole:
        raise ReplayError(
            f"events {segment.first_seq} to {segment.last_seq}: the table does not have the records"
            " that were ingested: files are missing or were changed; ingest the log into a new"
            " folder"
        )


class _Records:
    """The rows of one log in order, a few at a time."""

    def __init__(self, table: Path, stored: StoredLog) -> None:
        days = f"batch=*/cluster={escaped(stored.cluster)}/date=*/*.parquet"
        tokens = frozenset(stored.tokens)
        files = [
            str(file)
            for file in sorted((table / "records").glob(days))
            if file.name.rpartition("-")[0] in tokens
        ]
        self._log = stored.log
        self._rows: Any = dataset.dataset(files, STORED, format="parquet", partitioning=None)

    def events(self, first: int, last: int) -> Iterator[tuple[Any, ...]]:
        """The fields of EventRecord. Raises ReplayError."""
        return self._read_rows(EVENT, EVENT_COLUMNS, first, last)

    def commands(self, first: int, last: int) -> Iterator[tuple[Any, ...]]:
        """The fields of CommandRecord. Raises ReplayError."""
        return self._read_rows(COMMAND, _COMMAND_COLUMNS, first, last)

    def _read_rows(
        self, record: str, columns: Sequence[str], first: int, last: int
    ) -> Iterator[tuple[Any, ...]]:
        order = [("seq", "ascending")]
        if record == COMMAND:
            order.append(("ordinal", "ascending"))
        of_log = (pc.field("log") == self._log) & (pc.field("record") == record)
        for start in range(first, last + 1, _EVENTS_AT_ONCE):
            end = min(start + _EVENTS_AT_ONCE - 1, last)
            within = (pc.field("seq") >= start) & (pc.field("seq") <= end)
            try:
                found = self._rows.to_table(columns=list(columns), filter=of_log & within)
            except (OSError, pa.ArrowException) as error:
                raise ReplayError(f"the table cannot be read: {error}") from None
            rows = found.sort_by(order)
            yield from zip(*(column.to_pylist() for column in rows.columns), strict=True)
