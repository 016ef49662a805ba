"""The table of records: its columns, and how pages of a segment become Arrow batches.

One row an event and one a command. What comes from the log's own columns is taken as it is;
what a record is about (`facts`) is computed only if a wanted column needs it.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import astuple

from controller.core.canonical import EVENT_SCHEMAS
from eventstore.errors import LogTooNew
from eventstore.records import EventRecord
from eventstore.upcasters import Upcasters
from replay.fleet.facts import Facts, PartitionFact, command_facts, event_facts
from replay.older_events import UPCASTS
from replay.world_log.encoding import SCHEMAS

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
"""The columns; docs/fleet.md says what is in each."""

_UPCASTERS: Final = Upcasters({**EVENT_SCHEMAS, **SCHEMAS}, UPCASTS)
_KNOWN: Final = {**EVENT_SCHEMAS, **SCHEMAS}.items()
_OF_FACTS: Final = frozenset(
    (
        "rule",
        "error",
        "path",
        "broker",
        "topic",
        "partition",
        "leader",
        "leader_epoch",
        "isr",
        "partitions",
        "payload",
        "reason",
    )
)

Rows = Sequence[tuple[Any, ...]]
"""Of a table of the log, in the order of its columns, the chain value included."""

_NO_PARTITION: Final = (None,) * len(PartitionFact._fields)


class Origin(NamedTuple):
    """Where records come from."""

    cluster: str
    log: str


class Batches:
    """Makes batches of a wanted schema, a part of RECORDS in any order."""

    def __init__(self, schema: pa.Schema, origin: Origin) -> None:
        self.schema = schema
        self._origin = origin
        names = set(schema.names)
        self._needs_facts = not names.isdisjoint(_OF_FACTS)
        self._needs_event_facts = self._needs_facts or "ordinal" in names

    def events(self, rows: Rows) -> pa.RecordBatch:
        """A page of the table of events."""
        seq, wall, mono, term, kind, schema, channel, origin, cause, payload, _ = zip(
            *rows, strict=True
        )
        facts: Sequence[Facts] = ()
        if self._needs_event_facts:
            facts = list(map(_facts_of_event, rows))
        columns: dict[str, Callable[[], Any]] = {
            "record": lambda: _constant(EVENT, len(rows)),
            "seq": lambda: seq,
            "ordinal": lambda: [one.ordinal for one in facts],
            "time": lambda: _times(wall),
            "wall_ns": lambda: wall,
            "mono_ns": lambda: mono,
            "term": lambda: term,
            "kind": lambda: kind,
            "schema": lambda: schema,
            "channel": lambda: channel,
            "origin": lambda: origin,
            "cause": lambda: cause,
            "stored": lambda: payload,
        }
        return self._batch(len(rows), columns, facts)

    def commands(self, rows: Rows, times: Mapping[int, tuple[int, int | None]]) -> pa.RecordBatch:
        """A page of the table of commands; `times` has both clocks of their causes."""
        cause, ordinal, term, kind, target, reason, digest, body, _ = zip(*rows, strict=True)
        facts: Sequence[Facts] = ()
        if self._needs_facts:
            facts = list(map(command_facts, kind, target, reason, body))
        clocks = [times.get(one, (None, None)) for one in cause]
        wall = [one[0] for one in clocks]
        columns: dict[str, Callable[[], Any]] = {
            "record": lambda: _constant(COMMAND, len(rows)),
            "seq": lambda: cause,
            "ordinal": lambda: ordinal,
            "time": lambda: _times(wall),
            "wall_ns": lambda: wall,
            "mono_ns": lambda: [one[1] for one in clocks],
            "term": lambda: term,
            "kind": lambda: kind,
            "cause": lambda: cause,
            "target": lambda: target,
            "stored": lambda: body,
            "reason_stored": lambda: reason,
            "digest": lambda: digest,
        }
        return self._batch(len(rows), columns, facts)

    def _batch(
        self, size: int, columns: dict[str, Callable[[], Any]], facts: Sequence[Facts]
    ) -> pa.RecordBatch:
        columns["cluster"] = lambda: _constant(self._origin.cluster, size)
        columns["log"] = lambda: _constant(self._origin.log, size)
        if facts:
            _add_facts(columns, facts)
        arrays = []
        for field in self.schema:
            column = columns.get(field.name)
            made = None if column is None else column()
            if made is None:
                arrays.append(pa.nulls(size, field.type))
            elif isinstance(made, pa.Array):
                arrays.append(made if made.type == field.type else made.cast(field.type))
            else:
                arrays.append(pa.array(made, field.type))
        return pa.record_batch(arrays, schema=self.schema)


def _add_facts(columns: dict[str, Callable[[], Any]], facts: Sequence[Facts]) -> None:
    """What records are about; the columns of one partition where it is the only one."""
    json, path, broker, partitions, error, _, rule, reason = zip(*map(astuple, facts), strict=True)
    only = [one[0] if len(one) == 1 else _NO_PARTITION for one in partitions]
    topic, partition, leader, leader_epoch, isr, _ = zip(*only, strict=True)
    columns |= {
        "rule": lambda: rule,
        "error": lambda: error,
        "path": lambda: path,
        "broker": lambda: broker,
        "topic": lambda: topic,
        "partition": lambda: partition,
        "leader": lambda: leader,
        "leader_epoch": lambda: leader_epoch,
        "isr": lambda: _lists(isr),
        "partitions": lambda: _partitions(partitions),
        "payload": lambda: json,
        "reason": lambda: reason,
    }


def _facts_of_event(row: tuple[Any, ...]) -> Facts:
    kind, schema = row[4], row[5]
    if (kind, schema) in _KNOWN:
        return event_facts(kind, row[9])
    try:
        event = _UPCASTERS.upcast(EventRecord._make(row[:-1]), "")
    except LogTooNew:
        return event_facts(kind, row[9])
    return event_facts(event.kind, event.payload)


def _constant(text: str, size: int) -> pa.Array:
    return pa.repeat(text, size)


def _times(wall_ns: Sequence[int | None]) -> pa.Array:
    return pc.divide(pa.array(wall_ns, pa.int64()), 1000)


def _lists(values: Sequence[Sequence[int] | None]) -> pa.Array:
    if all(one is None for one in values):
        return pa.nulls(len(values), _ISR)
    lengths = [0 if one is None else len(one) for one in values]
    offsets = pa.array(accumulate(lengths, initial=0), pa.int32())
    flat = pa.array(chain.from_iterable(one for one in values if one), pa.int64())
    missing = pa.array([one is None for one in values])
    return pa.ListArray.from_arrays(offsets, flat, mask=missing)


def _partitions(values: Sequence[Sequence[PartitionFact]]) -> pa.Array:
    offsets = pa.array(accumulate(map(len, values), initial=0), pa.int32())
    flat = list(chain.from_iterable(values))
    if not flat:
        return pa.ListArray.from_arrays(offsets, pa.nulls(0, _PARTITION))
    topic, partition, leader, epoch, isr, code = zip(*flat, strict=True)
    columns = [
        pa.array(topic, pa.string()),
        pa.array(partition, pa.int64()),
        pa.array(leader, pa.int64()),
        pa.array(epoch, pa.int64()),
        _lists(isr).cast(_PARTITION.field("isr").type),
        pa.array(code, pa.string()),
    ]
    return pa.ListArray.from_arrays(
        offsets, pa.StructArray.from_arrays(columns, fields=list(_PARTITION))
    )
