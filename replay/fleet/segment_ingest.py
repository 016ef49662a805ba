"""Reading one segment as batches, with each record checked against the checksum chains."""

from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from eventstore import chain
from eventstore.chain import CHAIN_BYTES, Row
from eventstore.errors import PUT_A_COPY, LogCorrupt
from eventstore.records import Tip
from eventstore.segment import Segment, open_segment
from replay.fleet.columns import STORED, Batches, Origin
from replay.fleet.manifest import KnownRecords
from replay.fleet.segments import segment_id, stored_clocks
from replay.fleet.stored_pages import StoredPages

OnBatch = Callable[[pa.RecordBatch], None]

_NO_CLOCKS: Final = pa.schema([STORED.field("wall_ns"), STORED.field("mono_ns")]).empty_table()
_encode: Final = msgspec.msgpack.Encoder().encode


class IngestedPart(Struct):
    """The ingested part of a segment; the fields are those of table.INGESTED."""

    unit: str
    cluster: str
    log: str
    header: str
    first_seq: int
    from_seq: int
    last_seq: int
    events: int
    commands: int
    last_command: int
    event_chain: bytes
    command_chain: bytes
    is_closed: bool

    @property
    def has_news(self) -> bool:
        """Whether there were new records."""
        return bool(self.events or self.commands)

    def row(self) -> dict[str, Any]:
        """The fields as a row of the manifest."""
        return msgspec.structs.asdict(self)


def ingest_segment(
    path: Path, known: KnownRecords | None, cluster: str, log: str, on_batch: OnBatch
) -> IngestedPart:
    """Pass the records of a segment that follow the known ones to `on_batch`. A daemon may be
    writing the segment.

    Raises LogCorrupt if the checksum chain breaks, also where known records were changed, and
    LogError.
    """
    with open_segment(path) as segment, StoredPages(segment) as pages:
        return _SegmentReader(segment, pages, known, Origin(cluster, log), on_batch).read()


def require_copy(path: Path, other: Path) -> None:
    """Check that the segment `other`, which has no more records than `path` and the same header,
    has the first records of it. Raises LogCorrupt."""
    with open_segment(path) as segment, open_segment(other) as copy:
        last = {"events": ("seq", copy.last_seq()), "commands": ("rowid", copy.command_count())}
        for table, (column, number) in last.items():
            sql = f"select chain from {table} where {column} = {number:d}"
            chains = {one for segment in (segment, copy) for (one,) in segment.query(sql)}
            if len(chains) > 1:
                text = f"has the header of {path}, but other records: ingest it into another table"
                raise LogCorrupt(other, text)


class _SegmentReader:
    def __init__(
        self,
        segment: Segment,
        pages: StoredPages,
        known: KnownRecords | None,
        origin: Origin,
        on_batch: OnBatch,
    ) -> None:
        self._segment = segment
        self._pages = pages
        self._origin = origin
        self._batches = Batches(STORED, origin, decodes=False)
        self._on_batch = on_batch
        start = chain.start(segment.header, segment.header_body)
        self._commands_before = start.commands
        self._known = known or KnownRecords(
            start.last_seq, 0, start.event_chain, start.command_chain
        )
        self._clocks: list[pa.Table] = []

    def read(self) -> IngestedPart:
        """Read all new records. The positions are read in this order so that they are consistent
        while the log grows."""
        segment, known = self._segment, self._known
        closing = segment.closing
        last_command = segment.command_count()
        last_seq = segment.last_seq()
        if last_seq < known.last_seq or last_command < known.last_command:
            text = "has fewer records than when it was ingested: restore the complete file"
            raise LogCorrupt(segment.path, text)
        event_chain = self._events(known.last_seq, last_seq)
        command_chain = self._commands(known.last_command, last_command)
        commands = self._commands_before + last_command
        tip = Tip(last_seq, commands, event_chain, command_chain)
        if closing is not None and closing.tip != tip:
            text = "records are missing at its end, or were added: " + PUT_A_COPY
            raise LogCorrupt(segment.path, text, "closing record")
        return IngestedPart(
            segment_id(segment),
            *self._origin,
            segment.header_body.decode(),
            segment.header.first_seq,
            known.last_seq + 1,
            last_seq,
            last_seq - known.last_seq,
            last_command - known.last_command,
            last_command,
            event_chain,
            command_chain,
            closing is not None,
        )

    def _commands(self, after: int, last: int) -> bytes:
        previous = self._known.command_chain
        clocks = _Clocks(self._segment, self._known.last_seq + 1, self._clocks)
        for columns in self._pages.commands(after, last):
            previous = self._follow("command", previous, columns)
            self._on_batch(self._batches.command_page(columns, clocks.clocks_of))
        return previous

    def _events(self, after: int, last: int) -> bytes:
        previous, expected = self._known.event_chain, after + 1
        for columns in self._pages.events(after, last):
            seqs = columns[0]
            size = len(seqs)
            if seqs[0].as_py() != expected or seqs[-1].as_py() != expected + size - 1:
                pairs = enumerate(seqs.to_pylist(), expected)
                missing = next(number for number, seq in pairs if seq != number)
                raise LogCorrupt(
                    self._segment.path, f"it is missing: {PUT_A_COPY}", f"event {missing}"
                )
            previous = self._follow("event", previous, columns)
            expected += size
            batch = self._batches.event_page(columns)
            self._clocks.append(pa.table(batch.select(_NO_CLOCKS.schema.names)))
            self._on_batch(batch)
        return previous

    def _follow(self, what: str, previous: bytes, columns: list[pa.Array]) -> bytes:
        """The chain value at the end of a page. Raises LogCorrupt."""
        try:
            *fields, chains = (column.to_pylist() for column in columns)
        except UnicodeDecodeError as error:
            raise self._pages.damage(what, f"cannot be read ({error}): {PUT_A_COPY}") from None
        begin = blake2b(digest_size=CHAIN_BYTES).copy
        # This is chain.link inlined: it runs for each of millions of rows.
        for row, link in zip(zip(*fields, strict=True), chains, strict=True):
            following = begin()
            following.update(previous + _encode(row))
            previous = following.digest()
            if previous != link:
                text = f"it was changed, moved or inserted, or its predecessor was: {PUT_A_COPY}"
                raise LogCorrupt(self._segment.path, text, f"{what} {row[0]}")
        return previous


class _Clocks:
    """The clocks of the events that were read, numbered from `first`, for the commands that they
    caused. Reading them from the log again would take a tenth of an ingest."""

    def __init__(self, segment: Segment, first: int, read: list[pa.Table]) -> None:
        self._segment = segment
        self._first = first
        self._read = pa.concat_tables([_NO_CLOCKS, *read]).combine_chunks()

    def clocks_of(self, numbers: pa.Array) -> tuple[pa.Array, pa.Array]:
        """The wall and monotonic clocks of events."""
        places = pc.subtract(numbers, self._first)
        bounds = pc.min_max(places)
        if bounds["min"].as_py() < 0 or bounds["max"].as_py() >= len(self._read):
            # Commands that were stored late may belong to events of an earlier ingest.
            return stored_clocks(self._segment, numbers)
        found = self._read.take(places)
        return found["wall_ns"].chunk(0), found["mono_ns"].chunk(0)


def all_events(segment: Path) -> Iterator[list[Row]]:
    """The pages of a segment's events. Raises LogError."""
    with open_segment(segment) as opened:
        yield from opened.event_rows()
