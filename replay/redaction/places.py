"""Replaces names in paths, in the content of znodes, and in requests and answers.

Each function returns its argument with each name replaced by its stand-in from `names`.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from controller.core import znodes
from replay.redaction.names import Kind, Names
from replay.world.paths import below

_TOKEN: Final = re.compile(r'[{}]|"((?:[^"\\]|\\.)*)"(\s*:)?')
"""A brace, or a string with the colon after a key."""
_ADDRESS: Final = re.compile(
    r"(?P<before>(?:[A-Z_0-9]+://)?\[?)(?P<host>[^\[\]/]*?)(?P<after>\]?:-?\d+)"
)
_OF_CONFIG: Final[dict[str, Kind]] = {
    "topics": "topic",
    "users": "principal",
    "clients": "principal",
    "ips": "host",
}
_OF_ACL: Final[dict[str, Kind]] = {"Topic": "topic", "topic": "topic"}
_PARTITIONS: Final[dict[str, str]] = {"topic": "topic"}
_TOPIC_KEYS: Final = "topic keys"
"""The kind of an object whose keys are topics."""
_OF_ZNODE: Final[dict[str, Mapping[str, str]]] = {
    f"{znodes.BROKER_IDS}/": {"host": "host", "endpoints": "address", "rack": "rack"},
    znodes.REASSIGN_PARTITIONS: _PARTITIONS,
    f"{znodes.REASSIGNMENT_REQUESTS}/": {"assignments": _TOPIC_KEYS},
    f"{znodes.REPLICA_DELETIONS}/": {"partitions": _TOPIC_KEYS},
    znodes.PREFERRED_ELECTION: _PARTITIONS,
    f"{znodes.ISR_CHANGES}/": _PARTITIONS,
    f"{znodes.LOG_DIR_EVENTS}/": _PARTITIONS,
    f"{znodes.CONFIG_CHANGES}/": {"entity_path": "entity", "entity_name": "text"},
    "/config/": {"": "text"},
    "/kafka-acl": {"principal": "principal", "host": "host"},
    "/consumers/": {"": "text"},
}
"""By the beginning of a path: the kind of the strings below each key; "" for any other key.
_TOPIC_KEYS: the keys of the object below the key are topics."""
REQUEST: Final[Mapping[str, str]] = {
    "topicName": "topic",
    "topic": "topic",
    "host": "host",
    "rack": "rack",
    "principal": "principal",
    "groupId": "principal",
    "transactionalId": "principal",
    "": "text",
}
"""The same for requests in the format of Kafka's request log."""


def path(names: Names, whole: str) -> str:
    """A znode path."""
    chroot = names.chroot
    known = below(whole, chroot)
    if known is None:
        return whole
    segments = known.split("/")
    match segments[1:]:
        case ["brokers", "topics", _, *_] | ["admin", "delete_topics" | "reassignments", _, *_]:
            segments[3] = names.stand_in_of("topic", segments[3])
        case ["config", kind, _, *_] if kind in _OF_CONFIG:
            _entity(names, segments, 2)
        case ["kafka-acl", kind, _, *_]:
            segments[3] = names.stand_in_of(_OF_ACL.get(kind, "principal"), segments[3])
        case ["kafka-acl-extended", _, kind, _, *_]:
            segments[4] = names.stand_in_of(_OF_ACL.get(kind, "principal"), segments[4])
        case ["consumers", _, *rest]:
            segments[2] = names.stand_in_of("principal", segments[2])
            if len(rest) > 1 and rest[0] in ("offsets", "owners"):
                segments[4] = names.stand_in_of("topic", segments[4])
        case _:
            return whole
    return chroot + "/".join(segments)


def child(names: Names, parent: str, name: str) -> str:
    """The name of a child of the znode `parent`."""
    whole = path(names, f"{parent.rstrip('/')}/{name}")
    return whole.rpartition("/")[2]


def address(names: Names, text: str) -> str:
    """A host and a port, with or without a protocol before them."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        return text
    return found["before"] + names.stand_in_of("host", found["host"]) + found["after"]


def znode(names: Names, whole: str, data: bytes | None) -> bytes | None:
    """The content of a znode."""
    for begin, kinds in _OF_ZNODE.items():
        if data and whole.startswith(names.chroot + begin):
            return json(names, data, kinds)
    return data


def json(names: Names, data: bytes, kinds: Mapping[str, str]) -> bytes:
    """JSON, unchanged except for the names. `kinds` has the kind of the strings below each key.
    Data that is no text has no names and is returned unchanged."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    key = ""
    enclosing: list[str] = []
    """The keys of the objects that are open."""

    def replaced(found: re.Match[str]) -> str:
        nonlocal key
        if found[0] == "{":
            enclosing.append(key)
            return found[0]
        if found[0] == "}":
            key = enclosing.pop() if enclosing else ""
            return found[0]
        if found[2] is None:
            kind = kinds.get(key, kinds.get("", "none"))
            return f'"{string(names, kind, found[1])}"'
        key = found[1]
        if enclosing and kinds.get(enclosing[-1]) == _TOPIC_KEYS:
            return f'"{names.stand_in_of("topic", key)}"{found[2]}'
        return found[0]

    return _TOKEN.sub(replaced, text).encode()


def string(names: Names, kind: str, text: str) -> str:
    """A string that is a name, or contains names."""
    match kind:
        case "topic" | "host" | "rack" | "principal":
            return names.stand_in_of(kind, text)
        case "known":
            return names.known("topic", text)
        case "path":
            return path(names, text)
        case "address":
            return address(names, text)
        case "entity":
            segments = text.split("/")
            _entity(names, segments, 0)
            return "/".join(segments)
        case "text":
            return names.text(text)
        case _:
            return text


def _entity(names: Names, segments: list[str], first: int) -> None:
    """Segments of "users/alice/clients/app", from `first` on; JSON may escape the slashes."""
    for place in range(first, len(segments) - 1, 2):
        kind = _OF_CONFIG.get(segments[place].rstrip("\\"))
        if kind is not None:
            name = segments[place + 1]
            segments[place + 1] = (
                names.stand_in_of(kind, name.rstrip("\\")) + name[len(name.rstrip("\\")) :]
            )


def row(names: Names, kinds: tuple[str, ...], values: Any) -> Any:
    """A tuple; `kinds` has the kinds of its first strings."""
    return type(values)(
        string(names, kind, one) if isinstance(one, str) else one
        for kind, one in zip((*kinds, *("none",) * len(values)), values, strict=False)
    )
