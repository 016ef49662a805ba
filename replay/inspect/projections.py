"""Projections of a log: the state of the cluster, updated event by event, stored as snapshots."""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from controller.core.canonical import decode_stored
from controller.core.commands import Issued
from controller.core.events import Recorded
from controller.core.fold import Fold
from controller.core.snapshot import load_snapshot, take_snapshot
from eventstore.records import CommandRecord, EventRecord
from replay.cluster_view import from_context, from_znodes
from replay.cluster_view.views import BrokerView, ClusterView, ControllerView, PartitionView
from replay.errors import ReplayError
from replay.logs.decode import decode_recorded
from replay.logs.open_log import OpenedLog, RecordedLog
from replay.logs.recorded_fold import fold_at_start
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import SessionsRestored, ZnodesRestored
from replay.stock_clusters.imported_log.reading import ImportedLog, open_imported
from replay.stock_clusters.imported_log.state_events import (
    STATE_KINDS,
    apply,
    restore,
    restored_events,
)
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.why.facts import Cause
from replay.why.recorded_observer import RecordedFactObserver
from replay.why.subject import Subject
from replay.znode_view import ZnodeView


class Projection(Protocol):
    """The state after event `seq`."""

    seq: int

    @property
    def view(self) -> ZnodeView | None:
        """The znodes; None for a recorded log, which has only those that the daemon has read."""

    def apply(self, record: EventRecord, stored: Sequence[CommandRecord] | None = None) -> None:
        """Apply the next event, and compare its commands with those that the log has."""

    def snapshot(self) -> bytes | None:
        """The whole state; None in the middle of a procedure."""

    def cluster(self, time: str) -> ClusterView:
        """The state as plain values. `time` is the time of the event."""

    def controller(self) -> ControllerView:
        """The controller as `cluster` has it, without the cost of the rest."""

    def broker(self, id: int) -> BrokerView | None:
        """One broker as `cluster` has it; None if it is not registered."""

    def partition(self, topic: str, number: int) -> PartitionView | None:
        """One partition as `cluster` has it; None if it does not exist."""


class RecordedProjection:
    """The fold of a recorded log."""

    view = None

    def __init__(self, log: RecordedLog, start: bytes | None, seq: int) -> None:
        """Begin with a snapshot after event `seq`, or at the log's start. Raises ReplayError."""
        if start is None:
            self._fold = fold_at_start(log.reader)
        else:
            self._fold = load_snapshot(start, log.configuration)
        self.seq = seq
        self._observer = RecordedFactObserver(self._fold, Subject(), log.reader.header)
        self._check = log.commands.begin()

    def apply(self, record: EventRecord, stored: Sequence[CommandRecord] | None = None) -> None:
        """Apply the next event, and compare its commands with those that the log has."""
        self.fold(decode_recorded(record), stored)

    def fold(self, event: Recorded, stored: Sequence[CommandRecord] | None) -> list[Issued]:
        """Apply the next event and return its commands."""
        issued = self._observer.fold_event(event)
        if stored is not None:
            self._check.compare(event, issued, stored)
        self._observer.facts.clear()
        self.seq = event.seq
        return issued

    @property
    def folded(self) -> Fold:
        """The fold, for another observer: this projection must not be used afterwards."""
        return self._fold

    @property
    def begun(self) -> Sequence[Cause]:
        """The procedures that began at the last event, each with the event that caused it."""
        return self._observer.begun

    @property
    def running_since(self) -> int:
        """The event that caused the procedure that is running; 0 if none is."""
        because = self._observer.because
        return because.seq if because is not None else 0

    def topic_name(self, id: str) -> str:
        """The name of a topic by its id in hex; the id itself if it is unknown."""
        return self._observer.topic_name(id)

    def snapshot(self) -> bytes | None:
        """The whole fold, or None while a procedure runs."""
        return take_snapshot(self._fold) if self._fold.is_idle else None

    def cluster(self, time: str, *, keeps_last: bool = False) -> ClusterView:
        """The controller's view of the cluster. With `keeps_last`, what the daemon last knew if it
        has lost the role since the projection began."""
        return self._observer.cluster(self.seq, time, keeps_last=keeps_last)

    def controller(self) -> ControllerView:
        """The role of the daemon."""
        return from_context.controller_of(self._fold, self._fold.controller.context)

    def broker(self, id: int) -> BrokerView | None:
        """A broker as the daemon knows it."""
        return from_context.broker_of(self._fold.controller.context, id)

    def partition(self, topic: str, number: int) -> PartitionView | None:
        """A partition as the daemon knows it."""
        context = self._fold.controller.context
        return from_context.partition_of(context, topic, number, self._observer.rewriting)


class _ZooKeeperSnapshot(msgspec.Struct, array_like=True):
    zxid: int
    parts: list[SessionsRestored | ZnodesRestored]


_decoder: Final = msgspec.msgpack.Decoder(_ZooKeeperSnapshot)


class ImportedProjection:
    """The ZooKeeper of an imported log."""

    def __init__(self, log: ImportedLog, start: bytes | None, seq: int) -> None:
        """Begin with a snapshot after event `seq`, or with the log's first state."""
        self.state = log.state if start is None else _restored_state(start)
        self.view = ZnodeView(self.state.tree, log.begun.chroot)
        self.seq = log.first_seq - 1 if start is None else seq

    def apply(self, record: EventRecord, stored: Sequence[CommandRecord] | None = None) -> None:
        """Apply the next event. Imported logs have no commands."""
        if record.kind in STATE_KINDS:
            apply(self.state, event_of(record))
        self.seq = record.seq

    def snapshot(self) -> bytes | None:
        """All znodes and sessions."""
        return snapshot_of(self.state)

    def cluster(self, time: str) -> ClusterView:
        """The content of ZooKeeper."""
        return from_znodes.cluster_of(self.view, self.seq, time)

    def controller(self) -> ControllerView:
        """The owner of /controller."""
        return from_znodes.controller_of(self.view)

    def broker(self, id: int) -> BrokerView | None:
        """A broker by its registration."""
        return from_znodes.broker_of(self.view, id)

    def partition(self, topic: str, number: int) -> PartitionView | None:
        """A partition by its znodes."""
        return from_znodes.partition_of(self.view, topic, number)


def snapshot_of(state: ZooKeeperState) -> bytes:
    """The snapshot of an imported log in this state."""
    return msgspec.msgpack.encode(_ZooKeeperSnapshot(state.zxid, list(restored_events(state))))


def _restored_state(data: bytes) -> ZooKeeperState:
    snapshot = decode_stored(_decoder.decode, data)
    state = ZooKeeperState()
    for part in snapshot.parts:
        restore(state, part)
    state.zxid = state.exact_from = snapshot.zxid
    return state


def projection_of(log: OpenedLog, start: bytes | None = None, seq: int = 0) -> Projection:
    """The projection at the log's start, or at the snapshot `start` after event `seq`.

    Raises ReplayError.
    """
    try:
        if isinstance(log, RecordedLog):
            return RecordedProjection(log, start, seq or log.reader.header.first_seq - 1)
        # A projection changes its state in place; `log` keeps its first state.
        return ImportedProjection(
            log if start is not None else open_imported(log.reader), start, seq
        )
    except msgspec.DecodeError as error:
        raise ReplayError(f"the snapshot after event {seq} cannot be used: {error}") from error
