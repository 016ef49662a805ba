"""Counts the records of a log."""

from collections import Counter
from pathlib import Path

from msgspec import Struct

from eventstore import folders
from eventstore.records import Header
from eventstore.segment import Segment, open_segment


class KindCount(Struct, frozen=True):
    """The records of one kind; `bytes` of event payloads or of stored command bodies."""

    kind: str
    count: int
    bytes: int


class Statistics(Struct, frozen=True):
    """The content of a log in numbers. Times are wall-clock nanoseconds, None without events."""

    header: Header
    segments: int
    file_bytes: int
    closed: bool
    living: bool
    events: list[KindCount]
    commands: list[KindCount]
    terms: list[int]
    first_ns: int | None
    last_ns: int | None

    @property
    def event_count(self) -> int:
        """The number of events."""
        return sum(one.count for one in self.events)

    @property
    def command_count(self) -> int:
        """The number of commands."""
        return sum(one.count for one in self.commands)

    @property
    def duration_s(self) -> float:
        """The wall-clock time from the first to the last event, in seconds."""
        return ((self.last_ns or 0) - (self.first_ns or 0)) / 1e9


def statistics(path: Path) -> Statistics:
    """Count a log, a folder or one segment. Raises the errors of opening and reading."""
    counts: dict[str, Counter[str]] = {"events": Counter(), "commands": Counter()}
    sizes: dict[str, Counter[str]] = {"events": Counter(), "commands": Counter()}
    terms: set[int] = set()
    times_ns: list[int] = []
    header: Header | None = None
    closed = False
    paths = folders.segments_of(path)
    for segment_path in paths:
        with open_segment(segment_path) as segment:
            header = header or segment.header
            closed = segment.closing is not None
            for table, column in (("events", "payload"), ("commands", "body")):
                for kind, count, size in _by_kind(segment, table, column):
                    counts[table][kind] += count
                    sizes[table][kind] += size
            terms |= {term for (term,) in segment.query("select distinct term from events")}
            [ends] = segment.query("select min(wall_ns), max(wall_ns) from events")
            times_ns += [time_ns for time_ns in ends if time_ns is not None]
    assert header is not None
    return Statistics(
        header=header,
        segments=len(paths),
        file_bytes=sum(map(folders.size_of, paths)),
        closed=closed,
        living=folders.is_being_written(path if path.is_dir() else path.parent),
        events=_kind_counts(counts["events"], sizes["events"]),
        commands=_kind_counts(counts["commands"], sizes["commands"]),
        terms=sorted(terms),
        first_ns=min(times_ns, default=None),
        last_ns=max(times_ns, default=None),
    )


def _by_kind(segment: Segment, table: str, column: str) -> list[tuple[str, int, int]]:
    return segment.query(
        f"select kind, count(*), coalesce(sum(length({column})), 0) from {table} group by kind"
    )


def _kind_counts(counts: Counter[str], sizes: Counter[str]) -> list[KindCount]:
    return [KindCount(kind, count, sizes[kind]) for kind, count in counts.most_common()]
