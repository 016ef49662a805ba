"""What a record's bytes say, as JSON for queries: with the names of fields.

Not exact both ways, the stored bytes stand beside it. What a znode, a request or a response holds
is text ({"base64": ...} where it is no UTF-8), so that it can be taken apart again; other bytes
are base64, members of a union have a "tag".

Millions of values go through here: msgspec copies a value into its twin, a type with the same
fields that is written as an object, where there can be one.
"""

import types
from base64 import b64encode
from functools import cache
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

JSON_BYTES_MAX: Final = 64 << 10
"""Of stored bytes above this size no JSON is made."""

_TEXTS: Final = frozenset(("data", "request", "response"))
_AS_THEY_ARE: Final = frozenset((int, str, bool, float, type(None)))
_encode: Final = msgspec.json.Encoder().encode


def json_of(value: Any) -> bytes:
    """A decoded event, command or reason as JSON."""
    twin = _twin(value.__class__)
    if twin is None:
        return _encode(_named(value))
    return _encode(msgspec.convert(value, twin, from_attributes=True))


@cache
def _twin(kind: type) -> Any:
    """The twin of a type; None where there is none: of no structure, of one with text in it, and
    of one with a union of structures, which msgspec does not tell apart by their tags."""
    if not issubclass(kind, Struct):
        return None
    fields = []
    for name, hint in get_type_hints(kind).items():
        twin = _twin_of_hint(hint)
        if twin is None or (name in _TEXTS and bytes in _parts(hint)):
            return None
        fields.append((name, twin))
    return msgspec.defstruct(kind.__name__, fields, gc=False)


def _twin_of_hint(hint: Any) -> Any:
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _twin(hint)
    arguments = get_args(hint)
    if not arguments or get_origin(hint) is Literal:
        return hint
    if get_origin(hint) in (Union, types.UnionType):
        structures = [one for one in arguments if isinstance(one, type) and issubclass(one, Struct)]
        if len(structures) > 1:
            return None
    twins = tuple(one if one is Ellipsis else _twin_of_hint(one) for one in arguments)
    if any(one is None for one in twins):
        return None
    if get_origin(hint) in (Union, types.UnionType):
        return Union[twins]  # noqa: UP007 - of a tuple
    return get_origin(hint)[twins]


def _parts(hint: Any) -> set[Any]:
    arguments = get_args(hint)
    return {hint}.union(*map(_parts, arguments)) if arguments else {hint}


def _named(value: Any, name: str = "") -> Any:
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if isinstance(value, Struct):
        return _fields(value)
    if kind is bytes:
        return _text(value) if name in _TEXTS else value
    if kind is list or kind is tuple:
        return [one if type(one) in _AS_THEY_ARE else _named(one, name) for one in value]
    if isinstance(value, dict):
        return {str(key): _named(one, name) for key, one in value.items()}
    return value


def _fields(value: Struct) -> dict[str, Any]:
    named = asdict(value)
    for name, field in named.items():
        if type(field) not in _AS_THEY_ARE:
            named[name] = _named(field, name)
    tag = value.__struct_config__.tag
    return named if tag is None else {"tag": tag, **named}


def _text(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}
