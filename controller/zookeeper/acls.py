"""The access control lists of znodes that refold creates, as Kafka's ZkData.defaultAcls has them.

ZooKeeper knows the creator by the logins of the session; a session without one cannot create
znodes with such a list. refold changes no list of an existing znode.
"""

from typing import Final, NamedTuple

from aiozk.protocol.acl import ACL, UNRESTRICTED_ACCESS

from controller.core.znodes import BROKER_CONFIGS, DELEGATION_TOKENS, USER_CONFIGS
from controller.zookeeper.wire import acl_vector

_SENSITIVE: Final = (USER_CONFIGS, BROKER_CONFIGS, DELEGATION_TOKENS)
"""Only the creator may read znodes whose path begins so (ZkData.SensitiveRootPaths)."""


class ZnodeAcls(NamedTuple):
    """Encoded lists: for znodes in general, and for sensitive ones."""

    general: bytes
    sensitive: bytes

    def acl_of(self, path: str) -> bytes:
        """The list of a new znode; `path` is without the chroot."""
        return self.sensitive if path.startswith(_SENSITIVE) else self.general


_CREATOR: Final = ACL.make("auth", "", read=True, write=True, create=True, delete=True, admin=True)
_READERS: Final = ACL.make("world", "anyone", read=True)
_OPEN: Final = acl_vector((UNRESTRICTED_ACCESS,))

OPEN_ACLS: Final = ZnodeAcls(_OPEN, _OPEN)
"""Everyone may do everything, as without `zookeeper.set.acl`."""

CREATOR_ACLS: Final = ZnodeAcls(acl_vector((_CREATOR, _READERS)), acl_vector((_CREATOR,)))
"""The lists with `zookeeper.set.acl`: everyone may read what is not sensitive."""
