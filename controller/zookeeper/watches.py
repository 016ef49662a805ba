"""Which watches a session has, so that a repeated one costs nothing and a reconnect loses none.

From ZooKeeper 3.6 on a path gets one persistent watch, which stays for the session and serves every
interest in that path; on older servers each read sets a one-shot watch, which is gone when it has
fired. A persistent watch tells of children too: what nobody asked for is dropped here, so that both
kinds of server tell the same.

Entries grow with the number of different paths that the session ever watched.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from controller.zookeeper.wire import WatchLists

LIST_CHARACTERS_MAX: Final = 128 * 1024
"""Of paths in one setWatches: far below jute.maxbuffer."""

FullPath = Callable[[str], str]
"""Puts the chroot before a path."""


@dataclass(slots=True)
class Watch:
    """The interest in one path. `exists` is what was seen last; None: nothing yet."""

    persistent: bool = False
    data: bool = False
    children: bool = False
    exists: bool | None = None


class Watches:
    """The watches of one session, by path."""

    def __init__(self) -> None:
        self._watches: dict[str, Watch] = {}

    def __len__(self) -> int:
        return len(self._watches)

    def add_persistent(self, path: str) -> bool:
        """Note that a persistent watch is being set; False when the path has it already."""
        watch = self._watches.setdefault(path, Watch())
        if watch.persistent:
            return False
        watch.persistent = True
        return True

    def refused(self, path: str) -> None:
        """Forget a watch that the server did not set."""
        self._watches.pop(path, None)

    def data_read(self, path: str, exists: bool) -> None:
        """Note an interest in the data of a path, or in its creation, and whether it was there."""
        watch = self._watches.setdefault(path, Watch())
        watch.data = True
        watch.exists = exists

    def children_read(self, path: str, exists: bool) -> None:
        """Note an interest in the children of a path, and whether it was there."""
        watch = self._watches.setdefault(path, Watch())
        watch.children = True
        watch.exists = exists

    def fired(self, path: str, change: str) -> bool:
        """Note a watch event; whether anybody asked for it."""
        watch = self._watches.get(path)
        if watch is None:
            return False
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
        return asked

    def lists(self, full_path: FullPath, *, persistent: bool) -> Iterator[WatchLists]:
        """What to watch again after a reconnect, in portions.

        The server fires at once what changed meanwhile for one-shot watches only, so a persistent
        one is listed under both: it comes last and stays. To a server without persistent watches
        (`persistent` false) they go as one-shot ones.
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

    def _portion(self, paths: Iterable[str], full_path: FullPath, persistent: bool) -> WatchLists:
        lists = WatchLists([], [], [], [])
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
