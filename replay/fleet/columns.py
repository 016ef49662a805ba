"""The table of records: its columns, and the conversion of pages of a segment to Arrow batches.

The table has one row per event and one per command. The columns in `STORED` are copied from the
log. The other columns are decoded from the payload (`decoded`), and only if a query requests them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import astuple

from controller.core.canonical import EVENT_SCHEMAS
from eventstore.errors import LogTooNew
from eventstore.records import EventRecord
from eventstore.upcasters import Upcasters
from replay.fleet import fact_columns
from replay.fleet.facts import PartitionFact
from replay.logs.older_events import UPCASTS
from replay.stock_clusters.imported_log.encoding import SCHEMAS

EVENT: Final = "event"
COMMAND: Final = "command"

_ISR: Final = pa.list_(pa.field("element", pa.int64()))
_PARTITION: Final = pa.struct(
    [
        ("topic", pa.string()),
        ("partition", pa.int64()),
        ("leader", pa.int64()),
        ("leader_epoch", pa.int64()),
        ("isr", _ISR),
        ("code", pa.string()),
    ]
)

RECORDS: Final = pa.schema(
    [
        ("cluster", pa.string()),
        ("log", pa.string()),
        ("record", pa.string()),
        ("seq", pa.int64()),
        ("ordinal", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
        ("wall_ns", pa.int64()),
        ("mono_ns", pa.int64()),
        ("term", pa.int64()),
        ("kind", pa.string()),
        ("schema", pa.int64()),
        ("channel", pa.string()),
        ("origin", pa.string()),
        ("cause", pa.int64()),
        ("target", pa.string()),
        ("rule", pa.string()),
        ("error", pa.int64()),
        ("path", pa.string()),
        ("broker", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int64()),
        ("leader", pa.int64()),
        ("leader_epoch", pa.int64()),
        ("isr", _ISR),
        ("partitions", pa.list_(pa.field("element", _PARTITION))),
        ("payload", pa.string()),
        ("reason", pa.string()),
        ("stored", pa.binary()),
        ("reason_stored", pa.binary()),
        ("digest", pa.binary()),
    ]
)
"""The columns; see docs/fleet-tables.md for their meaning."""

_OF_ONLY_PARTITION: Final = ("topic", "partition", "leader", "leader_epoch", "isr")
_OF_EVENTS_ONLY: Final = frozenset(("ordinal",))
"""The ordinal of an event is decoded: it says which command the event answers. The ordinal of a
command is stored."""
_FACT_COLUMNS: Final = (fact_columns.COLUMNS - _OF_EVENTS_ONLY) | {*_OF_ONLY_PARTITION}
_BYTES: Final = frozenset(("stored", "reason_stored", "digest"))
_IN_FOLDER: Final = "cluster"

EVENT_COLUMNS: Final = (
    "seq", "wall_ns", "mono_ns", "term", "kind", "schema", "channel", "origin", "cause", "stored",
)  # fmt: skip
"""The columns of an event, in the order of EventRecord's fields."""

STORED: Final = pa.schema(
    [field for field in RECORDS if field.name not in _FACT_COLUMNS | {_IN_FOLDER}]
)
"""The columns that are copied from the log. `cluster` is not among them: it is in the folder's
name."""

DECODED: Final = pa.schema([field for field in RECORDS if field.name not in _BYTES | {_IN_FOLDER}])
"""The columns that queries read."""

_UPCASTERS: Final = Upcasters({**EVENT_SCHEMAS, **SCHEMAS}, UPCASTS)
_KNOWN: Final = frozenset({**EVENT_SCHEMAS, **SCHEMAS}.items())
Rows = Sequence[tuple[Any, ...]]
"""Rows of one of the log's tables: its columns in order, with the chain value last."""

_PARTITION_NAMES: Final = [field.name for field in _PARTITION]
_NO_PARTITION: Final = (None,) * len(_PARTITION_NAMES)


class Origin(NamedTuple):
    """The cluster and the log that records belong to."""

    cluster: str
    log: str


Clocks = Callable[[pa.Array], tuple[pa.Array, pa.Array]]
"""Maps sequence numbers of events to their wall and monotonic clocks, in ns."""


def clocks_from(times: Mapping[int, tuple[int, int | None]]) -> Clocks:
    """Look clocks up in `times`, by sequence number; null for numbers that it does not contain."""

    def clocks_of(numbers: pa.Array) -> tuple[pa.Array, pa.Array]:
        found = [times.get(one, (None, None)) for one in numbers.to_pylist()]
        wall, mono = zip(*found, strict=True)
        return pa.array(wall, pa.int64()), pa.array(mono, pa.int64())

    return clocks_of


class Batches:
    """Makes batches with the columns of `schema`, which are columns of RECORDS in any order.
    Without `decodes` only the columns in STORED are filled."""

    def __init__(self, schema: pa.Schema, origin: Origin, *, decodes: bool = True) -> None:
        self.schema = schema
        self._origin = origin
        self._facts = _facts(schema) if decodes else frozenset[str]()

    def events(self, rows: Rows) -> pa.RecordBatch:
        """Convert a page of the events table."""
        columns = _by_column(rows)
        facts: fact_columns.Columns = {}
        if self._facts:
            kinds, schemas, payloads = columns[4], columns[5], columns[9]
            current = _current(kinds, schemas, payloads, lambda: (row[:-1] for row in rows))
            facts = fact_columns.event_columns(*current, self._facts)
        return self._batch(EVENT, len(rows), _of_events(columns), facts)

    def commands(self, rows: Rows, clocks_of: Clocks) -> pa.RecordBatch:
        """Convert a page of the commands table. A command has the clocks of its cause."""
        columns = _by_column(rows)
        facts: fact_columns.Columns = {}
        if self._facts:
            _, _, _, kinds, targets, reasons, _, bodies, _ = columns
            requested = self._facts - _OF_EVENTS_ONLY
            facts = fact_columns.command_columns(kinds, targets, reasons, bodies, requested)
        return self._batch(COMMAND, len(rows), _of_commands(columns, clocks_of), facts)

    def event_page(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Convert a page of the events table that is in columns, without decoding payloads."""
        return self._batch(EVENT, len(columns[0]), _of_events(columns), {})

    def command_page(self, columns: Sequence[pa.Array], clocks_of: Clocks) -> pa.RecordBatch:
        """Convert a page of the commands table that is in columns, without decoding bodies. A
        command has the clocks of its cause."""
        return self._batch(COMMAND, len(columns[0]), _of_commands(columns, clocks_of), {})

    def _batch(
        self, record: str, size: int, stored: Mapping[str, Any], facts: fact_columns.Columns
    ) -> pa.RecordBatch:
        columns: dict[str, Any] = {
            "record": pa.repeat(record, size),
            "cluster": pa.repeat(self._origin.cluster, size),
            "log": pa.repeat(self._origin.log, size),
            **stored,
            **_of_facts(facts),
        }
        if "time" in self.schema.names:
            columns["time"] = _times(stored["wall_ns"])
        return _filled_batch(self.schema, size, columns)


def _by_column(rows: Rows) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True))


def _of_events(columns: Sequence[Any]) -> dict[str, Any]:
    stored = dict(zip(EVENT_COLUMNS, columns[:-1], strict=True))
    return {**stored, "wall_ns": _int64(stored["wall_ns"])}


def _of_commands(columns: Sequence[Any], clocks_of: Clocks) -> dict[str, Any]:
    cause, ordinal, term, kind, target, reason, digest, body, _ = columns
    causes = _int64(cause)
    wall, mono = clocks_of(causes)
    return {
        "seq": causes,
        "ordinal": ordinal,
        "wall_ns": wall,
        "mono_ns": mono,
        "term": term,
        "kind": kind,
        "cause": causes,
        "target": target,
        "stored": body,
        "reason_stored": reason,
        "digest": digest,
    }


def _int64(column: Any) -> pa.Array:
    return column if isinstance(column, pa.Array) else pa.array(column, pa.int64())


def decode_batch(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Split a batch of STORED into its events and its commands, each with the columns of
    DECODED."""
    record = batch.column("record")
    events = batch.filter(pc.equal(record, EVENT))
    commands = batch.filter(pc.equal(record, COMMAND))
    parts = ((events, _event_facts), (commands, _command_facts))
    return [
        _filled_batch(DECODED, len(part), {**_columns_of(part), **_of_facts(facts_of(part))})
        for part, facts_of in parts
        if len(part)
    ]


def _event_facts(events: pa.RecordBatch) -> fact_columns.Columns:
    kinds, schemas, payloads = _lists(events, "kind", "schema", "stored")
    current = _current(kinds, schemas, payloads, lambda: _records(events))
    return fact_columns.event_columns(*current, _facts(DECODED))


def _records(events: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*_lists(events, *EVENT_COLUMNS), strict=True)


def _command_facts(commands: pa.RecordBatch) -> fact_columns.Columns:
    kinds, targets, reasons, bodies = _lists(commands, "kind", "target", "reason_stored", "stored")
    requested = _facts(DECODED) - _OF_EVENTS_ONLY
    return fact_columns.command_columns(kinds, targets, reasons, bodies, requested)


def _lists(batch: pa.RecordBatch, *names: str) -> list[list[Any]]:
    return [batch.column(name).to_pylist() for name in names]


def _columns_of(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _facts(schema: pa.Schema) -> frozenset[str]:
    """The decoded columns that these columns need."""
    requested = set(schema.names)
    if not requested.isdisjoint(_OF_ONLY_PARTITION):
        requested.add("partitions")
    return fact_columns.COLUMNS & requested


def _of_facts(facts: fact_columns.Columns) -> dict[str, Any]:
    """Decoded values as table columns."""
    partitions = facts.get("partitions")
    return {**facts} if partitions is None else {**facts, **_of_partitions(partitions)}


def _filled_batch(schema: pa.Schema, size: int, columns: Mapping[str, Any]) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        column = columns.get(field.name)
        if column is None:
            arrays.append(pa.nulls(size, field.type))
        elif isinstance(column, pa.Array):
            arrays.append(column if column.type == field.type else column.cast(field.type))
        else:
            arrays.append(pa.array(column, field.type))
    return pa.record_batch(arrays, schema=schema)


def _current(
    kinds: Sequence[str],
    schemas: Sequence[int],
    payloads: Sequence[bytes],
    records: Callable[[], Iterable[tuple[Any, ...]]],
) -> tuple[Sequence[str], Sequence[bytes]]:
    """Kinds and payloads of events in the current schema. Events with newer schemas stay unchanged.
    `records` is called only if there are events with older schemas; it returns the fields of
    EventRecord for each event."""
    if _KNOWN.issuperset(zip(kinds, schemas, strict=True)):
        return kinds, payloads
    current = [_upcast(EventRecord(*record)) for record in records()]
    return [one.kind for one in current], [one.payload for one in current]


def _upcast(event: EventRecord) -> EventRecord:
    try:
        return event if (event.kind, event.schema) in _KNOWN else _UPCASTERS.upcast(event, "")
    except LogTooNew:
        return event


def _of_partitions(partitions: Sequence[Sequence[PartitionFact]]) -> dict[str, Any]:
    """The partitions of each record, and separate columns for records about exactly one
    partition."""
    only = [astuple(one[0]) if len(one) == 1 else _NO_PARTITION for one in partitions]
    columns = dict(zip(_PARTITION_NAMES, zip(*only, strict=True), strict=True))
    return {
        **{name: columns[name] for name in _OF_ONLY_PARTITION},
        "partitions": _partitions(partitions),
    }


def _times(wall_ns: pa.Array) -> pa.Array:
    return pc.divide(wall_ns, 1000)


def _partitions(values: Sequence[Sequence[PartitionFact]]) -> pa.Array:
    offsets = pa.array(accumulate(map(len, values), initial=0), pa.int32())
    flat = list(chain.from_iterable(values))
    if not flat:
        return pa.ListArray.from_arrays(offsets, pa.nulls(0, _PARTITION))
    columns = [
        pa.array(values, field.type)
        for field, values in zip(_PARTITION, zip(*map(astuple, flat), strict=True), strict=True)
    ]
    return pa.ListArray.from_arrays(
        offsets, pa.StructArray.from_arrays(columns, fields=list(_PARTITION))
    )
