"""ZooKeeper's write operations and error codes, as core decides them and the session sends them."""

from typing import Final

from msgspec import Struct

OK: Final = 0
RUNTIME_INCONSISTENCY: Final = -2
"""In a failed multi: an operation after the one that failed, never tried."""
CONNECTION_LOSS: Final = -4
"""The connection was lost before the reply came: done or not, nobody knows."""
NO_NODE: Final = -101
NO_AUTH: Final = -102
BAD_VERSION: Final = -103
NO_CHILDREN_FOR_EPHEMERALS: Final = -108
NODE_EXISTS: Final = -110
NOT_EMPTY: Final = -111
SESSION_EXPIRED: Final = -112
FENCED: Final = -1000
"""refold's own: the check of /controller_epoch beside the operation failed (KB 1.3.3)."""


class Create(Struct, frozen=True, array_like=True, tag="create", gc=False):
    """Create a znode; ephemeral ones live as long as the session."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


class CreateSequential(Struct, frozen=True, array_like=True, tag="create_sequential", gc=False):
    """Create a znode whose name ends in the parent's ten-digit counter. One whose reply was lost
    may be there twice when it is tried again."""

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
    """Check that a znode has `version`; of use in a multi only."""

    path: str
    version: int


WriteOperation = Create | CreateSequential | SetData | Delete | Check
