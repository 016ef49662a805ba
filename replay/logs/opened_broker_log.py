"""Folds a log of a broker of the 0.8 design."""

from collections.abc import Iterator

from msgspec import Struct

from controller.kafka_0_8.commands import IssuedByBroker
from controller.kafka_0_8.configuration import BrokerConfiguration
from controller.kafka_0_8.events import RecordedBrokerEvent
from controller.kafka_0_8.fold import BrokerFold
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from eventstore.records import EventRecord
from replay.logs.broker_log import broker_event, broker_fold_at_start
from replay.logs.stored_commands import StoredCommands


class BrokerLog(Struct, frozen=True):
    """A log of a broker, the configuration of its fold, and whether the log has the commands that
    the fold derives."""

    reader: LogReader
    configuration: BrokerConfiguration
    commands: StoredCommands


def fold_broker_log(
    log: BrokerLog, last_seq: int
) -> Iterator[tuple[EventRecord, RecordedBrokerEvent, list[IssuedByBroker], BrokerFold]]:
    """Each event up to `last_seq` with its commands, and the fold after it. The commands are
    compared with those that the log has."""
    fold, check = broker_fold_at_start(log.reader), log.commands.begin()
    for record, stored in log.reader.records(EventFilter(last_seq=last_seq)):
        event = broker_event(record)
        issued = [one for part in fold.apply(event) for one in part]
        check.compare(event, issued, stored)
        yield record, event, issued, fold
