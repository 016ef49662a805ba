"""The content of records as JSON with field names, for queries.

The JSON is not an exact copy; the stored bytes are in the table as well. The data of znodes,
requests and responses is a string, so that queries can parse it, or {"base64": ...} if it is not
UTF-8. Other bytes are base64. Kinds that contain such data, or a union of structures, have a "tag".

Millions of values are converted here. msgspec copies many values of a kind at once into values of
its twin: a type with the same fields that is encoded as an object.
"""

import types
from base64 import b64encode
from functools import cache
from typing import Any, Final, Literal, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

JSON_BYTES_MAX: Final = 64 << 10
"""Stored bytes above this size are not converted to JSON."""

_TEXTS: Final = frozenset(("data", "request", "response"))
_encode: Final = msgspec.json.Encoder().encode
_encode_lines: Final = msgspec.json.Encoder().encode_lines


def json_of_each(values: list[Any]) -> list[bytes]:
    """Decoded events, commands or reasons of one kind, each as JSON."""
    if not values:
        return []
    return _encode_lines(_convert(values, _twins(values[0].__class__))).split(b"\n")[:-1]


def json_of_plain(value: Any) -> bytes:
    """A value that was decoded without a type, as JSON."""
    return _encode(_with_text_keys(value))


class _Anything(type):
    def __instancecheck__(cls, _: object) -> bool:
        return True


class _Written(metaclass=_Anything):
    """The type of a twin's fields that `_convert_field` converts."""


def _convert(value: Any, into: Any) -> Any:
    return msgspec.convert(value, into, from_attributes=True, dec_hook=_convert_field)


def _convert_field(_: type, value: Any) -> Any:
    """Convert text, or a member of a union of structures, which msgspec does not distinguish by
    tags."""
    if isinstance(value, Struct):
        return _convert(value, _twin(type(value), has_tags=True))
    return _texts(value)


@cache
def _twins(kind: Any) -> Any:
    twin: Any = _twin(kind, _has_tags(kind))
    return list[twin]


def _hints(kind: type[Struct]) -> dict[str, Any]:
    """The types of the fields."""
    hints = get_type_hints(kind)
    return {name: hints[name] for name in kind.__struct_fields__}


@cache
def _has_tags(kind: Any) -> bool:
    """Whether a kind, or a kind in it, has text or a union of structures."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        hints = _hints(kind)
        return any(_is_text(name, hint) or _has_tags(hint) for name, hint in hints.items())
    return _is_of_structures(kind) or any(map(_has_tags, _arguments(kind)))


@cache
def _twin(kind: type[Struct], has_tags: bool) -> type[Struct]:
    fields = [
        (name, _Written if _is_text(name, hint) else _twin_of_hint(hint, has_tags))
        for name, hint in _hints(kind).items()
    ]
    tag = kind.__struct_config__.tag if has_tags else None
    tag_field = None if tag is None else "tag"
    return msgspec.defstruct(kind.__name__, fields, tag=tag, tag_field=tag_field, gc=False)


def _twin_of_hint(hint: Any, has_tags: bool) -> Any:
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _twin(hint, has_tags)
    arguments = _arguments(hint)
    if not arguments:
        return hint
    if _is_of_structures(hint):
        return _Written
    twins = tuple(one if one is Ellipsis else _twin_of_hint(one, has_tags) for one in arguments)
    if _is_union(hint):
        return Union[twins]  # noqa: UP007 - of a tuple
    return cast(Any, get_origin(hint))[twins]


def _is_text(name: str, hint: Any) -> bool:
    return name in _TEXTS and bytes in _parts(hint)


def _is_of_structures(hint: Any) -> bool:
    of = [one for one in get_args(hint) if isinstance(one, type) and issubclass(one, Struct)]
    return _is_union(hint) and len(of) > 1


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def _parts(hint: Any) -> set[Any]:
    return {hint}.union(*map(_parts, _arguments(hint)))


def _arguments(hint: Any) -> tuple[Any, ...]:
    return () if get_origin(hint) is Literal else get_args(hint)


def _texts(value: Any) -> Any:
    """Bytes in nested lists as text."""
    kind = type(value)
    if kind is bytes:
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": b64encode(value).decode()}
    if kind is list or kind is tuple:
        try:
            # Nearly all values are text, and one call per value would take twice as long.
            return [one if one is None else one.decode() for one in value]
        except (UnicodeDecodeError, AttributeError):
            return [one if one is None else _texts(one) for one in value]
    return value


def _with_text_keys(value: Any) -> Any:
    kind = type(value)
    if kind is list:
        return [_with_text_keys(one) for one in value]
    if kind is dict:
        return {str(key): _with_text_keys(one) for key, one in value.items()}
    return value
