"""Folds a log of either core, for commands that only need its events and commands."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from controller.core.commands import Issued
from controller.core.events import Recorded
from controller.kafka_0_8.commands import IssuedByBroker
from controller.kafka_0_8.events import RecordedBrokerEvent
from eventstore.reader import LogReader
from eventstore.records import EventRecord
from replay.logs.broker_log import broker_event, broker_fold_at_start, is_of_broker
from replay.logs.decode import decode_recorded
from replay.logs.recorded_fold import fold_at_start, fold_event

AnyIssued: TypeAlias = Issued | IssuedByBroker
AnyRecorded: TypeAlias = Recorded | RecordedBrokerEvent


class Folding(Protocol):
    """A fold of one of the cores."""

    @property
    def term(self) -> int:
        """The controller epoch; 0 for a broker."""

    def decode(self, record: EventRecord) -> AnyRecorded:
        """An event of the log. Raises ReplayError."""

    def fold(self, event: AnyRecorded) -> Sequence[AnyIssued]:
        """Fold an event; returns its commands."""


class _ControllerFolding:
    def __init__(self, reader: LogReader) -> None:
        self._fold = fold_at_start(reader)

    @property
    def term(self) -> int:
        return self._fold.controller.term

    decode = staticmethod(decode_recorded)

    def fold(self, event: AnyRecorded) -> Sequence[AnyIssued]:
        assert isinstance(event, Recorded)
        return fold_event(self._fold, event)


class _BrokerFolding:
    term = 0

    def __init__(self, reader: LogReader) -> None:
        self._fold = broker_fold_at_start(reader)

    decode = staticmethod(broker_event)

    def fold(self, event: AnyRecorded) -> Sequence[AnyIssued]:
        assert isinstance(event, RecordedBrokerEvent)
        return [one for part in self._fold.apply(event) for one in part]


def folding_at_start(reader: LogReader) -> Folding:
    """The fold before the first event that the log still has. Raises ReplayError."""
    is_broker = is_of_broker(reader.header)
    return _BrokerFolding(reader) if is_broker else _ControllerFolding(reader)
