"""The watches of sessions, and the events of a change in the order of a real server.

The rules are those of ZooKeeper 3.9's WatchManager. A session gets at most one event per table,
path and change. A change of data or existence fires the data table, a change of children the child
table. A deletion fires both, but the child table skips sessions that already got the event from the
data table. Recursive watches are data watches of a whole subtree, so they do not report children.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Literal, Self

from controller.core.events import WatchFired
from replay.znode_tree.paths import ROOT, parent_of

Change = Literal["created", "deleted", "data"]

_ONE_SHOT: Final = 1
_PERSISTENT: Final = 2


class _Table:
    """Watches of single paths. The inner dictionaries (session: kinds) are never modified."""

    def __init__(self) -> None:
        self._watches: dict[str, dict[int, int]] = {}

    def copy(self) -> Self:
        copy = self.__class__()
        copy._watches = self._watches.copy()
        return copy

    def add(self, path: str, session: int, kind: int) -> None:
        watchers = self._watches.get(path, {})
        self._watches[path] = {**watchers, session: watchers.get(session, 0) | kind}

    def fire(self, path: str) -> Iterable[int]:
        """The sessions that watch the path. Removes their one-shot watches."""
        watchers = self._watches.get(path)
        if watchers is None:
            return ()
        left = {one: _PERSISTENT for one, kinds in watchers.items() if kinds & _PERSISTENT}
        self._replace(path, left)
        return watchers

    def move(self, session: int, to: Self) -> None:
        for path, watchers in self._watches.items():
            if session in watchers:
                to.add(path, session, watchers[session])
        self.drop(session)

    def drop(self, session: int) -> None:
        for path, watchers in list(self._watches.items()):
            if session in watchers:
                self._replace(path, {one: watchers[one] for one in watchers if one != session})

    def remove(self, path: str, session: int) -> bool:
        watchers = self._watches.get(path, {})
        if session not in watchers:
            return False
        self._replace(path, {one: watchers[one] for one in watchers if one != session})
        return True

    def _replace(self, path: str, watchers: dict[int, int]) -> None:
        if watchers:
            self._watches[path] = watchers
        else:
            del self._watches[path]


class ServerWatches:
    """The watches of all sessions. Watches belong to a connection: `drop` them when it ends."""

    def __init__(self) -> None:
        self._data = _Table()
        self._child = _Table()
        self._recursive: dict[str, tuple[int, ...]] = {}

    def copy(self) -> Self:
        """Watches that change independently of these."""
        copy = self.__class__()
        copy._data = self._data.copy()
        copy._child = self._child.copy()
        copy._recursive = self._recursive.copy()
        return copy

    def watch_data(self, session: int, path: str) -> None:
        """Add a one-shot watch for data, creation and deletion."""
        self._data.add(path, session, _ONE_SHOT)

    def watch_children(self, session: int, path: str) -> None:
        """Add a one-shot watch for children and deletion."""
        self._child.add(path, session, _ONE_SHOT)

    def watch_always(self, session: int, path: str) -> None:
        """Add a persistent watch."""
        self._data.add(path, session, _PERSISTENT)
        self._child.add(path, session, _PERSISTENT)

    def watch_subtree(self, session: int, path: str) -> None:
        """Add a persistent recursive watch."""
        watchers = self._recursive.get(path, ())
        if session not in watchers:
            self._recursive[path] = (*watchers, session)

    def remove(self, session: int, path: str) -> bool:
        """Remove the watches of a session at a path. Returns whether there were any."""
        watchers = self._recursive.get(path, ())
        is_recursive = session in watchers
        if is_recursive:
            self._recursive[path] = tuple(one for one in watchers if one != session)
            if not self._recursive[path]:
                del self._recursive[path]
        # Both tables, whatever the first returns.
        return any([self._data.remove(path, session), self._child.remove(path, session)]) or (
            is_recursive
        )

    def move(self, session: int, to: Self) -> None:
        """Move all watches of a session to those of another server."""
        self._data.move(session, to._data)
        self._child.move(session, to._child)
        for path, watchers in self._recursive.items():
            if session in watchers:
                to.watch_subtree(session, path)
        self.drop(session)

    def drop(self, session: int) -> None:
        """Remove all watches of a session."""
        self._data.drop(session)
        self._child.drop(session)
        left = {
            path: tuple(one for one in watchers if one != session)
            for path, watchers in self._recursive.items()
        }
        self._recursive = {path: watchers for path, watchers in left.items() if watchers}

    def fire(self, change: Change, path: str, zxid: int) -> Iterator[tuple[int, WatchFired]]:
        """The events of one change, in order, each with the session that receives it."""
        notified = self._fire_data_watches(path)
        for session in notified:
            yield session, WatchFired(path, change, zxid)
        if change == "data":
            return
        if change == "deleted":
            for session in self._child.fire(path):
                if session not in notified:
                    yield session, WatchFired(path, change, zxid)
        parent = parent_of(path)
        for session in self._child.fire(parent):
            yield session, WatchFired(parent, "children", zxid)

    def _fire_data_watches(self, path: str) -> Iterable[int]:
        """Remove the data watches of a path, and return the sessions that had one or that have a
        recursive watch of the path or of a znode above it."""
        watching = self._data.fire(path)
        if not self._recursive:
            return watching
        sessions = dict.fromkeys(watching)
        while True:
            for session in self._recursive.get(path, ()):
                sessions[session] = None
            if path == ROOT:
                return sessions
            path = parent_of(path)
