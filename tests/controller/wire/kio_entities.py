"""Any request of kio's schemas, and its bytes with tagged fields that kio does not know."""

from collections.abc import Iterator
from dataclasses import fields
from datetime import timedelta
from struct import pack
from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints
from uuid import UUID

from hypothesis import strategies as st

from controller.wire.client_requests import RequestHead
from controller.wire.primitives import FLEXIBLE, LEGACY, unsigned_varint

CLIENT_ID = "client"
NO_TAGS = b"\0"

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.just("ü" * 100)
_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "bool": st.booleans(),
    "string": _TEXTS,
    "bytes": st.binary(max_size=8) | st.just(bytes(200)),
    "uuid": st.none() | st.uuids().filter(lambda one: one.int != 0),
    "timedelta_i32": st.integers(-(2**31), 2**31 - 1).map(lambda ms: timedelta(milliseconds=ms)),
}
_NUMBERS: dict[str, str] = {"int8": ">b", "int16": ">h", "int32": ">i", "bool": ">?"}


def entities(schema: Any, **known: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Entities of a class of kio, with any fields except those in `known`."""
    hints = get_type_hints(schema)
    found = {one.name: _values(hints[one.name], one.metadata) for one in fields(schema)}
    return st.builds(schema, **(found | known))


def _values(hint: Any, metadata: Any) -> st.SearchStrategy[Any]:
    optional = NoneType in get_args(hint) if isinstance(hint, UnionType) else False
    if optional:
        (hint,) = (one for one in get_args(hint) if one is not NoneType)
    kind = metadata.get("kafka_type")
    if get_args(hint):
        element = _PRIMITIVES[kind] if kind else entities(get_args(hint)[0])
        found = st.lists(element, max_size=3).map(tuple)
    else:
        found = _PRIMITIVES[kind]
    return st.none() | found if optional else found


def frame_of(head: RequestHead, request: Any, tags: Iterator[bytes]) -> bytes:
    """A request as a decoder receives it. The next sections of `tags` follow the header and each
    structure, inner structures first."""
    header = pack(">hhih", *head, len(CLIENT_ID)) + CLIENT_ID.encode()
    return header + (next(tags) if request.__flexible__ else b"") + _structure(request, tags)


def _structure(entity: Any, tags: Iterator[bytes]) -> bytes:
    flexible = entity.__flexible__
    found = b""
    for one in fields(entity):
        value, kind = getattr(entity, one.name), one.metadata.get("kafka_type")
        if isinstance(value, tuple) or (value is None and kind not in ("string", "uuid")):
            found += _length(value, flexible)
            for each in value or ():
                found += _primitive(each, kind, flexible) if kind else _structure(each, tags)
        else:
            found += _primitive(value, kind, flexible)
    return found + (next(tags) if flexible else b"")


def _length(array: tuple[Any, ...] | bytes | None, flexible: bool) -> bytes:
    if array is None:
        return b"\0" if flexible else pack(">i", -1)
    return (FLEXIBLE if flexible else LEGACY).array_length(len(array))


def _primitive(value: Any, kind: str | None, flexible: bool) -> bytes:
    assert kind is not None
    if kind == "string":
        return (FLEXIBLE if flexible else LEGACY).nullable_string(value)
    if kind == "bytes":
        return _length(value, flexible) + value
    if kind == "uuid":
        return value.bytes if isinstance(value, UUID) else bytes(16)
    if kind == "timedelta_i32":
        return pack(">i", value // timedelta(milliseconds=1))
    return pack(_NUMBERS[kind], value)


@st.composite
def tagged_fields(draw: st.DrawFn) -> bytes:
    """A section of tagged fields. Many are empty."""
    field = st.tuples(st.integers(0, 2**32 - 1), st.binary(max_size=200))
    found = draw(st.lists(field, max_size=3))
    written = (unsigned_varint(tag) + unsigned_varint(len(one)) + one for tag, one in found)
    return unsigned_varint(len(found)) + b"".join(written)
