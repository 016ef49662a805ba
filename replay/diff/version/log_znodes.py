"""The znodes of ZooKeeper at each event of a log, as far as the log shows them.

A log contains what its controller read and wrote, and the watches that fired, but no transactions
of other clients. Between these, a znode is assumed not to change. A znode that was first read late
is assumed to have the same content since the transaction with its mzxid. If no watch reported a
change, it is assumed to have happened as early as the log allows.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import NamedTuple

from msgspec import structs

from controller.core import znodes
from replay.znode_tree.paths import name_of, parent_of
from replay.znode_tree.tree import Znode

Children = tuple[str, ...]


class ZnodeState(NamedTuple):
    """A znode from event `since` on; None if it does not exist."""

    since: int
    znode: Znode | None


class LogZnodes:
    """Filled by `RecordedHistory` in the order of the log, and queried afterwards."""

    def __init__(self) -> None:
        self._of: dict[str, list[ZnodeState]] = {}
        self._children: dict[str, list[tuple[int, Children]]] = {}
        self._changed: dict[str, int] = {}
        self._read_at: dict[str, int] = {}
        self._children_changed: dict[str, int] = {}
        self._zxids: list[int] = []
        self._zxids_at: list[int] = []
        self.changed_by_others: dict[int, list[str]] = defaultdict(list)
        """By event: znodes that other clients changed before it, with content in the log."""

    # Filling

    def note_transaction(self, seq: int, zxid: int) -> None:
        """Note that transaction `zxid` had happened at event `seq`."""
        if not self._zxids or zxid > self._zxids[-1]:
            self._zxids.append(zxid)
            self._zxids_at.append(seq)

    @property
    def last_zxid(self) -> int:
        """The latest transaction that is known to have happened; 0: none."""
        return self._zxids[-1] if self._zxids else 0

    def fired(self, seq: int, path: str, change: str) -> None:
        """Note a watch event for a change by another client."""
        if change == "children":
            self._children_changed.setdefault(path, seq)
        elif change == "deleted":
            self._changed.pop(path, None)
            self._note_change_by_others(path, seq, None)
        else:
            self._changed.setdefault(path, seq)

    def read(self, seq: int, asked_at: int, path: str, znode: Znode | None) -> None:
        """Note a read znode. `asked_at` is the event that led to the read."""
        seen = self._of.get(path)
        changed_at = self._changed.pop(path, None)
        last_read, self._read_at[path] = self._read_at.get(path, 0), seq
        if seen is None:
            since = (
                asked_at
                if znode is None
                else min(asked_at, self._first_event_after(znode.mzxid, asked_at))
            )
            self._of[path] = [ZnodeState(changed_at or since, znode)]
            return
        before = seen[-1]
        if is_same(before.znode, znode) and not _was_recreated(before.znode, znode):
            seen[-1] = ZnodeState(before.since, _merged_znode(before.znode, znode))
            return
        if changed_at is None and before.znode is not None and not _is_timed(path):
            earliest = max(last_read, self._earliest(znode, asked_at))
            changed_at = min(asked_at, earliest)
        self._note_change_by_others(path, max(before.since, changed_at or asked_at), znode)

    def listed(self, asked_at: int, path: str, children: Children) -> None:
        """Note a list of children. `asked_at` is the event that led to the read."""
        lists = self._children.setdefault(path, [])
        changed_at = self._children_changed.pop(path, None)
        if lists and lists[-1][1] == children:
            return
        since = changed_at if changed_at is not None else asked_at
        lists.append((max(since, lists[-1][0]) if lists else since, children))

    def note_write(self, seq: int, path: str, before: Znode | None, znode: Znode | None) -> None:
        """Note a write of the log's controller. `before` is the znode before the write."""
        self._changed.pop(path, None)
        self._of.setdefault(path, [ZnodeState(0, before)]).append(ZnodeState(seq, znode))
        parent, name = parent_of(path), name_of(path)
        lists = self._children.get(parent)
        if lists and (name in lists[-1][1]) != (znode is not None):
            names = {*lists[-1][1]} ^ {name}
            lists.append((seq, tuple(sorted(names))))

    def latest(self, path: str) -> Znode | None:
        """The last known state of a znode."""
        seen = self._of.get(path)
        return seen[-1].znode if seen else None

    def _note_change_by_others(self, path: str, since: int, znode: Znode | None) -> None:
        self._of.setdefault(path, []).append(ZnodeState(since, znode))
        self.changed_by_others[since].append(path)

    def _earliest(self, znode: Znode | None, otherwise: int) -> int:
        """The first event at which a change that no watch reported may have happened. A version may
        read earlier than the log and for the same reason, such as a request after the change."""
        if znode is None:
            return otherwise
        place = bisect_left(self._zxids, znode.mzxid)
        return self._zxids_at[place - 1] if place else 0

    def _first_event_after(self, zxid: int, otherwise: int) -> int:
        """The first event at which a transaction had certainly happened."""
        place = bisect_left(self._zxids, zxid)
        return self._zxids_at[place] if place < len(self._zxids) else otherwise

    # Queries

    def is_known(self, path: str) -> bool:
        """Whether the log shows that a znode exists or does not exist."""
        if path in self._of:
            return True
        lists = self._children.get(parent_of(path))
        return bool(lists) and not any(name_of(path) in names for _, names in lists or ())

    def znode_at(self, path: str, seq: int) -> Znode | None:
        """The znode after an event. Before the first known state, it is the first known state."""
        seen = self._of.get(path)
        if not seen:
            return None
        place = bisect_right(seen, seq, key=_since_of)
        return seen[max(place - 1, 0)].znode

    def is_early(self, path: str, seq: int) -> bool:
        """Whether the log shows a znode only after event `seq`."""
        seen = self._of.get(path)
        return bool(seen) and seen is not None and seen[0].since > seq

    def children_at(self, path: str, seq: int) -> Children:
        """The children after an event. Before the first list, they are those of the first list."""
        lists = self._children.get(path)
        if not lists:
            return ()
        place = bisect_right(lists, seq, key=lambda one: one[0])
        return lists[max(place - 1, 0)][1]

    def are_children_known(self, path: str) -> bool:
        """Whether the log has a list of children."""
        return path in self._children


def _is_timed(path: str) -> bool:
    """Whether the log shows well enough when other clients change a znode: leaders notify the
    controller of states, and other controllers are elected before they write their epoch."""
    return znodes.partition_of_state(path) is not None or path in (
        znodes.CONTROLLER,
        znodes.CONTROLLER_EPOCH,
    )


def _since_of(seen: ZnodeState) -> int:
    return seen.since


def is_same(one: Znode | None, other: Znode | None) -> bool:
    """Whether two znodes have the same version and data. `other` has no data if only its stat was
    read."""
    if one is None or other is None:
        return one is other
    return one.version == other.version and (one.data == other.data or not other.data)


def _was_recreated(before: Znode | None, now: Znode | None) -> bool:
    """Whether a znode was deleted and created in between. A czxid of 0 is unknown."""
    if before is None or now is None:
        return False
    return before.czxid != now.czxid and bool(before.czxid and now.czxid)


def _merged_znode(before: Znode | None, now: Znode | None) -> Znode | None:
    if before is None or now is None:
        return now
    return structs.replace(now, data=now.data or before.data)
