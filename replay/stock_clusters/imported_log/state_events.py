"""ZooKeeper states as events of limited size, and back: the first state of an imported log, and the
changes when the whole state is known again after missing transactions."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final

from replay.stock_clusters.imported_log.events import (
    ImportedEvent,
    ImportResumed,
    SessionsGone,
    SessionsRestored,
    ZnodesGone,
    ZnodesRestored,
)
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.transactions import Transaction
from replay.znode_tree.tree import Refused, Znode

PIECE_BYTES_MAX: Final = 512 * 1024
"""The size of an encoded event; a larger znode has a separate event."""

_INT_BYTES: Final = 9
_HEAD_BYTES: Final = 5
_ZNODE_BYTES: Final = 9 * _INT_BYTES + 2 * _HEAD_BYTES
_EVENT_BYTES: Final = 64 + 11 * _HEAD_BYTES
_SESSIONS: Final = (PIECE_BYTES_MAX - _EVENT_BYTES) // (2 * _INT_BYTES)

STATE_KINDS: Final = (
    "transaction",
    "sessions_restored",
    "znodes_restored",
    "sessions_gone",
    "znodes_gone",
    "world_resumed",
)
"""The events that change the state. Lines of brokers' logs, which are most records, do not."""

Row = tuple[str, Znode]
RestoredEvent = SessionsRestored | ZnodesRestored
GoneEvent = SessionsGone | ZnodesGone


def restored_events(state: ZooKeeperState) -> Iterator[RestoredEvent]:
    """A state as events: sessions, then znodes, each in a fixed order."""
    yield from _events_restoring(state.sessions, state.tree.dump())


def changed_events(
    before: ZooKeeperState, after: ZooKeeperState
) -> Iterator[GoneEvent | RestoredEvent]:
    """The events that change one state into another. A znode that was deleted and created again is
    gone first, and then restored."""
    sessions = iter(sorted(before.sessions.keys() - after.sessions.keys()))
    while part := list(islice(sessions, _SESSIONS)):
        yield SessionsGone(part)
    old, new = before.tree.dump(), after.tree.dump()
    gone = [row for row in old.items() if not _is_still_there(row, new)]
    for piece in _pieces(reversed(gone)):
        yield ZnodesGone([path for path, _ in piece])
    yield from _events_restoring(
        dict(after.sessions.items() - before.sessions.items()),
        {path: znode for path, znode in new.items() if old.get(path) != znode},
    )


def apply(state: ZooKeeperState, event: ImportedEvent) -> None:
    """Apply an event to a state; most events change nothing."""
    match event:
        case Transaction():
            state.apply(event)
        case SessionsRestored() | ZnodesRestored():
            restore(state, event)
        case SessionsGone(sessions=sessions):
            for session in sessions:
                state.sessions.pop(session, None)
        case ZnodesGone(paths=paths):
            for path in paths:
                with suppress(Refused):
                    state.tree.get(path)
                    state.tree.remove(path)
        case ImportResumed(zxid=zxid):
            state.zxid = max(state.zxid, zxid)
        case _:
            pass


def restore(state: ZooKeeperState, event: RestoredEvent) -> None:
    """Add the sessions or znodes of an event to a state."""
    if isinstance(event, SessionsRestored):
        state.sessions.update(zip(event.sessions, event.timeouts_ms, strict=True))
        return
    fields = (
        event.data,
        event.czxids,
        event.mzxids,
        event.ctimes,
        event.mtimes,
        event.versions,
        event.creations,
        event.owners,
        event.pzxids,
        event.aversions,
    )
    for path, *values in zip(event.paths, *fields, strict=True):
        state.tree.put(path, Znode(*values))


def _is_still_there(row: Row, znodes: Mapping[str, Znode]) -> bool:
    path, znode = row
    return path in znodes and znodes[path].czxid == znode.czxid


def _events_restoring(
    sessions: Mapping[int, int], znodes: Mapping[str, Znode]
) -> Iterator[RestoredEvent]:
    rest = iter(sorted(sessions.items()))
    while part := list(islice(rest, _SESSIONS)):
        yield SessionsRestored([one for one, _ in part], [timeout for _, timeout in part])
    for piece in _pieces(znodes.items()):
        yield _columns(piece)


def _pieces(rows: Iterable[Row]) -> Iterator[list[Row]]:
    piece: list[Row] = []
    size = _EVENT_BYTES
    for path, znode in rows:
        more = len(path.encode()) + len(znode.data) + _ZNODE_BYTES
        if piece and size + more > PIECE_BYTES_MAX:
            yield piece
            piece, size = [], _EVENT_BYTES
        piece.append((path, znode))
        size += more
    if piece:
        yield piece


def _columns(piece: list[Row]) -> ZnodesRestored:
    znodes = [znode for _, znode in piece]
    return ZnodesRestored(
        [path for path, _ in piece],
        [one.data for one in znodes],
        [one.czxid for one in znodes],
        [one.mzxid for one in znodes],
        [one.ctime for one in znodes],
        [one.mtime for one in znodes],
        [one.version for one in znodes],
        [one.creations for one in znodes],
        [one.owner for one in znodes],
        [one.pzxid for one in znodes],
        [one.aversion for one in znodes],
    )
