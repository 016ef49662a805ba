"""The events and decisions of a log of a broker of the 0.8 design, folded again."""

from collections.abc import Iterator

from controller.core.canonical import kind_of
from controller.core.commands import CommandId, Notice
from controller.kafka_0_8.commands import BrokerCommand, IssuedByBroker
from controller.kafka_0_8.events import BrokerEvent
from eventstore.records import EventRecord
from replay.description.kafka_0_8 import broker_command_in_words, broker_event_in_words
from replay.listing.values import ListedDecision, ListedEvent, listed_event
from replay.logs.opened_broker_log import BrokerLog, fold_broker_log
from replay.names import command_name
from replay.progress import Progress
from replay.subjects import subjects_of_broker
from replay.times import iso_time


def events_and_decisions(
    log: BrokerLog, first: int, last: int, progress: Progress
) -> Iterator[tuple[ListedEvent, list[ListedDecision]]]:
    """Each event of a range with its decisions. Raises ReplayError, LogError."""
    pending: dict[CommandId, BrokerCommand] = {}
    for record, recorded, issued, _ in fold_broker_log(log, last):
        progress("folding", record.seq, last)
        command = getattr(recorded.event, "command", None)
        asked = pending.get(command) if command is not None else None
        pending |= {one.id: one.command for one in issued if not isinstance(one.command, Notice)}
        if record.seq >= first:
            broker = log.configuration.broker_id
            decisions = [_decision(record, one, broker) for one in issued]
            yield _event(record, recorded.event, asked), decisions


def _event(record: EventRecord, event: BrokerEvent, command: BrokerCommand | None) -> ListedEvent:
    text, subjects = broker_event_in_words(event), subjects_of_broker(event)
    if command is not None:
        text += f": {broker_command_in_words(command)}"
        subjects += subjects_of_broker(command)
    return listed_event(record, text, subjects, has_terms=False)


def _decision(record: EventRecord, issued: IssuedByBroker, broker: int) -> ListedDecision:
    return ListedDecision(
        record.seq,
        iso_time(record.wall_ns),
        None,
        broker,
        kind_of(issued.command),
        command_name(issued.id),
        broker_command_in_words(issued.command),
        issued.reason.rule,
        [],
        tuple(dict.fromkeys(subjects_of_broker(issued.command))),
    )
