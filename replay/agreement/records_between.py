"""The records of the log between the fold's controller event and a divergent decision."""

from typing import Final

from msgspec import structs

from controller.core import znodes
from eventstore.filters import EventFilter
from eventstore.records import EventRecord
from replay.agreement.logs.index import operations_of, path_of
from replay.agreement.results import AgreementResult, Divergence
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import ControllerLogged, ImportedEvent
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.stock_clusters.zookeeper_log.transactions import (
    Transaction,
)
from replay.subjects import subject_of
from replay.znode_tree.paths import below

_DIVERGENCES_MAX: Final = 50
"""Only the first divergences have these records, because a report shows no others."""
_RECORDS_MAX: Final = 10
_WIDTH: Final = 160


def with_records_between(result: AgreementResult, imported: ImportedLog) -> AgreementResult:
    """The result, with the records between for its first divergences."""
    first = [_with_records_between(one, imported) for one in result.divergences[:_DIVERGENCES_MAX]]
    result.divergences = [*first, *result.divergences[_DIVERGENCES_MAX:]]
    return result


def _with_records_between(one: Divergence, imported: ImportedLog) -> Divergence:
    wanted = EventFilter(first_seq=one.since, last_seq=one.seq)
    found: list[str] = []
    for record in imported.reader.events(wanted):
        text = _text(record, event_of(record), one, imported.begun.chroot)
        if text:
            found.append(text)
    return structs.replace(one, between=tuple(found[-_RECORDS_MAX:]))


def _text(record: EventRecord, event: ImportedEvent, one: Divergence, chroot: str) -> str:
    """A record of the controller's thread or about the same topics, as text; "" for others."""
    if isinstance(event, ControllerLogged) and event.broker == one.controller:
        return f"{record.seq} {event.text}"[:_WIDTH]
    if not isinstance(event, Transaction):
        return ""
    subjects = {subject for path in one.paths if (subject := _subject(path))}
    written = [
        operation
        for operation in operations_of(event)
        if _subject(below(path_of(operation), chroot) or "") in subjects
    ]
    if not written:
        return ""
    texts = [f"{type(each).__name__} {path_of(each)}" for each in written]
    return f"{record.seq} zxid {event.zxid:#x} {record.channel}: {', '.join(texts)}"[:_WIDTH]


def _subject(path: str) -> str:
    """The topic's znode, that of all brokers, or the znode itself."""
    subject = subject_of(path)
    if subject.broker is not None or path == znodes.BROKER_IDS:
        return znodes.BROKER_IDS
    return path if subject.topic is None else znodes.topic_path(subject.topic)
