"""Sequential notifications: of ISR changes, failed log directories, changed configurations and
changed ACLs."""

import re
from typing import Final

import msgspec
from msgspec import Struct

from controller.core.znodes.acls import EXTENDED_ACL_CHANGES, LITERAL_ACL_CHANGES
from controller.core.znodes.schema import Int32, Name, decode_znode, names_decoder

ISR_CHANGES: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
CONFIG_CHANGES: Final = "/config/changes"

_PREFIXES: Final = {
    ISR_CHANGES: "isr_change_",
    LOG_DIR_EVENTS: "log_dir_event_",
    CONFIG_CHANGES: "config_change_",
    LITERAL_ACL_CHANGES: "acl_changes_",
    EXTENDED_ACL_CHANGES: "acl_changes_",
}
CONFIG_CHANGE_PREFIX: Final = f"{CONFIG_CHANGES}/{_PREFIXES[CONFIG_CHANGES]}"
"""The path of a notification of changed configurations, without the number that follows."""

_DIGITS: Final = re.compile("[0-9]{10}")


def notification_path(parent: str, child: str) -> str:
    """The path of a notification below a parent of notifications."""
    return f"{parent}/{child}"


def is_notification(parent: str, child: str) -> bool:
    """Whether a child's name is that of a sequential notification."""
    return child.startswith(_PREFIXES[parent])


def is_numbered_notification(parent: str, child: str) -> bool:
    """Whether a child's name is that of a notification, with ZooKeeper's ten digits."""
    prefix = _PREFIXES[parent]
    return child.startswith(prefix) and _DIGITS.fullmatch(child, len(prefix)) is not None


def read_isr_change(path: str, data: bytes | None) -> list[Name]:
    """The partitions that an ISR notification names. Raises ZnodeError."""
    return decode_znode(names_decoder, path, "an ISR notification", data).names


class _LogDirEvent(Struct, frozen=True):
    broker: Int32


_log_dir_decoder = msgspec.json.Decoder(_LogDirEvent)


def read_log_dir_event(path: str, data: bytes | None) -> int:
    """The broker with a failed log directory. Raises ZnodeError."""
    return decode_znode(_log_dir_decoder, path, "a log directory event", data).broker


class _ConfigChange(Struct, frozen=True):
    entity_path: str


_config_change_decoder = msgspec.json.Decoder(_ConfigChange)


def read_config_change(path: str, data: bytes | None) -> str:
    """The entity whose configuration changed, such as "topics/t". Raises ZnodeError."""
    return decode_znode(_config_change_decoder, path, "a configuration change", data).entity_path


def write_config_change(entity: str) -> bytes:
    """The content of a notification that the configuration of an entity such as "users/u" changed
    (ConfigEntityChangeNotificationSequenceZNode.encode)."""
    return msgspec.json.encode({"version": 2, "entity_path": entity})
