"""Decoded columns of a page of records: what each record is about, and its content as JSON.

All payloads of one kind are decoded in one call and encoded as JSON in one call. Separate calls for
each of millions of records would take most of the time.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from types import GenericAlias
from typing import Any, Final, NamedTuple, get_args

import msgspec

from controller.core.canonical import decode_command, decode_event, decode_reason
from controller.core.commands import Choice, Command
from controller.core.events import Event
from replay.description.bulk_json import JSON_BYTES_MAX, json_of_each, json_of_plain
from replay.fleet.facts import (
    COMMANDS,
    EVENTS,
    Facts,
    path_of_target,
    with_choices,
)
from replay.names import find_broker
from replay.stock_clusters.imported_log.encoding import decode_event as decode_imported_event
from replay.stock_clusters.imported_log.events import ImportedEvent

Columns = dict[str, list[Any]]
"""For each column name, one value per record."""

Decode = Callable[[bytes], Any]

COLUMNS: Final = frozenset((*Facts._fields, "payload", "reason"))
"""The columns that can be decoded. `payload` and `reason` are JSON; see facts.py for the others."""

_UNREADABLE: Final = (msgspec.MsgspecError, ValueError)
_UPDATE_METADATA: Final = "update_metadata"
_ARRAY_32: Final = b"\xdd"
_SIZE_BYTES: Final = 4
_generic: Final = msgspec.msgpack.Decoder().decode


class _Reader(NamedTuple):
    """Decodes the payloads of one kind. `one` decodes a single payload, `array` an array of
    payloads of this kind (None for an unknown kind); `facts` says what the records are about."""

    one: Decode
    array: Decode | None
    facts: dict[type, Facts]

    def all(self, payloads: Sequence[bytes]) -> list[Any] | None:
        """All payloads decoded; None if any of them is not of this kind and schema."""
        if self.array is None:
            return None
        size = len(payloads).to_bytes(_SIZE_BYTES, "big")
        try:
            values: list[Any] = self.array(b"".join((_ARRAY_32, size, *payloads)))
        except _UNREADABLE:
            return None
        return values


def _readers(union: Any, one: Decode, facts: dict[type, Facts]) -> dict[str, _Reader]:
    kinds: tuple[Any, ...] = get_args(union)
    arrays = {kind: msgspec.msgpack.Decoder(GenericAlias(list, kind)).decode for kind in kinds}
    return {kind.__struct_config__.tag: _Reader(one, arrays[kind], facts) for kind in kinds}


_OF_EVENTS: Final = {
    **_readers(Event, decode_event, EVENTS),
    **_readers(ImportedEvent, decode_imported_event, EVENTS),
}
_OF_COMMANDS: Final = _readers(Command, decode_command, COMMANDS)
_UNKNOWN_EVENT: Final = _Reader(decode_event, None, EVENTS)
_UNKNOWN_COMMAND: Final = _Reader(decode_command, None, COMMANDS)


def event_columns(
    kinds: Sequence[str], payloads: Sequence[bytes], requested: AbstractSet[str] = COLUMNS
) -> Columns:
    """The requested columns of events.

    An event that this version cannot decode has only `payload`, without field names. An event whose
    bytes are not MessagePack has no values at all.
    """
    page = _Page(len(kinds), requested)
    for kind, places in _places(kinds).items():
        page.read(_OF_EVENTS.get(kind, _UNKNOWN_EVENT), places, [payloads[one] for one in places])
    return page.columns


def command_columns(
    kinds: Sequence[str],
    targets: Sequence[str],
    reasons: Sequence[bytes],
    bodies: Sequence[bytes | None],
    requested: AbstractSet[str] = COLUMNS,
) -> Columns:
    """The requested columns of commands. If a body is not stored, the partitions in the reason are
    used."""
    page = _Page(len(kinds), requested)
    for kind, places in _places(kinds).items():
        # UpdateMetadata repeats for every broker the partitions of the decision that caused it.
        is_read = kind != _UPDATE_METADATA
        stored = {one: body for one in places if is_read and (body := bodies[one]) is not None}
        reader = _OF_COMMANDS.get(kind, _UNKNOWN_COMMAND)
        unnamed = page.read(reader, list(stored), list(stored.values()))
        missing = [one for one in places if one not in stored]
        page.put("broker", missing, [find_broker(targets[one]) for one in missing])
        unnamed += missing
        page.put("path", unnamed, [path_of_target(targets[one]) for one in unnamed])
    page.put_reasons(reasons)
    return page.columns


def _places(kinds: Sequence[str]) -> dict[str, list[int]]:
    places = defaultdict[str, list[int]](list)
    for place, kind in enumerate(kinds):
        places[kind].append(place)
    return places


class _Page:
    """The columns of a page, filled kind by kind. Values that are never set are None."""

    def __init__(self, size: int, requested: AbstractSet[str]) -> None:
        self.columns: Columns = {name: [None] * size for name in requested & COLUMNS}
        if "partitions" in requested:
            self.columns["partitions"] = [()] * size

    def put(self, name: str, places: Iterable[int], values: Iterable[Any]) -> None:
        """Set values of a column, if the column is requested."""
        column = self.columns.get(name)
        if column is not None:
            for place, value in zip(places, values, strict=True):
                column[place] = value

    def read(self, reader: _Reader, places: list[int], payloads: list[bytes]) -> list[int]:
        """Decode payloads of one kind and set their columns.

        Returns the places of the records whose kind has no entry in the table of facts.
        """
        if not payloads:
            return []
        values = reader.all(payloads)
        if values is not None:
            return self._put_facts(reader, places, payloads, values)
        unnamed: list[int] = []
        for place, payload in zip(places, payloads, strict=True):
            try:
                value = reader.one(payload)
            except _UNREADABLE:
                if len(payload) <= JSON_BYTES_MAX:
                    self.put("payload", [place], [_plain(payload)])
                continue
            unnamed += self._put_facts(reader, [place], [payload], [value])
        return unnamed

    def _put_facts(
        self, reader: _Reader, places: list[int], payloads: list[bytes], values: list[Any]
    ) -> list[int]:
        if "payload" in self.columns:
            self.put("payload", places, _json(values, payloads))
        facts = reader.facts.get(type(values[0]))
        if facts is None:
            return places
        for name, fact in zip(Facts._fields, facts, strict=True):
            if fact is not None:
                self.put(name, places, map(fact, values))
        return []

    def put_reasons(self, reasons: Sequence[bytes]) -> None:
        """Set the columns that come from reasons. Most commands of a page share a few reasons."""
        if self.columns.keys().isdisjoint(("rule", "reason", "partitions")):
            return
        known = {one: _reason_columns(one) for one in set(reasons)}
        whys = [known[one] for one in reasons]
        everywhere = range(len(whys))
        self.put("rule", everywhere, [one.rule for one in whys])
        self.put("reason", everywhere, [one.json for one in whys])
        partitions = self.columns.get("partitions")
        if partitions is not None:
            for place, why in enumerate(whys):
                if why.choices:
                    partitions[place] = with_choices(partitions[place], why.choices)


def _json(values: list[Any], payloads: list[bytes]) -> list[bytes | None]:
    if max(map(len, payloads)) <= JSON_BYTES_MAX:
        return [*json_of_each(values)]
    return [
        json_of_each([value])[0] if len(payload) <= JSON_BYTES_MAX else None
        for value, payload in zip(values, payloads, strict=True)
    ]


class _ReasonColumns(NamedTuple):
    rule: str | None
    json: bytes | None
    choices: tuple[Choice, ...]


def _reason_columns(reason: bytes) -> _ReasonColumns:
    try:
        why = decode_reason(reason)
    except _UNREADABLE:
        return _ReasonColumns(None, _plain(reason), ())
    return _ReasonColumns(why.rule, json_of_each([why])[0], why.choices)


def _plain(content: bytes) -> bytes | None:
    try:
        return json_of_plain(_generic(content))
    except (*_UNREADABLE, TypeError, RecursionError):
        return None
