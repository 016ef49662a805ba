"""The content of Kafka's ACLs and of the notifications that they have changed."""

import pytest

from controller.core.errors import ZnodeError
from controller.core.znodes.acls import Acl, ResourcePattern, read_acl_change, read_acls

LITERAL_CHANGE = "/kafka-acl-changes/acl_changes_0000000000"
EXTENDED_CHANGE = "/kafka-acl-extended-changes/acl_changes_0000000000"
RULE = b'{"principal":"User:a","permissionType":"Allow","operation":"Read","host":"*"}'


def extended(type: str, name: str, pattern_type: str) -> bytes:
    return (
        f'{{"version":1,"resourceType":"{type}","name":"{name}","patternType":"{pattern_type}"}}'
    ).encode()


@pytest.mark.parametrize("data", [None, b""])
def test_pattern_without_content_has_no_acls(data: bytes | None) -> None:
    assert read_acls("/kafka-acl/Topic/t", data) == ()


def test_acls_of_another_version_are_rejected() -> None:
    acls = read_acls("/kafka-acl/Topic/t", b'{"version":1,"acls":[%s]}' % RULE)
    assert acls == (Acl("User:a", "Allow", "Read", "*"),)
    with pytest.raises(ZnodeError, match="/kafka-acl/Topic/t: version 2"):
        read_acls("/kafka-acl/Topic/t", b'{"version":2,"acls":[%s]}' % RULE)


@pytest.mark.parametrize(
    ("path", "data", "changed"),
    [
        (LITERAL_CHANGE, b"Topic:a:b", ResourcePattern("Topic", "a:b")),
        (LITERAL_CHANGE, b"Group:g", None),
        (EXTENDED_CHANGE, extended("TOPIC", "a", "LITERAL"), ResourcePattern("Topic", "a")),
        (EXTENDED_CHANGE, extended("TOPIC", "a", "PREFIXED"), ResourcePattern("Topic", "a", True)),
        (EXTENDED_CHANGE, extended("GROUP", "g", "PREFIXED"), None),
    ],
)
def test_notification_names_a_pattern_that_the_controller_needs_or_none(
    path: str, data: bytes, changed: ResourcePattern | None
) -> None:
    assert read_acl_change(path, data) == changed


@pytest.mark.parametrize(
    ("path", "data"),
    [
        (LITERAL_CHANGE, None),
        (LITERAL_CHANGE, b"Topic"),
        (LITERAL_CHANGE, b"Topic:"),
        (EXTENDED_CHANGE, None),
        (EXTENDED_CHANGE, extended("TOPIC", "", "PREFIXED")),
        (EXTENDED_CHANGE, extended("TOPIC", "a", "MATCH")),
    ],
)
def test_notification_that_names_no_pattern_is_rejected(path: str, data: bytes | None) -> None:
    with pytest.raises(ZnodeError, match=path):
        read_acl_change(path, data)
