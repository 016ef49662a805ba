"""Where two commands differ, part by part, in words that name the partition, znode or broker."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final

import msgspec
from msgspec import Struct

from controller.core.canonical import decode_command, decode_reason
from controller.core.commands import Issued
from eventstore.records import CommandRecord

DIFFERENCES_MAX: Final = 20
"""Of one command; more are left out."""

_NOTHING: Final = object()
_UNPRINTED: Final = "..."
_VALUE_CHARACTERS_MAX: Final = 300


class Difference(Struct, frozen=True):
    """One value of a command, such as "partitions[t-0].leadership.isr", as the log has it and as it
    is decided now; None where that side has no such part."""

    part: str
    recorded: str | None
    derived: str | None


def differences(before: CommandRecord, now: Issued) -> list[Difference]:
    """The values of a stored command and of the one that is decided now that differ.

    Of a command whose body was too large to be stored only the reason can be compared in parts.
    """
    try:
        was = now.command if before.body is None else decode_command(before.body)
        reason = decode_reason(before.reason)
    except msgspec.DecodeError as error:
        return [Difference("the command", f"cannot be read: {error}", _text(now.command))]
    parts = chain(_walk("", was, now.command), _walk("reason", reason, now.reason))
    return list(islice(parts, DIFFERENCES_MAX))


def _walk(part: str, was: Any, now: Any) -> Iterator[Difference]:
    if was == now:
        return
    if isinstance(was, Struct) and type(was) is type(now):
        for field in was.__struct_fields__:
            name = f"{part}.{field}" if part else field
            yield from _walk(name, getattr(was, field), getattr(now, field))
    elif _is_of_named(was) and _is_of_named(now):
        theirs, ours = _by_name(was), _by_name(now)
        for name in dict.fromkeys([*theirs, *ours]):
            yield from _walk(
                f"{part}[{name}]", theirs.get(name, _NOTHING), ours.get(name, _NOTHING)
            )
        if theirs == ours:
            yield Difference(f"{part}, the order", ", ".join(theirs), ", ".join(ours))
    else:
        yield Difference(part or "the command", _text(was), _text(now))


def _is_of_named(value: Any) -> bool:
    """Whether it is a sequence of what has a name of its own."""
    return isinstance(value, Sequence) and all(isinstance(one, Struct) for one in value)


def _by_name(values: Sequence[Struct]) -> dict[str, Struct]:
    """Each by its name; of those that have the same one the second is "name #2"."""
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
            return f"{topic}-{partition}"
        case object(path=str(path)) | object(name=str(path)):
            return path
        case object(id=int(broker)):
            return f"broker {broker}"
        case _:
            return type(value).__name__


def _text(value: Any) -> str | None:
    if value is _NOTHING:
        return None
    if isinstance(value, bytes):
        text = value.decode() if _is_text(value) else value.hex()
    elif isinstance(value, str):
        text = value
    else:
        text = msgspec.json.encode(value).decode()
    if len(text) > _VALUE_CHARACTERS_MAX:
        return text[:_VALUE_CHARACTERS_MAX] + _UNPRINTED
    return text


def _is_text(data: bytes) -> bool:
    try:
        return data.decode().isprintable()
    except UnicodeDecodeError:
        return False
