"""Requests to a ZooKeeper server, in addition to the core's write operations, and its replies."""

from typing import Final

from msgspec import Struct

from controller.core.operations import OK, Check, Create, CreateSequential, Delete, SetData
from replay.znode_tree.tree import Stat

NO_WATCHER: Final = -121
"""The error for the removal of watches at a path where the session has none."""


class Multi(Struct, frozen=True):
    """One transaction of several operations: all or none are applied."""

    operations: tuple["WriteInMulti", ...]


class GetData(Struct, frozen=True, gc=False):
    """Read data and stat; `watch` adds a one-shot data watch if the znode exists."""

    path: str
    watch: bool = False


class Exists(Struct, frozen=True, gc=False):
    """Read the stat; `watch` adds a one-shot data watch, even if the znode does not exist yet."""

    path: str
    watch: bool = False


class GetChildren(Struct, frozen=True, gc=False):
    """List the children; `watch` adds a one-shot child watch if the znode exists."""

    path: str
    watch: bool = False


class MultiRead(Struct, frozen=True):
    """Many reads in one request, each with a separate error. Their watch flags are ignored."""

    reads: tuple[GetData | GetChildren, ...]


class AddWatch(Struct, frozen=True, gc=False):
    """Add a persistent watch to a path, or (`recursive`) to the path and everything below it. The
    znode need not exist.

    A plain watch reports data, creation, deletion and children; a recursive one not children.
    """

    path: str
    recursive: bool = False


class RemoveWatches(Struct, frozen=True, gc=False):
    """Remove all watches of the session at a path."""

    path: str


class SetWatches(Struct, frozen=True):
    """Set the watches of a session again on a new connection, and fire those that would have fired
    since `relative_zxid`. The zxid of these events is -1.

    `data`, `exist` and `child` are one-shot watches on the data of a znode, on the creation of a
    missing one, and on children.
    """

    relative_zxid: int
    data: tuple[str, ...] = ()
    exist: tuple[str, ...] = ()
    child: tuple[str, ...] = ()
    persistent: tuple[str, ...] = ()
    recursive: tuple[str, ...] = ()


class Sync(Struct, frozen=True, gc=False):
    """Bring the server up to date. Succeeds whether the znode exists or not."""

    path: str


Write = Create | CreateSequential | SetData | Delete
WriteInMulti = Write | Check
Read = GetData | Exists | GetChildren
Request = Write | Multi | Read | MultiRead | AddWatch | RemoveWatches | SetWatches | Sync


class OperationResult(Struct, frozen=True):
    """The result of one operation; fields that the operation does not return are None.

    `path` is that of the created znode, with its number if it is sequential. `children` are sorted;
    a real server returns them in no particular order.
    """

    error: int = OK
    path: str | None = None
    data: bytes | None = None
    stat: Stat | None = None
    children: tuple[str, ...] | None = None


class Reply(Struct, frozen=True):
    """The reply to a request: one result per operation; one result if it is not a multi.

    `zxid` is the last transaction that the server has processed, as in the header of the reply.
    """

    zxid: int
    results: tuple[OperationResult, ...]

    @property
    def result(self) -> OperationResult:
        """The result of a request of one operation."""
        (result,) = self.results
        return result
