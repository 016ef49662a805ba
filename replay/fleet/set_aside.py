"""The inputs that could not be read, and why: DIR/set_aside.jsonl.

An entry stays until a later ingest reads the same input, or a sound copy of it.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from eventstore.folders import replacing
from replay.fleet.errors import FleetError

_FILE: Final = "set_aside.jsonl"


class SetAsideInput(Struct, frozen=True):
    """An input that could not be read, and why. `unit` is the id of the segment, if it is known."""

    path: str
    reason: str
    unit: str | None = None


def inputs_set_aside(table: Path) -> Iterator[SetAsideInput]:
    """The inputs that are set aside. Raises FleetError."""
    path = table / _FILE
    decoder = msgspec.json.Decoder(SetAsideInput)
    try:
        if path.exists():
            with path.open("rb") as file:
                yield from map(decoder.decode, file)
    except (OSError, msgspec.MsgspecError) as error:
        raise FleetError(f"{path} cannot be read ({error}): delete it, and ingest again") from None


def write_set_aside(table: Path, entries: Iterable[SetAsideInput]) -> None:
    """Replace the list. Raises FleetError."""
    path = table / _FILE
    try:
        with replacing(path) as file:
            for one in entries:
                file.write(msgspec.json.encode(one) + b"\n")
    except OSError as error:
        raise FleetError(f"{path} cannot be written: {error}") from error
