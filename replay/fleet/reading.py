"""Segments as the fleet reads them: which log they belong to, and their rows as batches."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from eventstore import chain, folders
from eventstore.segment import Segment, open_segment
from replay.fleet.columns import Batches, Origin, clocks_in

_ID_CHARACTERS: Final = 8
_CLOSE_TOGETHER: Final = 4
_SECOND_NS: Final = 1_000_000_000

Conditions = Sequence[str]
Parameters = Mapping[str, Any]


def segment_id(segment: Segment) -> str:
    """What tells a segment from all others, and is the same in every copy of it."""
    return chain.checksum(segment.header_body).hex()


def log_name(segment: Segment) -> Origin:
    """The name of the log that a segment belongs to: when it was begun, and what its first segment
    begins with. Raises LogError."""
    path = segment.path
    among = folders.segments_in(path.parent) if folders.is_segment(path) else [path]
    if among[0] == path:
        return _name_of(segment)
    with open_segment(among[0]) as first:
        return _name_of(first)


def _name_of(first: Segment) -> Origin:
    name = f"{moment(first.header.created_ns)}-{segment_id(first)[:_ID_CHARACTERS]}"
    return Origin(first.header.cluster_id, name)


def moment(wall_ns: int) -> str:
    """A wall clock, so that names sort by time."""
    seconds, ns = divmod(wall_ns, _SECOND_NS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y%m%dT%H%M%S}.{ns:09d}Z"


def event_batches(
    segment: Segment, batches: Batches, conditions: Conditions, parameters: Parameters
) -> Iterator[pa.RecordBatch]:
    """The events that are wanted. Raises LogError."""
    for page in segment.event_rows(conditions, parameters):
        yield batches.events(page)


def command_batches(
    segment: Segment, batches: Batches, conditions: Conditions, parameters: Parameters
) -> Iterator[pa.RecordBatch]:
    """The commands that are wanted. Raises LogError."""
    for page in segment.command_rows(conditions, parameters):
        yield batches.commands(page, partial(stored_clocks, segment))


def stored_clocks(segment: Segment, numbers: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Both clocks of a page of events, as the log has them."""
    asked = pc.unique(numbers).sort().to_pylist()
    first, last = asked[0], asked[-1]
    # Those of a page that a filter has thinned out may lie far apart.
    among = f"between {first:d} and {last:d}"
    if last - first >= _CLOSE_TOGETHER * len(numbers):
        among = f"in ({', '.join(f'{one:d}' for one in asked)})"
    found = segment.query(f"select seq, wall_ns, mono_ns from events where seq {among}")
    return clocks_in({seq: (wall, mono) for seq, wall, mono in found})(numbers)
