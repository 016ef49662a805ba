"""Events of the log in words, for what a result names."""

from collections.abc import Iterable
from typing import Final

from controller.core.values import format_brokers
from eventstore.filters import EventFilter
from replay.description.events import event_in_words
from replay.description.imported_events import imported_event_in_words
from replay.logs.decode import decode_recorded
from replay.logs.open_log import OpenedLog, RecordedLog
from replay.stock_clusters.imported_log.encoding import event_of
from replay.what_if.causes import ExternalCause, in_words
from replay.what_if.changes import ChangedIncident
from replay.what_if.history import Change, PartitionChange
from replay.what_if.incident import Incident

_STATES_MAX: Final = 3
"""At most this many partitions are described."""


def event_texts(
    log: OpenedLog, incident: Incident, changed: ChangedIncident, seqs: Iterable[int]
) -> dict[int, str]:
    """Some events in words; an event that shows a cause is described by it, and one that changes
    partitions by their states. With changes, only the causes are those of the futures. Raises
    LogError."""
    found: dict[int, str] = {}
    where = "" if changed.is_unchanged else "in the log: "
    for seq in seqs:
        shown = _causes_at_event(incident, changed, seq)
        if shown:
            found[seq] = "; ".join(_with_reading(one) for one in shown)
            continue
        then = [one for one in incident.history.changes if one.seq == seq]
        states = [text for one in then if (text := _state(one)) is not None]
        if states:
            found[seq] = where + "; ".join(states[:_STATES_MAX])
            continue
        for record in log.reader.events(EventFilter(first_seq=seq, last_seq=seq)):
            if isinstance(log, RecordedLog):
                found[seq] = where + event_in_words(decode_recorded(record).event)
            else:
                words = imported_event_in_words(event_of(record), log.begun.chroot)
                found[seq] = where + words
    return found


def _with_reading(cause: ExternalCause) -> str:
    """A cause in words, and when the controller read it: the event that a report names."""
    text = in_words(cause)
    if cause.last_seq <= cause.seq:
        return text
    return f"{text} (the controller read this at event {cause.last_seq})"


def _causes_at_event(incident: Incident, changed: ChangedIncident, seq: int) -> list[ExternalCause]:
    """The causes that an event shows. The log does not show those that a change adds or delays: the
    first event after one of these has it."""
    at_ms = incident.times[seq]
    before_ms = max((ms for one, ms in incident.times.items() if one < seq), default=-1)
    return [
        one
        for one in changed.causes
        if (one.seq == seq if one in changed.control else before_ms < one.at_ms <= at_ms)
    ]


def _state(change: Change) -> str | None:
    """The new state of a partition in words."""
    if not isinstance(change, PartitionChange) or change.now is None or change.now.state is None:
        return None
    topic, number = change.name
    leader = "no leader" if change.now.leader < 0 else f"leader {change.now.leader}"
    return f"{topic}-{number} has {leader}, ISR {format_brokers(change.now.isr)}"
