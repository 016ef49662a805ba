"""The subjects of a log's events, for the index of `refold log show --subject`."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from controller.core import commands, events
from controller.core.canonical import decode_command, decode_event
from controller.kafka_0_8.canonical import decode_broker_command, decode_broker_event
from eventstore.reader import LogReader
from eventstore.records import CommandRecord, EventRecord
from replay.logs.broker_log import is_of_broker
from replay.names import broker_name
from replay.stock_clusters.imported_log import encoding
from replay.stock_clusters.imported_log.events import (
    DecisionObserved,
    ImportBegun,
    ImportedEvent,
    RequestInferred,
)
from replay.stock_clusters.zookeeper_log.transactions import Transaction
from replay.subjects import (
    subjects_of_broker,
    subjects_of_command,
    subjects_of_event,
    subjects_of_transaction,
)

_COMMANDS_REMEMBERED: Final = 100_000
_OUTCOMES: Final = (
    events.ZnodesRead,
    events.ChildrenRead,
    events.ZnodesWritten,
    events.BrokerResponded,
)


class RecordSubjects:
    """Finds the subjects of the records of an imported log, in order."""

    def __init__(self, chroot: str) -> None:
        self._chroot = chroot
        self._of_transaction: tuple[str, ...] = ()

    def __call__(self, event: ImportedEvent) -> tuple[str, ...]:
        """The subjects of the next record."""
        if isinstance(event, Transaction):
            self._of_transaction = subjects_of_transaction(event, self._chroot)
        # A record that classifies a transaction directly follows the transaction.
        of_transaction = isinstance(event, (Transaction, DecisionObserved, RequestInferred))
        subjects = self._of_transaction if of_transaction else ()
        broker = getattr(event, "broker", -1)
        return subjects if broker < 0 else (*subjects, broker_name(broker))


class SubjectsOfRecords:
    """Called with the records of a log in order, returns the subjects of each.

    An outcome has the subjects of its command, so the stored commands are read as well. If the body
    of a command was too large to be stored, only the subjects in the outcome are known.
    """

    version = "3"
    """Changes when other subjects are found: an index of another version is made again."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._is_of_broker = is_of_broker(reader.header)
        self._first_cause: int | None = None
        self._commands: Iterator[CommandRecord] = iter(())
        self._next: CommandRecord | None = None
        self._subjects: dict[tuple[int, int], tuple[str, ...]] = {}
        self._imported: RecordSubjects | None = None

    def __call__(self, record: EventRecord) -> Iterable[str]:
        """The subjects of an event; none if this version does not know its kind."""
        try:
            if self._is_of_broker:
                return self._in_broker_log(record)
            if record.kind in encoding.SCHEMAS:
                return self._in_imported_log(record)
            event = decode_event(record.payload)
        except msgspec.DecodeError:
            return ()
        found = dict.fromkeys(subjects_of_event(event, str))
        if isinstance(event, _OUTCOMES):
            found |= dict.fromkeys(self._of_outcome(event.command, record.seq))
        return found

    def _in_broker_log(self, record: EventRecord) -> Iterable[str]:
        event = decode_broker_event(record.payload)
        found = dict.fromkeys(subjects_of_broker(event))
        command = getattr(event, "command", None)
        if command is not None:
            found |= dict.fromkeys(self._of_outcome(command, record.seq))
        return found

    def _in_imported_log(self, record: EventRecord) -> Iterable[str]:
        if self._imported is None:
            first = next(self._reader.events(), None)
            begun = encoding.decode_event(first.payload) if first is not None else None
            chroot = begun.chroot if isinstance(begun, ImportBegun) else ""
            self._imported = RecordSubjects(chroot)
        return self._imported(encoding.decode_event(record.payload))

    def _of_outcome(self, command: commands.CommandId, seq: int) -> tuple[str, ...]:
        if self._first_cause is None or command.cause < self._first_cause:
            self._first_cause = command.cause
            self._commands = self._reader.commands(command.cause)
            self._next = next(self._commands, None)
        while self._next and self._next.cause < seq:
            self._remember(self._next)
            self._next = next(self._commands, None)
        return self._subjects.get((command.cause, command.ordinal), ())

    def _of_body(self, body: bytes) -> Iterable[str]:
        if self._is_of_broker:
            return subjects_of_broker(decode_broker_command(body))
        return subjects_of_command(decode_command(body))

    def of_command(self, record: CommandRecord) -> tuple[str, ...]:
        """The subjects of a command; none if its body is not stored or has an unknown kind."""
        try:
            return tuple(dict.fromkeys(self._of_body(record.body or b"")))
        except msgspec.DecodeError:
            return ()

    def _remember(self, record: CommandRecord) -> None:
        found = self.of_command(record)
        if not found:
            return
        self._subjects[record.cause, record.ordinal] = found
        if len(self._subjects) > _COMMANDS_REMEMBERED:
            del self._subjects[next(iter(self._subjects))]
