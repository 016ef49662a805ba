"""Segments for the table: their ids, the names of their logs, and their rows as batches."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from eventstore import chain, folders
from eventstore.records import Header
from eventstore.segment import Segment, open_segment
from replay.fleet.columns import Batches, Origin, clocks_from

_ID_CHARACTERS: Final = 8
_CLOSE_TOGETHER: Final = 4
_SECOND_NS: Final = 1_000_000_000

Conditions = Sequence[str]
Parameters = Mapping[str, Any]


def segment_id(segment: Segment) -> str:
    """An id that is unique to a segment and the same in every copy of it."""
    return chain.checksum(segment.header_body).hex()


def log_name(segment: Segment) -> Origin:
    """The cluster, and a name for the log of this segment from its first segment: its creation time
    and the beginning of its id. Raises LogError."""
    path = segment.path
    among = folders.segments_in(path.parent) if folders.is_segment(path) else [path]
    if among[0] == path:
        return _name_of(segment)
    with open_segment(among[0]) as first:
        return _name_of(first)


def _name_of(first: Segment) -> Origin:
    return Origin(first.header.cluster_id, name_of_log(first.header, first.header_body))


def name_of_log(header: Header, body: bytes) -> str:
    """The name of the log whose first segment has this header; `body` is the stored header."""
    number = chain.checksum(body).hex()[:_ID_CHARACTERS]
    return f"{sortable_time(header.created_ns)}-{number}"


def sortable_time(wall_ns: int) -> str:
    """A wall clock as text that sorts by time."""
    seconds, ns = divmod(wall_ns, _SECOND_NS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y%m%dT%H%M%S}.{ns:09d}Z"


def event_batches(
    segment: Segment, batches: Batches, conditions: Conditions, parameters: Parameters
) -> Iterator[pa.RecordBatch]:
    """The events that satisfy the conditions. Raises LogError."""
    for page in segment.event_rows(conditions, parameters):
        yield batches.events(page)


def command_batches(
    segment: Segment, batches: Batches, conditions: Conditions, parameters: Parameters
) -> Iterator[pa.RecordBatch]:
    """The commands that satisfy the conditions. Raises LogError."""
    for page in segment.command_rows(conditions, parameters):
        yield batches.commands(page, partial(stored_clocks, segment))


def stored_clocks(segment: Segment, numbers: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The wall and monotonic clocks of events, from the log."""
    requested = pc.unique(numbers).sort().to_pylist()
    first, last = requested[0], requested[-1]
    # In a filtered page the numbers may be far apart.
    among = f"between {first:d} and {last:d}"
    if last - first >= _CLOSE_TOGETHER * len(numbers):
        among = f"in ({', '.join(f'{one:d}' for one in requested)})"
    found = segment.query(f"select seq, wall_ns, mono_ns from events where seq {among}")
    return clocks_from({seq: (wall, mono) for seq, wall, mono in found})(numbers)
