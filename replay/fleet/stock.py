"""A stock cluster's incident into batches, as `refold import` makes a log of it.

It has no chain of its own that a second import would give again: one is made of the records but
for what an import says of itself. So a source that grew gives only what is new, and one that no
longer begins as it did is found.
"""

from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from eventstore import folders
from eventstore.chain import CHAIN_BYTES, Row
from eventstore.segment import open_segment
from replay.errors import ReplayError
from replay.fleet.columns import STORED, Batches, Origin
from replay.fleet.reading import moment
from replay.fleet.segment_rows import Ingested, all_events
from replay.fleet.table import Known
from replay.stock_clusters.imports.importing import Selection, import_source

_ABOUT_IMPORT: Final = frozenset(("world_begun", "import_ended"))
_ID_CHARACTERS: Final = 8
_STOCK: Final = "stock-"
_encode: Final = msgspec.msgpack.Encoder().encode


def ingest_stock(
    path: Path,
    log: Path,
    known_of: Callable[[str], Known | None],
    add: Callable[[str, pa.RecordBatch], None],
) -> Ingested:
    """Import what lies at `path` into the new folder `log`, and give what is new of it. Raises
    ReplayError, LogError."""
    import_source(path, log, Selection())
    segments = folders.segments_in(log)
    with open_segment(segments[0]) as first:
        cluster, header = first.header.cluster_id, first.header_body.decode()
    unit, begun_ns = _identity(segments, cluster)
    origin = Origin(cluster, f"{moment(begun_ns)}-{unit.removeprefix(_STOCK)[:_ID_CHARACTERS]}")
    reading = _Stock(path, known_of(unit), Batches(STORED, origin, decodes=False))
    for segment in segments:
        for page in all_events(segment):
            for batch in reading.take(page):
                add(cluster, batch)
    return reading.result(unit, origin, header)


def _identity(segments: list[Path], cluster: str) -> tuple[str, int]:
    """What tells one incident from all others: its cluster and its first transaction; and when
    that was, in ns. Raises ReplayError."""
    for segment in segments:
        for page in all_events(segment):
            for row in page:
                if row[4] == "transaction":
                    told = _encode([cluster, row[9]])
                    digest = blake2b(told, digest_size=CHAIN_BYTES).hexdigest()
                    wall_ns = row[1]
                    assert isinstance(wall_ns, int)
                    return _STOCK + digest, wall_ns
    raise ReplayError("there is no transaction in it")


class _Stock:
    """Follows the records of an import, and gives those that are new."""

    def __init__(self, path: Path, known: Known | None, batches: Batches) -> None:
        self._path = path
        self._known = known
        self._batches = batches
        self._chain = b""
        self._last_seq = 0
        self._events = 0
        self._from_seq = 0 if known is None else known.last_seq

    def take(self, page: list[Row]) -> list[pa.RecordBatch]:
        """A page of events in, those that are new out. Raises ReplayError."""
        new: list[Row] = []
        for row in page:
            seq = row[0]
            assert isinstance(seq, int)
            if row[4] in _ABOUT_IMPORT:
                if row[4] == "world_begun" and self._known is None:
                    new.append(row)
                continue
            told = self._chain + _encode(row[:-1])
            self._chain = blake2b(told, digest_size=CHAIN_BYTES).digest()
            self._last_seq = seq
            if self._known is None or seq > self._known.last_seq:
                new.append(row)
            elif seq == self._known.last_seq and self._chain != self._known.event_chain:
                raise self._changed()
        self._events += len(new)
        return [self._batches.events(new)] if new else []

    def result(self, unit: str, origin: Origin, header: str) -> Ingested:
        """What was ingested. Raises ReplayError."""
        if self._known is not None and self._last_seq < self._known.last_seq:
            raise self._changed()
        return Ingested(
            unit,
            *origin,
            header,
            1,
            self._from_seq + 1,
            self._last_seq,
            self._events,
            0,
            0,
            self._chain,
            b"",
            False,
        )

    def _changed(self) -> ReplayError:
        return ReplayError(
            f"{self._path} no longer begins as it did when it was ingested: put back what is gone"
            " of it, or ingest it into another folder"
        )
