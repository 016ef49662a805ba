"""The watches of a session, so that repeated ones cost nothing and a reconnect loses none.

From ZooKeeper 3.6 on each path gets one persistent watch, which remains for the session and serves
all purposes. On older servers each read sets a one-shot watch, which is gone once it has fired. A
persistent watch also reports changes of children. Events that nothing asked for are dropped here,
so that both kinds of server yield the same events.

There is one entry per path that the session has ever watched. In addition, the whole subtrees of
some paths can be watched, from ZooKeeper 3.6 on. Changes during a reconnect are then lost.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from controller.core.operations import OK
from controller.zookeeper.wire import WatchLists

LIST_CHARACTERS_MAX: Final = 128 * 1024
"""Path characters in one setWatches, far below jute.maxbuffer."""

FullPath = Callable[[str], str]
"""Adds the chroot to a path."""


@dataclass(slots=True)
class Watch:
    """The watches at one path. `exists` is the last known state; None if unknown."""

    persistent: bool = False
    data: bool = False
    children: bool = False
    exists: bool | None = None


class SessionWatches:
    """The watches of one session, by path.

    `refusals`: by path the error of a persistent watch that the server refused. Replies come in the
    order of the requests, so this also holds for reads that were sent after the watch and before
    its reply.
    """

    def __init__(self) -> None:
        self._watches: dict[str, Watch] = {}
        self.refusals: dict[str, int] = {}
        self._subtrees: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._watches)

    def add_persistent(self, path: str) -> bool:
        """Note that a persistent watch is being set. Return False if the path already has it."""
        watch = self._watches.setdefault(path, Watch())
        if watch.persistent:
            return False
        watch.persistent = True
        return True

    def set_subtree(self, path: str, *, ends: bool) -> None:
        """Note that a subtree is being watched, or no longer is."""
        if ends:
            self._subtrees.pop(path, None)
        else:
            self._subtrees[path] = None

    def persistent_answered(self, path: str, error: int) -> None:
        """Note the server's reply about a persistent watch. Forget a watch that it refused."""
        if error == OK:
            self.refusals.pop(path, None)
        else:
            self._watches.pop(path, None)
            self.refusals[path] = error

    def data_read(self, path: str, exists: bool) -> None:
        """Note that the data or the creation of a path is watched, and whether it exists."""
        watch = self._watches.setdefault(path, Watch())
        watch.data = True
        watch.exists = exists

    def children_read(self, path: str, exists: bool) -> None:
        """Note that the children of a path are watched, and whether it exists."""
        watch = self._watches.setdefault(path, Watch())
        watch.children = True
        watch.exists = exists

    def fired(self, path: str, change: str) -> bool:
        """Note a watch event. Return whether it was asked for."""
        watch = self._watches.get(path)
        in_subtree = change != "children" and self._is_in_subtree(path)
        if watch is None:
            return in_subtree
        asked = watch.children if change == "children" else watch.data or change != "data"
        watch.exists = change != "deleted"
        if not watch.persistent:
            if change == "deleted":
                watch.data = watch.children = False
            elif change == "children":
                watch.children = False
            else:
                watch.data = False
            if not (watch.data or watch.children):
                del self._watches[path]
        return asked or in_subtree

    def _is_in_subtree(self, path: str) -> bool:
        return any(f"{path}/".startswith(f"{one.rstrip('/')}/") for one in self._subtrees)

    def lists(self, full_path: FullPath, *, persistent: bool) -> Iterator[WatchLists]:
        """The watches to set again after a reconnect, in portions.

        For one-shot watches only, the server fires missed changes at once. A persistent watch is
        therefore listed under both kinds: the persistent watch is set last and remains. For a
        server without persistent watches (`persistent` is false) all become one-shot watches.
        """
        paths: list[str] = []
        size = 0
        for path in self._watches:
            paths.append(path)
            size += len(path)
            if size >= LIST_CHARACTERS_MAX:
                yield self._portion(paths, full_path, persistent)
                paths, size = [], 0
        if paths:
            yield self._portion(paths, full_path, persistent)
        if not persistent:
            self._subtrees.clear()
        if self._subtrees:
            yield WatchLists([], [], [], [], [full_path(one) for one in self._subtrees])

    def _portion(self, paths: Iterable[str], full_path: FullPath, persistent: bool) -> WatchLists:
        lists = WatchLists([], [], [], [], [])
        for path in paths:
            watch, full = self._watches[path], full_path(path)
            if watch.exists and watch.data:
                lists.data.append(full)
            if watch.exists and watch.children:
                lists.child.append(full)
            if watch.exists is False:
                lists.exist.append(full)
            if not persistent:
                watch.persistent = False
            elif watch.persistent:
                lists.persistent.append(full)
        return lists
