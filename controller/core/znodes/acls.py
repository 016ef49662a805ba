"""/kafka-acl, /kafka-acl-extended: Kafka's ACLs, and the notifications that they have changed
(ZkData.scala: AclZNode, AclChangeNotificationZNode)."""

from typing import Final, Literal, NamedTuple

import msgspec
from msgspec import Struct

from controller.core.errors import ZnodeError
from controller.core.znodes.schema import decode_znode

LITERAL_ACLS: Final = "/kafka-acl"
EXTENDED_ACLS: Final = "/kafka-acl-extended"
PREFIXED_ACLS: Final = f"{EXTENDED_ACLS}/prefixed"
LITERAL_ACL_CHANGES: Final = "/kafka-acl-changes"
EXTENDED_ACL_CHANGES: Final = "/kafka-acl-extended-changes"
ACL_CHANGES: Final = (LITERAL_ACL_CHANGES, EXTENDED_ACL_CHANGES)

TOPIC: Final = "Topic"
CLUSTER: Final = "Cluster"
ACL_RESOURCE_TYPES: Final = (TOPIC, CLUSTER)
"""The types that the controller needs, as paths have them. Groups, transactional ids, users and
delegation tokens are handled by brokers."""

_LITERAL: Final = "LITERAL"
_PREFIXED: Final = "PREFIXED"


class ResourcePattern(NamedTuple):
    """The resources of ACLs: one name, "*" for all names, or all names with a prefix."""

    type: str
    name: str
    is_prefix: bool = False


class Acl(Struct, frozen=True, rename={"permission": "permissionType"}):
    """One rule of a pattern. Operations are spelt as in ZooKeeper: Read, ClusterAction, All."""

    principal: str
    permission: Literal["Allow", "Deny"]
    operation: str
    host: str


DENIES_ALL: Final = Acl("User:*", "Deny", "All", "*")
"""Forbids everything to everybody but super users."""


class _Acls(Struct, frozen=True):
    version: int
    acls: list[Acl]


class _ExtendedChange(Struct, frozen=True, rename="camel"):
    resource_type: str
    name: str
    pattern_type: str


_acls_decoder = msgspec.json.Decoder(_Acls)
_change_decoder = msgspec.json.Decoder(_ExtendedChange)


def acls_parent(type: str, *, is_prefix: bool) -> str:
    """Where the patterns of a type are stored."""
    return f"{PREFIXED_ACLS if is_prefix else LITERAL_ACLS}/{type}"


def acls_path(pattern: ResourcePattern) -> str:
    """Where the ACLs of a pattern are stored."""
    return f"{acls_parent(pattern.type, is_prefix=pattern.is_prefix)}/{pattern.name}"


def read_acls(path: str, data: bytes | None) -> tuple[Acl, ...]:
    """The ACLs of a pattern, none if its znode is missing. Raises ZnodeError."""
    if not data:
        return ()
    content = decode_znode(_acls_decoder, path, "a list of ACLs", data)
    if content.version != 1:
        raise ZnodeError(f"{path}: version {content.version} of ACLs is unknown")
    return tuple(content.acls)


def read_acl_change(path: str, data: bytes | None) -> ResourcePattern | None:
    """The pattern whose ACLs changed; None for a type that the controller does not need. Raises
    ZnodeError."""
    if path.startswith(f"{LITERAL_ACL_CHANGES}/"):
        kind, _, name = (data or b"").decode(errors="replace").partition(":")
        pattern_type = _LITERAL
    else:
        change = decode_znode(_change_decoder, path, "a change of ACLs", data)
        kind, name, pattern_type = change.resource_type, change.name, change.pattern_type.upper()
    if not name or pattern_type not in (_LITERAL, _PREFIXED):
        raise ZnodeError(f"{path} does not name the ACLs that changed")
    types = {one.upper(): one for one in ACL_RESOURCE_TYPES}
    found = types.get(kind.upper())
    return None if found is None else ResourcePattern(found, name, pattern_type == _PREFIXED)
