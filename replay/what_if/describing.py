"""Events of the log in words, for what a result names."""

from collections.abc import Iterable, Sequence

from eventstore.filters import EventFilter
from replay.description.events import event_in_words
from replay.description.imported_events import imported_event_in_words
from replay.logs.decode import recorded
from replay.logs.open_log import OpenedLog, RecordedLog
from replay.stock_clusters.imported_log.encoding import event_of
from replay.what_if.causes import Cause, in_words


def event_texts(log: OpenedLog, causes: Sequence[Cause], seqs: Iterable[int]) -> dict[int, str]:
    """Some events in words; an event that shows a cause is described by it. Raises LogError."""
    found: dict[int, str] = {}
    for seq in seqs:
        shown = [one for one in causes if one.seq == seq]
        if shown:
            found[seq] = "; ".join(in_words(one) for one in shown)
            continue
        for record in log.reader.events(EventFilter(first_seq=seq, last_seq=seq)):
            if isinstance(log, RecordedLog):
                found[seq] = event_in_words(recorded(record).event)
            else:
                found[seq] = imported_event_in_words(event_of(record), log.begun.chroot)
    return found
