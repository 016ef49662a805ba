"""What a client asks a ZooKeeper server, beyond core's write operations, and what it answers."""

from typing import Final, NamedTuple

from msgspec import Struct

from controller.core.operations import OK, Check, Create, CreateSequential, Delete, SetData

BAD_ARGUMENTS: Final = -8
"""A path that is malformed, or that may not be deleted."""


class Multi(Struct, frozen=True):
    """One transaction of all the operations or of none."""

    operations: tuple["WriteInMulti", ...]


class GetData(Struct, frozen=True, gc=False):
    """Read data and stat; `watch` arms a one-shot data watch if the znode exists."""

    path: str
    watch: bool = False


class Exists(Struct, frozen=True, gc=False):
    """Read the stat; `watch` arms a one-shot data watch, also where there is no znode yet."""

    path: str
    watch: bool = False


class GetChildren(Struct, frozen=True, gc=False):
    """List the children; `watch` arms a one-shot child watch if the znode exists."""

    path: str
    watch: bool = False


class MultiRead(Struct, frozen=True):
    """Many reads in one request, each with its own error. Their watch flags do not count."""

    reads: tuple[GetData | GetChildren, ...]


class AddWatch(Struct, frozen=True, gc=False):
    """Watch a path for ever, or it and all below it. The znode need not exist.

    A plain one tells of data, creation, deletion and children; a recursive one never of children.
    """

    path: str
    recursive: bool = False


class Sync(Struct, frozen=True, gc=False):
    """Bring the server up to date. Always answered, whether the znode exists or not."""

    path: str


Write = Create | CreateSequential | SetData | Delete
WriteInMulti = Write | Check
Read = GetData | Exists | GetChildren
Request = Write | Multi | Read | MultiRead | AddWatch | Sync


class Stat(NamedTuple):
    """ZooKeeper's Stat, fields in the order of the wire; times in milliseconds."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class Result(Struct, frozen=True):
    """What became of one operation; what it does not return is None.

    `path` is the created znode's, with its number if it is sequential. Children are sorted: a
    server lists them in no order.
    """

    error: int = OK
    path: str | None = None
    data: bytes | None = None
    stat: Stat | None = None
    children: tuple[str, ...] | None = None


class Reply(Struct, frozen=True):
    """The answer to a request: a result for each operation of it, one if it is not a multi.

    `zxid` is the last transaction that the server has processed, as in the reply's header.
    """

    zxid: int
    results: tuple[Result, ...]

    @property
    def result(self) -> Result:
        """The result of a request of one operation."""
        (result,) = self.results
        return result
