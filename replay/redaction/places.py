"""Replaces names in paths, in the content of znodes, and in requests and responses.

Each function returns its argument with each name replaced by its stand-in from `names`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from controller.core.znodes.acls import EXTENDED_ACL_CHANGES, LITERAL_ACL_CHANGES
from replay.redaction import shapes
from replay.redaction.names import Names
from replay.redaction.shapes import JsonShape, ZnodeShape
from replay.znode_tree.paths import ROOT, below

_TOKEN: Final = re.compile(r'[{}]|"((?:[^"\\]|\\.)*)"(\s*:)?')
"""A brace, or a string with the colon after a key."""
_ADDRESS: Final = re.compile(
    r"(?P<before>(?:\w+://)?\[?)(?P<host>[^\[\]/]*?)(?P<after>\]?:-?\d+)", re.ASCII
)
_OF_ACL: Final = {"topic": "topic", "cluster": "cluster"}
"""The kind of the resources of a type; others are users, groups and the like."""
_PRINCIPAL_TYPE: Final = re.compile(r"(?:User:)?")
_RESOURCE_TYPE: Final = re.compile(rb'"resourceType"\s*:\s*"(\w*)"')
_LITERAL: Final = re.compile(rb'"patternType"\s*:\s*"LITERAL"', re.IGNORECASE)
_SHAPES: Final = {
    "broker": re.compile(r"-?\d+|<default>", re.ASCII),
    "cluster id": re.compile(r"[\w-]+", re.ASCII),
    "config key": re.compile(r"[\w.-]+", re.ASCII),
    "deletion": re.compile(r"\d+_\d+", re.ASCII),
    "listener": re.compile(r"\w+", re.ASCII),
    "number": re.compile(r"-?\d*", re.ASCII),
    "plain": re.compile(r"(?:-?\d+)?", re.ASCII),
    "topic id": re.compile(r"[\w-]{22}(?:==)?", re.ASCII),
}
"""The words of the kinds that are no names, which remain. Anything else in their place is a foreign
word."""
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
"""The kind of the strings below each key ("" for any other key), for requests in the format of
Kafka's request log."""


def path(names: Names, whole: str) -> str:
    """A znode path. Segments of no known shape are replaced; a chroot and its parents remain."""
    known = below(whole, names.chroot)
    if known == ROOT or f"{names.chroot}/".startswith(f"{whole}/"):
        return whole
    if known is None:
        return "/".join(_segments(names, _outside(names, whole), whole.split("/")))
    return names.chroot + "/".join(_segments(names, shapes.ROOT, known.split("/")))


def _segments(names: Names, place: ZnodeShape | None, segments: list[str]) -> list[str]:
    """The segments of a path from the root on, or of any other text."""
    if segments[0]:
        return [string(names, "foreign", one) for one in segments]
    after = [""]
    for (before, kind, _), segment in zip(
        shapes.steps(place, segments[1:]), segments[1:], strict=True
    ):
        after.append(before + (string(names, kind, segment[len(before) :]) if kind else ""))
    return after


def _outside(names: Names, whole: str) -> ZnodeShape | None:
    """The place from which a path outside of the chroot starts: ZooKeeper's own znodes have a known
    shape."""
    is_own = names.chroot and whole.startswith("/zookeeper")
    return shapes.ROOT if is_own else None


def child(names: Names, parent: str, name: str) -> str:
    """The name of a child of the znode `parent`."""
    whole = path(names, f"{parent.rstrip('/')}/{name}")
    return whole.rpartition("/")[2]


def address(names: Names, text: str) -> str:
    """A host and a port, with or without a protocol before them."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        return string(names, "foreign", text)
    return found["before"] + names.stand_in_of("host", found["host"]) + found["after"]


def znode(names: Names, whole: str, data: bytes | None) -> bytes | None:
    """The content of a znode. Keys, strings and whole contents of no known shape are replaced."""
    known = below(whole, names.chroot)
    if not data or not data.strip():
        return data
    if known is not None and known.startswith(f"{LITERAL_ACL_CHANGES}/"):
        return _redacted_acl_change(names, data)
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # No JSON either, as decisions may depend on that.
        return names.stand_in_of("foreign", data.decode(errors="backslashreplace")).encode()
    content = _content_of(known)
    if known is not None and known.startswith(f"{EXTENDED_ACL_CHANGES}/"):
        found = _RESOURCE_TYPE.search(data)
        kind = _kind_of_resource(
            found[1].decode() if found else "", is_prefix=_LITERAL.search(data) is None
        )
        content = JsonShape({**content.strings, "name": kind})
    return _json(names, data, content)


def _content_of(known: str | None) -> JsonShape:
    if known is None:
        return shapes.UNKNOWN
    *_, (_, _, place) = shapes.steps(shapes.ROOT, known.split("/")[1:])
    return place.content if place is not None else shapes.UNKNOWN


def _json(names: Names, data: bytes, content: JsonShape) -> bytes:
    """JSON of a znode, unchanged except for names, and for keys and strings of no known shape."""

    def kind_of_key(key: str, enclosing: list[str]) -> str:
        kind = content.keys.get(enclosing[-1]) if enclosing else None
        return kind or ("none" if key in content.strings or key in content.keys else "plain")

    def kind_of_string(key: str, enclosing: list[str]) -> str:
        if enclosing and enclosing[-1] in content.keys and enclosing[-1] in content.strings:
            return content.strings[enclosing[-1]]
        return content.strings.get(key, "plain") if enclosing else "plain"

    return _rewritten(names, data.decode(), kind_of_key, kind_of_string).encode()


def json(names: Names, data: bytes, kinds: Mapping[str, str]) -> bytes:
    """JSON of a request log, unchanged except for the names. `kinds` has the kind of the strings
    below each key. Data that is no text has no names and is returned unchanged."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data

    def kind_of_string(key: str, enclosing: list[str]) -> str:
        return kinds.get(key, kinds.get("", "none")) if enclosing else "text"

    return _rewritten(names, text, lambda _key, _enclosing: "none", kind_of_string).encode()


_KindOf = Callable[[str, list[str]], str]
"""The kind of a key, or of a string below a key, by the keys of the objects that are open."""


def _rewritten(names: Names, text: str, kind_of_key: _KindOf, kind_of_string: _KindOf) -> str:
    key = ""
    enclosing: list[str] = []

    def replaced(found: re.Match[str]) -> str:
        nonlocal key
        if found[0] == "{":
            enclosing.append(key)
            return found[0]
        if found[0] == "}":
            key = enclosing.pop() if enclosing else ""
            return found[0]
        if found[2] is None:
            return _json_string(names, kind_of_string(key, enclosing), found[0])
        key = _unescaped_text(found[1])
        kind = kind_of_key(key, enclosing)
        if kind != "none":
            key = ""
        return _json_string(names, kind, found[0][: len(found[1]) + 2]) + found[2]

    return _TOKEN.sub(replaced, text)


def _unescaped_text(text: str) -> str:
    """The text between the quotes of a string of JSON, which may not be valid."""
    if "\\" not in text:
        return text
    try:
        return msgspec.json.decode(f'"{text}"', type=str)
    except msgspec.DecodeError:
        return text


def _json_string(names: Names, kind: str, quoted: str) -> str:
    """A string of JSON, as it was spelt unless a name in it is replaced."""
    text = _unescaped_text(quoted[1:-1])
    after = string(names, kind, text)
    return quoted if after == text else msgspec.json.encode(after).decode()


def _kind_of_resource(kind: str, *, is_prefix: bool = False) -> str:
    """The kind of the names of a type of resources, by Kafka's spellings of the type."""
    found = _OF_ACL.get(kind.lower(), "principal")
    return "prefix" if is_prefix and found == "topic" else found


def _redacted_acl_change(names: Names, data: bytes) -> bytes:
    """The content of a notification about ACLs with literal names: "Topic:orders"."""
    kind, colon, name = data.decode(errors="replace").partition(":")
    if kind.upper() not in shapes.KNOWN_WORDS["resource type"] and kind != "TransactionalId":
        kind, name = string(names, "foreign", kind), string(names, "foreign", name)
    else:
        name = string(names, _kind_of_resource(kind), name)
    return f"{kind}{colon}{name}".encode()


def principal(names: Names, text: str) -> str:
    """A principal, such as "User:alice", or only its name. The type remains."""
    found = _PRINCIPAL_TYPE.match(text)
    kind = found[0] if found else ""
    return kind + names.stand_in_of("principal", text[len(kind) :])


def string(names: Names, kind: str, text: str) -> str:
    """A string that is a name, or contains names."""
    if kind in _SHAPES:
        return text if _SHAPES[kind].fullmatch(text) else names.stand_in_of("foreign", text)
    if kind in shapes.KNOWN_WORDS:
        return text if text in shapes.KNOWN_WORDS[kind] else names.stand_in_of("foreign", text)
    match kind:
        case "topic" | "prefix" | "host" | "rack" | "value" | "foreign":
            return names.stand_in_of(kind, text)
        case "principal":
            return principal(names, text)
        case "known":
            return names.known("topic", text)
        case "any":
            return names.of_any_kind(text)
        case "path":
            return path(names, text)
        case "address":
            return address(names, text)
        case "server":
            return address(names, text) if _ADDRESS.fullmatch(text) else names.text(text)
        case "entity":
            config = shapes.ROOT.children["config"]
            return "/".join(_segments(names, config, ["", *text.split("/")])[1:])
        case "text":
            return names.text(text)
        case _:
            return text


def row(names: Names, kinds: tuple[str, ...], values: Any) -> Any:
    """A tuple; `kinds` has the kinds of its first strings."""
    return type(values)(
        string(names, kind, one) if isinstance(one, str) else one
        for kind, one in zip((*kinds, *("none",) * len(values)), values, strict=False)
    )
