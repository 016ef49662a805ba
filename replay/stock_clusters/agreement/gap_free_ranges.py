"""What of a log can be judged: each stretch of which all is known.

Where many transactions are missing nobody knows any more what the controller read. A stretch ends
there, and the next one begins where all is known again, if that is so anywhere behind.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec import structs

from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import (
    ImportEnded,
    TransactionsMissing,
    WorldEvent,
    WorldResumed,
)
from replay.stock_clusters.imported_log.reading import ImportedLog, open_world, unfinished_notes
from replay.stock_clusters.imported_log.restored import apply
from replay.stock_clusters.zookeeper_log.merging import Gap

_KINDS: Final = ("transactions_missing", "world_resumed", "import_ended")
_Told = tuple[int, WorldEvent]


def gap_free_ranges(reader: LogReader) -> Iterator[ImportedLog]:
    """The stretches of a log as if each were a log, with a state of its own, to be taken on once.

    Raises ReplayError, LogError.
    """
    begun = open_world(reader)
    for number, (first, last) in enumerate(_bounds(begun.first_seq, _told(reader))):
        # A state is taken on in place: each stretch begins with one of its own.
        yield _between(open_world(reader) if number else begun, first, last)


class ImportTold(NamedTuple):
    """What an import told: `notes` of the source, and of what is not judged; how many transactions
    are missing at least; its end, nothing where the log does not go as far."""

    notes: list[str]
    missing_transactions: int
    ended: ImportEnded


def import_told(reader: LogReader) -> ImportTold:
    """What the import told of the source. Raises ReplayError, LogError."""
    told = _told(reader)
    notes: list[str] = []
    missing, ended = 0, ImportEnded([], [])
    world = open_world(reader)
    bounds = _bounds(world.first_seq, told)
    ends = {end + 1 for _, end in bounds if end is not None}
    for (seq, event), (_, following) in pairwise([*told, (0, None)]):
        match event:
            case TransactionsMissing(after=after, before=before):
                gap, left_out = Gap(after, before), ""
                missing += gap.at_least
                if seq in ends:
                    left_out = f": what comes behind that is not judged{_up_to(following)}"
                notes.append(f"{gap}{left_out}")
            case ImportEnded():
                ended = event
                notes += [*map(str, event.damages), *event.notes]
            case _:
                pass
    return ImportTold(notes + unfinished_notes(world), missing, ended)


def _up_to(following: WorldEvent | None) -> str:
    if not isinstance(following, WorldResumed):
        return ""
    return f" up to the first election behind zxid {following.zxid:#x}, of {following.snapshot}"


def _told(reader: LogReader) -> list[_Told]:
    return [(one.seq, event_of(one)) for one in reader.events(EventFilter(kinds=_KINDS))]


def _bounds(begin: int, told: Sequence[_Told]) -> list[tuple[int, int | None]]:
    """The first and the last record of each stretch; the last is None for the log's end. `begin` is
    the record behind the restored state."""
    first: int | None = begin
    bounds: list[tuple[int, int | None]] = []
    resumes = any(isinstance(event, WorldResumed) for _, event in told)
    for seq, event in told:
        if isinstance(event, WorldResumed):
            first = first or seq + 1
        elif isinstance(event, TransactionsMissing) and first and _ends(event):
            # If nothing better comes, those before the first are no worse than an old snapshot.
            if seq == begin and not resumes:
                continue
            if seq > first:
                bounds.append((first, seq - 1))
            first = None
    return [*bounds, (first, None)] if first else bounds


def _ends(event: TransactionsMissing) -> bool:
    return Gap(event.after, event.before).is_wide


def _between(world: ImportedLog, first: int, last: int | None) -> ImportedLog:
    before = structs.replace(world, last_seq=first - 1)
    for _, event in before.events():
        apply(world.state, event)
    return structs.replace(world, first_seq=first, last_seq=last)
