"""Reading an incident of a stock cluster as batches, converted as by `refold import`.

The checksum chain of an import cannot be compared with that of a second import. A separate chain is
computed over the records, without those that describe the import itself. It allows to add only what
is new in a source that grew, and to detect a source whose beginning changed.
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
from replay.fleet.segment_ingest import Ingested, all_events
from replay.fleet.segments import sortable_time
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
    """Import the source at `path` into the new folder `log`, and pass its new records to `add`.
    Raises ReplayError, LogError."""
    import_source(path, log, Selection())
    segments = folders.segments_in(log)
    with open_segment(segments[0]) as first:
        cluster, header = first.header.cluster_id, first.header_body.decode()
    unit, begun_ns = _identity(segments, cluster)
    origin = Origin(
        cluster, f"{sortable_time(begun_ns)}-{unit.removeprefix(_STOCK)[:_ID_CHARACTERS]}"
    )
    reading = _ImportedRecords(path, known_of(unit), Batches(STORED, origin, decodes=False))
    for segment in segments:
        for page in all_events(segment):
            for batch in reading.take(page):
                add(cluster, batch)
    return reading.result(unit, origin, header)


def _identity(segments: list[Path], cluster: str) -> tuple[str, int]:
    """An id of the incident from its cluster and its first transaction, and the time of that
    transaction in ns. Raises ReplayError."""
    for segment in segments:
        for page in all_events(segment):
            for row in page:
                if row[4] == "transaction":
                    identity = _encode([cluster, row[9]])
                    digest = blake2b(identity, digest_size=CHAIN_BYTES).hexdigest()
                    wall_ns = row[1]
                    assert isinstance(wall_ns, int)
                    return _STOCK + digest, wall_ns
    raise ReplayError("the source contains no transaction")


class _ImportedRecords:
    """Chains the records of an import and selects the new ones."""

    def __init__(self, path: Path, known: Known | None, batches: Batches) -> None:
        self._path = path
        self._known = known
        self._batches = batches
        self._chain = b""
        self._last_seq = 0
        self._events = 0
        self._from_seq = 0 if known is None else known.last_seq

    def take(self, page: list[Row]) -> list[pa.RecordBatch]:
        """Take a page of events; returns the new ones. Raises ReplayError."""
        new: list[Row] = []
        for row in page:
            seq = row[0]
            assert isinstance(seq, int)
            if row[4] in _ABOUT_IMPORT:
                if row[4] == "world_begun" and self._known is None:
                    new.append(row)
                continue
            identity = self._chain + _encode(row[:-1])
            self._chain = blake2b(identity, digest_size=CHAIN_BYTES).digest()
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
            f"{self._path} no longer begins as it did when it was ingested: restore the"
            " missing files, or ingest it into another folder"
        )
