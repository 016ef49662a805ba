"""A log's state, taken on event by event: what a snapshot is made of and goes on from."""

from typing import Final, Protocol

import msgspec

from controller.core.commands import Issued
from controller.core.events import Recorded
from controller.core.snapshot import load_snapshot, take_snapshot
from eventstore.records import EventRecord
from replay.cluster_view.of_znodes import cluster_of
from replay.cluster_view.views import Cluster
from replay.errors import ReplayError
from replay.logs.decode import recorded
from replay.logs.open_log import OpenedLog, RecordedLog
from replay.logs.recorded_fold import fold_at_start
from replay.stock_clusters.agreement.trace.znode_view import ZnodeView
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import SessionsRestored, ZnodesRestored
from replay.stock_clusters.imported_log.reading import ImportedLog, open_world
from replay.stock_clusters.imported_log.restored import STATE_KINDS, apply, restore, restored_events
from replay.stock_clusters.zookeeper_log.restoring import State
from replay.why.recorded_observer import RecordedFactObserver
from replay.why.subject import Subject


class Folding(Protocol):
    """The state after event `seq`."""

    seq: int

    def take(self, record: EventRecord) -> None:
        """Take in the next event."""

    def snapshot(self) -> bytes | None:
        """The whole state; None at a moment at which none can be taken."""

    def cluster(self, time: str) -> Cluster:
        """The state as plain values; `time` is that of the event."""


class RecordedFolding:
    """The fold of a recorded log."""

    def __init__(self, log: RecordedLog, start: bytes | None, seq: int) -> None:
        """From a snapshot, that after event `seq`, or from the log's start. Raises ReplayError."""
        if start is None:
            self._fold = fold_at_start(log.reader)
        else:
            self._fold = load_snapshot(start, log.configuration)
        self.seq = seq
        self._observer = RecordedFactObserver(self._fold, Subject(), log.reader.header)

    def take(self, record: EventRecord) -> None:
        """Take in the next event."""
        self.fold(recorded(record))

    def fold(self, event: Recorded) -> list[Issued]:
        """Take in the next event; its commands."""
        issued = self._observer.fold_event(event)
        self._observer.facts.clear()
        self.seq = event.seq
        return issued

    def topic_name(self, id: str) -> str:
        """The topic whose id a request gives in hex; the id itself if it is not known."""
        return self._observer.topic_name(id)

    def snapshot(self) -> bytes | None:
        """The whole fold, between two procedures."""
        return take_snapshot(self._fold) if self._fold.is_idle else None

    def cluster(self, time: str) -> Cluster:
        """What the controller knows."""
        return self._observer.cluster(self.seq, time, keeps_last=False)


class _WorldSnapshot(msgspec.Struct, array_like=True):
    zxid: int
    parts: list[SessionsRestored | ZnodesRestored]


_decoder: Final = msgspec.msgpack.Decoder(_WorldSnapshot)


class WorldFolding:
    """The ZooKeeper of an imported log."""

    def __init__(self, log: ImportedLog, start: bytes | None, seq: int) -> None:
        """As for a recorded log; the first state is there already when a log is opened."""
        self._state = log.state if start is None else _restored(start)
        self._view = ZnodeView(self._state.tree, log.begun.chroot)
        self.seq = log.first_seq - 1 if start is None else seq

    def take(self, record: EventRecord) -> None:
        """Take in the next event."""
        if record.kind in STATE_KINDS:
            apply(self._state, event_of(record))
        self.seq = record.seq

    def snapshot(self) -> bytes | None:
        """All znodes and sessions."""
        parts = list(restored_events(self._state))
        return msgspec.msgpack.encode(_WorldSnapshot(self._state.zxid, parts))

    def cluster(self, time: str) -> Cluster:
        """What stands in ZooKeeper."""
        return cluster_of(self._view, self.seq, time)


def _restored(data: bytes) -> State:
    snapshot = _decoder.decode(data)
    state = State()
    for part in snapshot.parts:
        restore(state, part)
    state.zxid = state.exact_from = snapshot.zxid
    return state


def folding_of(log: OpenedLog, start: bytes | None = None, seq: int = 0) -> Folding:
    """The state at the log's start, or at a snapshot. Raises ReplayError."""
    try:
        if isinstance(log, RecordedLog):
            return RecordedFolding(log, start, seq or log.reader.header.first_seq - 1)
        # A state is taken on in place: whoever opened the log keeps its own.
        return WorldFolding(log if start is not None else open_world(log.reader), start, seq)
    except msgspec.DecodeError as error:
        raise ReplayError(f"the snapshot after event {seq} cannot be used: {error}") from error
