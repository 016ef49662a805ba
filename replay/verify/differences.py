"""The values in which a stored command differs from the current decision."""

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, Final

import msgspec
from msgspec import Struct

from controller.core.canonical import decode_reason
from controller.event_log.records import decode_stored_command
from eventstore.records import CommandRecord
from replay import structural_diff
from replay.logs.folding import AnyIssued

DIFFERENCES_MAX: Final = 20
"""The limit for one command; further differences are left out."""

_WHOLE: Final = "the command"
_CHARACTERS_MAX: Final = 300


class CommandDifference(Struct, frozen=True):
    """A part of a command, such as "partitions[t-0].leadership.isr", with the value in the log and
    the value of the current decision; None if that side has no such part."""

    part: str
    recorded: str | None
    derived: str | None


def differences(before: CommandRecord, now: AnyIssued) -> list[CommandDifference]:
    """The differences between a stored command and the current decision.

    If the body of the command was too large to be stored, only the parts of the reason are
    compared.
    """
    try:
        was = (
            now.command if before.body is None else decode_stored_command(before.kind, before.body)
        )
        reason = decode_reason(before.reason)
    except msgspec.DecodeError as error:
        shown = structural_diff.text(now.command, _CHARACTERS_MAX)
        return [CommandDifference(_WHOLE, f"cannot be read: {error}", shown)]
    parts = chain(_parts(was, now.command), _parts(reason, now.reason, "reason"))
    return list(islice(parts, DIFFERENCES_MAX))


def _parts(was: Any, now: Any, *part: str) -> Iterator[CommandDifference]:
    for one in structural_diff.differences(was, now, part):
        yield CommandDifference(one.name or _WHOLE, *one.texts(_CHARACTERS_MAX))
