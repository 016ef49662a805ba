"""Folds a recorded log. All commands that fold logs of the daemon use these functions.

`fold_events` is the loop over a log. `fold_event` is its step, for observers that also act before
and after each event. A caller that wants to observe the fold first sets a `FoldObserver` on the
fold's controller.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

import msgspec

from controller.core.commands import Issued
from controller.core.events import Recorded
from controller.core.fold import Fold
from controller.core.snapshot import load_snapshot
from controller.fingerprint import core_fingerprint
from eventstore.reader import LogReader
from eventstore.snapshots import read_snapshot
from replay.errors import ReplayError
from replay.logs.decode import configuration_of

Known = TypeVar("Known")


class FoldedEvent(NamedTuple, Generic[Known]):
    """An event, the commands that this core issues for it, and what the caller knows of the event:
    for the `records` of a log, the commands that the log has."""

    event: Recorded
    issued: list[Issued]
    known: Known


def fold_at_start(reader: LogReader) -> Fold:
    """The fold before the first event that the log still has. Raises ReplayError if there is no
    usable snapshot of that state."""
    configuration = configuration_of(reader.header)
    before = reader.header.first_seq - 1
    if before == 0:
        return Fold(configuration)
    snapshots = [name for name in reader.snapshots if name.seq == before]
    for name in snapshots:
        if name.fingerprint == core_fingerprint():
            return load_snapshot(read_snapshot(name), configuration)
    for name in snapshots:
        # A snapshot of another core can be loaded if its state has the same fields. Callers that
        # fold a log of another core compare the later decisions.
        with suppress(ReplayError, msgspec.DecodeError):
            return load_snapshot(read_snapshot(name), configuration)
    raise ReplayError(
        f"the log begins with event {before + 1}: its earlier segments were removed, and there is "
        f"no snapshot at event {before} that core {core_fingerprint()} can load"
    )


def fold_event(fold: Fold, event: Recorded) -> list[Issued]:
    """Fold one event completely and return the commands that it causes."""
    issued: list[Issued] = []
    for part in fold.apply(event):
        issued += part
    return issued


def fold_events(
    fold: Fold, events: Iterable[tuple[Recorded, Known]]
) -> Iterator[FoldedEvent[Known]]:
    """Fold events in order, as `records` reads them from a log, or changed before that."""
    for event, known in events:
        yield FoldedEvent(event, fold_event(fold, event), known)


def end_of_stored_commands(reader: LogReader) -> int:
    """The first event whose commands may not be stored completely; one more than the last event for
    a closed log, which has all commands. After a crash, or while a daemon runs, the commands of the
    last event that has any may be incomplete, and those of later events missing."""
    if reader.closing is not None:
        return reader.last_seq + 1
    last = 0
    for command in reader.commands():
        last = command.cause
    return last
