"""Folding a recorded log: the one loop that every reader of refold's own logs drives.

An observer is a `FoldObserver` that the caller sets on the fold's controller beforehand.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec

from controller.core.commands import Issued
from controller.core.events import Recorded
from controller.core.fold import Fold
from controller.core.snapshot import load_snapshot
from controller.fingerprint import core_fingerprint
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from eventstore.records import CommandRecord
from eventstore.snapshots import read_snapshot
from replay.errors import ReplayError
from replay.logs.decode import configuration_of, recorded

_ALL = EventFilter()


class FoldedEvent(NamedTuple):
    """An event of a log, the commands that this core issues for it, and those in the log."""

    event: Recorded
    issued: list[Issued]
    stored: list[CommandRecord]


def fold_at_start(reader: LogReader) -> Fold:
    """The fold as it is before the first event that the log still has. Raises ReplayError."""
    configuration = configuration_of(reader.header)
    before = reader.header.first_seq - 1
    if before == 0:
        return Fold(configuration)
    snapshots = [name for name in reader.snapshots if name.seq == before]
    for name in snapshots:
        if name.fingerprint == core_fingerprint():
            return load_snapshot(read_snapshot(name), configuration)
    for name in snapshots:
        # Another core's can be loaded where the state has the same fields. Whoever folds a log of
        # another core compares the decisions that follow.
        with suppress(ReplayError, msgspec.DecodeError):
            return load_snapshot(read_snapshot(name), configuration)
    raise ReplayError(
        f"the log begins with event {before + 1}: its earlier segments are gone, and there is no "
        f"snapshot at event {before} that core {core_fingerprint()} can begin with"
    )


def fold_event(fold: Fold, event: Recorded) -> list[Issued]:
    """Fold one event to its end; the commands that it causes."""
    return [one for part in fold.apply(event) for one in part]


def fold_events(fold: Fold, reader: LogReader, wanted: EventFilter = _ALL) -> Iterator[FoldedEvent]:
    """Fold the events of a log in order. Raises ReplayError for one that cannot be decoded."""
    for record, stored in reader.records(wanted):
        event = recorded(record)
        yield FoldedEvent(event, fold_event(fold, event), stored)
