"""Replaces names in paths, in the content of znodes, and in requests and answers.

Each function returns its argument with each name replaced by its stand-in from `names`.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from controller.core import znodes
from controller.core.znodes.acls import EXTENDED_ACL_CHANGES, LITERAL_ACL_CHANGES
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
_OF_ACL: Final = {"topic": "topic", "cluster": "none"}
"""The kind of the resources of a type; others are users, groups and the like."""
_PRINCIPAL_TYPE: Final = re.compile(r"(?:[A-Za-z]+:)?")
_RESOURCE_TYPE: Final = re.compile(rb'"resourceType"\s*:\s*"(\w*)"')
_PARTITIONS: Final = {"topic": "topic", "partitions": "text"}
"""A string in place of the list of partitions is what a person wrote by mistake."""
_TOPIC_KEYS: Final = "topic keys"
"""The kind of an object whose keys are topics."""
_VALUES: Final = "values"
"""The kind of an object whose values are configuration values."""
_OF_ZNODE: Final[dict[str, Mapping[str, str]]] = {
    f"{znodes.BROKER_IDS}/": {"host": "host", "endpoints": "address", "rack": "rack"},
    znodes.REASSIGN_PARTITIONS: _PARTITIONS,
    f"{znodes.REASSIGNMENT_REQUESTS}/": {"assignments": _TOPIC_KEYS, "": "text"},
    f"{znodes.REPLICA_DELETIONS}/": {"partitions": _TOPIC_KEYS, "": "text"},
    znodes.PREFERRED_ELECTION: _PARTITIONS,
    f"{znodes.ISR_CHANGES}/": _PARTITIONS,
    f"{znodes.LOG_DIR_EVENTS}/": _PARTITIONS,
    f"{znodes.CONFIG_CHANGES}/": {"entity_path": "entity", "entity_name": "text"},
    "/config/": {"config": _VALUES, "": "text"},
    "/kafka-acl": {"principal": "principal", "host": "host"},
    # Owners, renewers and the secrets of tokens.
    "/delegation_token/": {"": "value"},
    "/consumers/": {"": "text"},
}
"""By the beginning of a path: the kind of the strings below each key; "" for any other key.
_TOPIC_KEYS: the keys of the object below the key are topics. _VALUES: its values are configuration
values."""
REQUEST: Final[Mapping[str, str]] = {
    "topicName": "topic",
    "topic": "topic",
    "host": "host",
    "rack": "rack",
    "principal": "principal",
    "groupId": "principal",
    "transactionalId": "principal",
    "value": "value",
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
            segments[3] = string(names, _kind_of_resource(kind), segments[3])
        case ["kafka-acl-extended", _, kind, _, *_]:
            segments[4] = string(names, _kind_of_resource(kind, is_prefix=True), segments[4])
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
    if data and whole.startswith(f"{names.chroot}{LITERAL_ACL_CHANGES}/"):
        return _changed_resource(names, data)
    if data and whole.startswith(f"{names.chroot}{EXTENDED_ACL_CHANGES}/"):
        found = _RESOURCE_TYPE.search(data)
        kind = _kind_of_resource(found[1].decode() if found else "", is_prefix=True)
        return json(names, data, {"name": kind})
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
            return _json_string(names, _kind_below(kinds, key, enclosing), found[0])
        key = found[1]
        if enclosing and kinds.get(enclosing[-1]) == _TOPIC_KEYS:
            return f'"{names.stand_in_of("topic", key)}"{found[2]}'
        return found[0]

    return _TOKEN.sub(replaced, text).encode()


def _kind_below(kinds: Mapping[str, str], key: str, enclosing: list[str]) -> str:
    """The kind of a string in JSON, by its key and the keys of the objects around it."""
    if not enclosing:
        return "text"
    if kinds.get(enclosing[-1]) == _VALUES:
        return "value"
    return kinds.get(key, kinds.get("", "none"))


def _json_string(names: Names, kind: str, quoted: str) -> str:
    """A string of JSON, as it was spelt unless a name in it is replaced."""
    text = quoted[1:-1]
    if "\\" in text:
        try:
            text = msgspec.json.decode(quoted, type=str)
        except msgspec.DecodeError:
            return f'"{string(names, kind, text)}"'
    after = string(names, kind, text)
    return quoted if after == text else msgspec.json.encode(after).decode()


def _kind_of_resource(kind: str, *, is_prefix: bool = False) -> str:
    """The kind of the names of a type of resources, by Kafka's spellings of the type."""
    found = _OF_ACL.get(kind.lower(), "principal")
    return "prefix" if is_prefix and found == "topic" else found


def _changed_resource(names: Names, data: bytes) -> bytes:
    """The content of a notification about ACLs with literal names: "Topic:orders"."""
    kind, colon, name = data.decode(errors="surrogateescape").partition(":")
    after = string(names, _kind_of_resource(kind), name)
    return f"{kind}{colon}{after}".encode(errors="surrogateescape")


def principal(names: Names, text: str) -> str:
    """A principal, such as "User:alice", or only its name. The type remains."""
    found = _PRINCIPAL_TYPE.match(text)
    kind = found[0] if found else ""
    return kind + names.stand_in_of("principal", text[len(kind) :])


def string(names: Names, kind: str, text: str) -> str:
    """A string that is a name, or contains names."""
    match kind:
        case "topic" | "prefix" | "host" | "rack" | "value":
            return names.stand_in_of(kind, text)
        case "principal":
            return principal(names, text)
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
