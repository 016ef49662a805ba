"""ZooKeeper's write operations and error codes, shared by the core and the session."""

from typing import Final

from msgspec import Struct

OK: Final = 0
RUNTIME_INCONSISTENCY: Final = -2
"""In a failed multi: the operation follows the failed one and was not tried."""
CONNECTION_LOSS: Final = -4
"""The connection was lost before the reply: whether the operation was done is unknown."""
UNIMPLEMENTED: Final = -6
"""The server's version does not support the operation."""
NO_NODE: Final = -101
NO_AUTH: Final = -102
BAD_VERSION: Final = -103
NO_CHILDREN_FOR_EPHEMERALS: Final = -108
NODE_EXISTS: Final = -110
NOT_EMPTY: Final = -111
SESSION_EXPIRED: Final = -112
FENCED: Final = -1000
"""refold's code: the check of /controller_epoch next to the operation failed (KB 1.3.3)."""


class Create(Struct, frozen=True, array_like=True, tag="create", gc=False):
    """Create a znode; an ephemeral one is deleted when the session ends."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


class CreateSequential(Struct, frozen=True, array_like=True, tag="create_sequential", gc=False):
    """Create a znode whose name ends in the parent's ten-digit counter. If its reply is lost and it
    is tried again, there may be two."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


class SetData(Struct, frozen=True, array_like=True, tag="set", gc=False):
    """Set a znode's data if its version is `version` (-1: any)."""

    path: str
    data: bytes
    version: int


class Delete(Struct, frozen=True, array_like=True, tag="delete", gc=False):
    """Delete a znode if its version is `version` (-1: any)."""

    path: str
    version: int


class Check(Struct, frozen=True, array_like=True, tag="check", gc=False):
    """Check that a znode has `version`; only in a multi."""

    path: str
    version: int


WriteOperation = Create | CreateSequential | SetData | Delete | Check
