"""What an event is about: "t" and "t-0" for a topic and its partition, "broker 3", or a timer."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

import msgspec

from controller.core import commands, events
from controller.core.canonical import decode_command, decode_event
from eventstore.reader import LogReader
from eventstore.records import CommandRecord, EventRecord
from replay.listing.subjects import paths_of_command, paths_of_transaction, subjects_of_path
from replay.stock_clusters.imported_log import encoding as world
from replay.stock_clusters.imported_log.events import (
    Observed,
    RequestInferred,
    RequestServed,
    WorldBegun,
)
from replay.stock_clusters.zookeeper_log.transactions import Transaction

_COMMANDS_REMEMBERED: Final = 100_000


class Subjects:
    """Names the subjects of a log's events, asked in the order of the log.

    An outcome is about what its command was about, so the commands are read alongside. Where a
    command's body was too large to be stored the outcome's subjects are not known.
    """

    version = "1"

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._first_cause: int | None = None
        self._commands: Iterator[CommandRecord] = iter(())
        self._next: CommandRecord | None = None
        self._subjects: dict[tuple[int, int], list[str]] = {}
        self._chroot: str | None = None
        self._of_transaction: list[str] = []

    def __call__(self, record: EventRecord) -> Iterable[str]:
        """The subjects of an event; none where this version does not know its kind."""
        if record.kind in world.SCHEMAS:
            return self._subjects_in_world(record)
        try:
            event = decode_event(record.payload)
        except msgspec.DecodeError:
            return []
        match event:
            case events.WatchFired(path=path):
                return subjects_of_path(path)
            case events.BrokerAnswered(broker=broker, partition_errors=errors):
                partitions = (f"{topic}-{partition}" for topic, partition, _ in errors)
                return chain([f"broker {broker}"], partitions)
            case events.ChannelFault(broker=broker) | events.VersionsOffered(broker=broker):
                return [f"broker {broker}"]
            case events.TimerFired(timer=timer):
                return [timer]
            case events.ZnodesRead() | events.ChildrenRead() | events.ZnodesWritten():
                return self._subjects_of_command(event.command, record.seq)
            case _:
                return []

    def _subjects_in_world(self, record: EventRecord) -> Iterable[str]:
        try:
            event = world.decode_event(record.payload)
        except msgspec.DecodeError:
            return []
        match event:
            case Transaction():
                found = map(self._subjects_of_znode, paths_of_transaction(event))
                self._of_transaction = list(dict.fromkeys(chain.from_iterable(found)))
                return self._of_transaction
            case Observed() | RequestInferred():
                return self._of_transaction
            case RequestServed(broker=broker):
                return [f"broker {broker}"]
            case _:
                return []

    def _subjects_of_znode(self, path: str) -> list[str]:
        if self._chroot is None:
            begun = next((world.decode_event(one.payload) for one in self._reader.events()), None)
            self._chroot = begun.chroot if isinstance(begun, WorldBegun) else ""
        return subjects_of_path(path.removeprefix(self._chroot))

    def _subjects_of_command(self, command: commands.CommandId, seq: int) -> list[str]:
        if self._first_cause is None or command.cause < self._first_cause:
            self._first_cause = command.cause
            self._commands = self._reader.commands(command.cause)
            self._next = next(self._commands, None)
        while self._next and self._next.cause < seq:
            self._remember(self._next)
            self._next = next(self._commands, None)
        return self._subjects.get((command.cause, command.ordinal), [])

    def _remember(self, record: CommandRecord) -> None:
        found = _paths_of_command(record)
        if not found:
            return
        subjects = dict.fromkeys(chain.from_iterable(map(subjects_of_path, found)))
        self._subjects[record.cause, record.ordinal] = list(subjects)
        if len(self._subjects) > _COMMANDS_REMEMBERED:
            del self._subjects[next(iter(self._subjects))]


def _paths_of_command(record: CommandRecord) -> list[str]:
    try:
        return paths_of_command(decode_command(record.body or b""))
    except msgspec.DecodeError:
        return []
