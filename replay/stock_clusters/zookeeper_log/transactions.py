"""The transactions in ZooKeeper's logs, one value each.

Names and fields are those of zookeeper.jute. A transaction has the result, not the request: a
`SetData` and a `Check` have the version after them, a `Create` the final name.

Imported logs store these values (replay.stock_clusters.imported_log): a change of a field or a tag
changes every such log and needs an upcaster.
"""

from enum import IntEnum, StrEnum
from typing import Final, TypeAlias

from msgspec import Struct


class OpCode(IntEnum):
    """The `type` of a transaction and of an operation in a multi (ZooDefs.OpCode)."""

    CREATE = 1
    DELETE = 2
    SET_DATA = 5
    SET_ACL = 7
    CHECK = 13
    MULTI = 14
    CREATE_2 = 15
    RECONFIG = 16
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    CREATE_SESSION = -10
    CLOSE_SESSION = -11
    ERROR = -1


# Python 3.11 looks enum members up slowly, and every multi needs this one.
_ERROR: Final = int(OpCode.ERROR)


class ZooKeeperAcl(Struct, frozen=True, array_like=True, gc=False):
    """An access control entry; `perms` is a set of bits (ZooDefs.Perms)."""

    perms: int
    scheme: str
    id: str


Acls: TypeAlias = tuple[ZooKeeperAcl, ...]

OPEN_ACL: Final[Acls] = (ZooKeeperAcl(31, "world", "anyone"),)
"""All permissions for everybody: Kafka's ACL unless zookeeper.set.acl is true."""


class Create(Struct, frozen=True, array_like=True, tag="create", gc=False):
    """A znode of type CREATE or CREATE_2, owned by the session if it is ephemeral.

    `parent_cversion` counts the children ever created under the parent. It is -1 in logs of 3.3,
    which lack it; then it is one more than before.
    """

    path: str
    data: bytes | None
    acls: Acls
    is_ephemeral: bool
    parent_cversion: int


class CreateTtl(Struct, frozen=True, array_like=True, tag="create_ttl", gc=False):
    """A znode that is deleted when it had no children and no change for `ttl_ms`."""

    path: str
    data: bytes | None
    acls: Acls
    parent_cversion: int
    ttl_ms: int


class CreateContainer(Struct, frozen=True, array_like=True, tag="create_container", gc=False):
    """A znode that is deleted with its last child."""

    path: str
    data: bytes | None
    acls: Acls
    parent_cversion: int


class Delete(Struct, frozen=True, array_like=True, tag="delete", gc=False):
    """A deletion by a client (DELETE) or the server (DELETE_CONTAINER, also for TTLs)."""

    path: str


class SetData(Struct, frozen=True, array_like=True, tag="set_data", gc=False):
    """New data; RECONFIG writes /zookeeper/config. `version` is the one after the write."""

    path: str
    data: bytes | None
    version: int


class SetAcl(Struct, frozen=True, array_like=True, tag="set_acl", gc=False):
    """New ACLs. `version` is the znode's aversion after the write."""

    path: str
    acls: Acls
    version: int


class Check(Struct, frozen=True, array_like=True, tag="check", gc=False):
    """A required version. `version` is the required one plus 1."""

    path: str
    version: int


class CreateSession(Struct, frozen=True, array_like=True, tag="create_session", gc=False):
    """A session begins."""

    timeout_ms: int


class CloseSession(Struct, frozen=True, array_like=True, tag="close_session", gc=False):
    """A session ends; `Transaction.session_end` says how.

    `paths` are the ephemeral znodes that are deleted with it; None before 3.6, which does not list
    them.
    """

    paths: tuple[str, ...] | None


class Error(Struct, frozen=True, array_like=True, tag="error", gc=False):
    """A refused operation, with a code of KeeperException: nothing was done."""

    code: int


Operation: TypeAlias = (
    Create | CreateTtl | CreateContainer | Delete | SetData | SetAcl | Check | Error
)


class Multi(Struct, frozen=True, array_like=True, tag="multi", gc=False):
    """Operations of which all were done, or none: `types` has the OpCode of each.

    In a refused multi, operations before the refused one are as requested, the refused one is an
    Error with the reason, and each later one is Error(-2).
    """

    types: tuple[int, ...]
    operations: tuple[Operation, ...]

    @property
    def error(self) -> int:
        """The error code if nothing was done, 0 if all was done."""
        if _ERROR not in self.types:
            return 0
        return next(one.code for one in self.operations if type(one) is Error)


class SessionEnd(StrEnum):
    """How a session ended."""

    EXPIRED = "expired"
    CLOSED = "closed by its client"
    UNKNOWN = "ended"
    """Watches show that the session's znodes are gone, but not why."""


UNKNOWN_CXID: Final = -1
"""The cxid of a closeSession that is known by watches only."""


Content: TypeAlias = Operation | Multi | CreateSession | CloseSession


class TreeDigest(Struct, frozen=True, array_like=True, gc=False):
    """A sum over all znodes after the transaction (from 3.6 on)."""

    version: int
    value: int


class Transaction(
    Struct, frozen=True, array_like=True, tag="transaction", tag_field="kind", gc=False
):
    """One record of a transaction log. `session` is signed, as a Stat's ephemeralOwner is."""

    zxid: int
    session: int
    cxid: int
    time_ms: int
    type: int
    content: Content
    digest: TreeDigest | None = None

    @property
    def session_end(self) -> SessionEnd:
        """How the session ended, if this is its closeSession: ZooKeeper closes an expired session
        itself, without a cxid of the client."""
        if self.cxid == UNKNOWN_CXID:
            return SessionEnd.UNKNOWN
        return SessionEnd.CLOSED if self.cxid else SessionEnd.EXPIRED

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations that took effect: none of a refused transaction, nor of the begin or the
        end of a session."""
        content = self.content
        if isinstance(content, Multi):
            return () if content.error else content.operations
        return () if isinstance(content, (Error, CreateSession, CloseSession)) else (content,)
