"""The differences between two values by part: structures, mappings, and lists of named items.

Reports that compare values use this module; they only choose the words and leave parts out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from replay.names import broker_name, partition_name

NOTHING: Final = object()
"""The value of a part that only the other side has."""
ORDER: Final = ", the order"
"""The last step of a part in which both sides have the same items in different orders."""

_UNPRINTED: Final = "..."
_DEPTH_MAX: Final = 100


class Difference(NamedTuple):
    """A part in which two values differ. `part` is the path to it: names of fields and keys, and
    "[t-0]" for an item of a list."""

    part: tuple[str, ...]
    one: Any
    other: Any

    @property
    def name(self) -> str:
        """The part as text, such as "partitions[t-0].leadership.isr"; "" for the whole value."""
        steps = (step if step[:1] == "[" or step == ORDER else f".{step}" for step in self.part)
        return "".join(steps).removeprefix(".")

    def texts(self, characters_max: int) -> tuple[str | None, str | None]:
        """Both values as text."""
        return text(self.one, characters_max), text(self.other, characters_max)


def differences(
    one: Any, other: Any, part: tuple[str, ...] = (), depth: int = _DEPTH_MAX
) -> Iterator[Difference]:
    """The parts in which two values differ, in the order of their fields and keys. Parts more than
    `depth` steps below the whole value are not compared separately."""
    if one == other:
        return
    if len(part) == depth:
        yield Difference(part, one, other)
    elif isinstance(one, Struct) and type(one) is type(other):
        for field in one.__struct_fields__:
            values = getattr(one, field), getattr(other, field)
            if values[0] != values[1]:
                yield from differences(*values, (*part, field), depth)
    elif isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys([*one, *other]):
            values = one.get(key, NOTHING), other.get(key, NOTHING)
            yield from differences(*values, (*part, str(key)), depth)
    elif _is_of_structures(one) and _is_of_structures(other):
        yield from _items(_by_name(one), _by_name(other), part, depth)
    else:
        yield Difference(part, one, other)


def text(value: Any, characters_max: int) -> str | None:
    """A value as text, cut to a length; None for NOTHING."""
    if value is NOTHING:
        return None
    if isinstance(value, bytes):
        shown = value.decode() if _is_text(value) else value.hex()
    else:
        shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return shown if len(shown) <= characters_max else shown[:characters_max] + _UNPRINTED


def _items(
    one: Mapping[str, Struct], other: Mapping[str, Struct], part: tuple[str, ...], depth: int
) -> Iterator[Difference]:
    for name in dict.fromkeys([*one, *other]):
        values = one.get(name, NOTHING), other.get(name, NOTHING)
        yield from differences(*values, (*part, f"[{name}]"), depth)
    if one == other:
        yield Difference((*part, ORDER), ", ".join(one), ", ".join(other))


def _is_of_structures(value: Any) -> bool:
    return isinstance(value, Sequence) and all(isinstance(one, Struct) for one in value)


def _by_name(values: Sequence[Struct]) -> dict[str, Struct]:
    """The values by their names. If several have the same name, the second is "name #2"."""
    named: dict[str, Struct] = {}
    counts: dict[str, int] = {}
    for one in values:
        name = _name(one)
        counts[name] = counts.get(name, 0) + 1
        named[name if counts[name] == 1 else f"{name} #{counts[name]}"] = one
    return named


def _name(value: Struct) -> str:
    match value:
        case object(topic=topic, partition=partition):
            return partition_name(topic, partition)
        case object(path=str(path)) | object(name=str(path)):
            return path
        case object(id=int(broker)):
            return broker_name(broker)
        case _:
            return type(value).__name__


def _is_text(data: bytes) -> bool:
    try:
        return data.decode().isprintable()
    except UnicodeDecodeError:
        return False
