"""Authorization by Kafka's ACLs: the rules of AclAuthorizer (KIP-11, KIP-290)."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from controller.core.api_requests.received_request import ANONYMOUS, ClientIdentity
from controller.core.configuration import Authorization
from controller.core.znodes.acls import CLUSTER, TOPIC, Acl, ResourcePattern

ALL: Final = "All"
ALTER: Final = "Alter"
CREATE: Final = "Create"
DELETE: Final = "Delete"
DESCRIBE: Final = "Describe"
DESCRIBE_CONFIGS: Final = "DescribeConfigs"

_IMPLIED_BY: Final = {
    DESCRIBE: (DESCRIBE, "Read", "Write", DELETE, ALTER),
    DESCRIBE_CONFIGS: (DESCRIBE_CONFIGS, "AlterConfigs"),
}
"""A client that is allowed one of these operations is allowed the first one (AclAuthorizer)."""
_ANY: Final = "*"
_EVERY_USER: Final = "User:*"
_UNKNOWN_CLIENT: Final = ClientIdentity(ANONYMOUS, "")

Acls = dict[ResourcePattern, tuple[Acl, ...]]
"""All ACLs of topics and of the cluster."""


class Resource(NamedTuple):
    """The resource of an operation: a topic, or the cluster."""

    type: str
    name: str


THE_CLUSTER: Final = Resource(CLUSTER, "kafka-cluster")


def topic_resource(name: str) -> Resource:
    """The topic of that name."""
    return Resource(TOPIC, name)


class AclIndex:
    """The ACLs by pattern. Prefixes are found by their lengths, so that many cost little."""

    def __init__(self) -> None:
        self.acls: Acls = {}
        self._prefix_lengths: dict[int, int] = {}

    def set(self, pattern: ResourcePattern, acls: tuple[Acl, ...]) -> None:
        """Replace the ACLs of a pattern; none deletes it."""
        if pattern.is_prefix and bool(acls) is not (pattern in self.acls):
            length = len(pattern.name)
            count = self._prefix_lengths.pop(length, 0) + (1 if acls else -1)
            if count:
                self._prefix_lengths[length] = count
        if acls:
            self.acls[pattern] = acls
        else:
            self.acls.pop(pattern, None)

    def matching(self, resource: Resource) -> list[Acl]:
        """The ACLs of all patterns that a resource matches."""
        kind, name = resource
        patterns = [ResourcePattern(kind, name), ResourcePattern(kind, _ANY)]
        patterns += [
            ResourcePattern(kind, name[:length], True)
            for length in self._prefix_lengths
            if length <= len(name)
        ]
        return [acl for one in dict.fromkeys(patterns) for acl in self.acls.get(one, ())]


def refusal(
    acls: AclIndex,
    rules: Authorization,
    client: ClientIdentity | None,
    operation: str,
    resource: Resource,
) -> str | None:
    """Why a client may not do that; None if it may (AclAuthorizer.authorizeAction).

    A denial takes precedence over everything but super users. A client without an identity is
    anonymous.
    """
    who = client or _UNKNOWN_CLIENT
    if who.principal in rules.super_users:
        return None
    found = acls.matching(resource)
    if not found and rules.allows_without_acl:
        return None
    what = f"{operation} on {resource.type}"
    if _has(found, "Deny", who, (operation,)):
        return f"an ACL denies {what}"
    if _has(found, "Allow", who, _IMPLIED_BY.get(operation, (operation,))):
        return None
    return f"no ACL allows {what}"


def _has(
    acls: Iterable[Acl], permission: str, who: ClientIdentity, operations: tuple[str, ...]
) -> bool:
    return any(
        one.permission == permission
        and one.principal in (who.principal, _EVERY_USER)
        and one.host in (who.host, _ANY)
        and one.operation in (*operations, ALL)
        for one in acls
    )
