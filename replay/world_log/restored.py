"""The state that a world-backed log begins with: to events of limited size, and back."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from replay.world.tree import Znode
from replay.world_log.events import SessionsRestored, ZnodesRestored
from replay.zookeeper_log.restoring import State

PIECE_BYTES_MAX: Final = 512 * 1024
"""Of an encoded event; a single znode that is larger has an event of its own."""

_INT_BYTES: Final = 9
_HEAD_BYTES: Final = 5
_ZNODE_BYTES: Final = 9 * _INT_BYTES + 2 * _HEAD_BYTES
_EVENT_BYTES: Final = 64 + 11 * _HEAD_BYTES
_SESSIONS: Final = (PIECE_BYTES_MAX - _EVENT_BYTES) // (2 * _INT_BYTES)

Row = tuple[str, Znode]


def restored_events(state: State) -> Iterator[SessionsRestored | ZnodesRestored]:
    """Sessions, then znodes, each in a fixed order."""
    sessions = iter(sorted(state.sessions.items()))
    while part := list(islice(sessions, _SESSIONS)):
        yield SessionsRestored([one for one, _ in part], [timeout for _, timeout in part])
    for piece in _pieces(state):
        yield _columns(piece)


def restore(state: State, event: SessionsRestored | ZnodesRestored) -> None:
    """Put what an event holds into a state."""
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


def _pieces(state: State) -> Iterator[list[Row]]:
    piece: list[Row] = []
    size = _EVENT_BYTES
    for path, znode in state.tree.dump().items():
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
