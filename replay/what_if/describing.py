"""Events of the log in words, for what a result names."""

from collections.abc import Iterable, Sequence
from typing import Final

from controller.core.values import format_brokers
from eventstore.filters import EventFilter
from replay.description.events import event_in_words
from replay.description.imported_events import imported_event_in_words
from replay.logs.decode import recorded
from replay.logs.open_log import OpenedLog, RecordedLog
from replay.stock_clusters.imported_log.encoding import event_of
from replay.what_if.causes import Cause, in_words
from replay.what_if.history import Change, PartitionChange
from replay.what_if.incident import Incident

_STATES_MAX: Final = 3
"""So many partitions are described."""


def event_texts(
    log: OpenedLog, incident: Incident, causes: Sequence[Cause], seqs: Iterable[int]
) -> dict[int, str]:
    """Some events in words; an event that shows a cause is described by it, and one that changes
    partitions by their states. Raises LogError."""
    found: dict[int, str] = {}
    for seq in seqs:
        shown = [one for one in causes if one.seq == seq]
        if shown:
            found[seq] = "; ".join(in_words(one) for one in shown)
            continue
        changed = [one for one in incident.history.changes if one.seq == seq]
        states = [text for one in changed if (text := _state(one)) is not None]
        if states:
            found[seq] = "; ".join(states[:_STATES_MAX])
            continue
        for record in log.reader.events(EventFilter(first_seq=seq, last_seq=seq)):
            if isinstance(log, RecordedLog):
                found[seq] = event_in_words(recorded(record).event)
            else:
                found[seq] = imported_event_in_words(event_of(record), log.begun.chroot)
    return found


def _state(change: Change) -> str | None:
    """The new state of a partition in words."""
    if not isinstance(change, PartitionChange) or change.now is None or change.now.state is None:
        return None
    topic, number = change.name
    leader = "no leader" if change.now.leader < 0 else f"leader {change.now.leader}"
    return f"{topic}-{number} has {leader}, ISR {format_brokers(change.now.isr)}"
