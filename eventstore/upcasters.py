"""Reads old records: each step converts a payload from one schema version to the next."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from eventstore.errors import PUT_A_COPY, LogCorrupt, LogTooNew
from eventstore.records import EventRecord


class Upcast(Struct, frozen=True):
    """One step: to a kind's next schema version, or to another kind (`new_kind`) at version
    `new_schema`."""

    payload: Callable[[bytes], bytes]
    new_kind: str | None = None
    new_schema: int | None = None


class Upcasters:
    """The current schema version of each kind, and the steps that lead to it."""

    def __init__(
        self, current: Mapping[str, int], steps: Mapping[tuple[str, int], Upcast] | None = None
    ) -> None:
        """`steps` is keyed by the kind and schema version that a step reads."""
        self._current = current
        self._steps = dict(steps or {})

    def are_current(self, events: Sequence[EventRecord]) -> bool:
        """Whether `upcast` returns these events unchanged."""
        current = self._current
        return all(one.schema == current.get(one.kind) for one in events)

    def upcast(self, event: EventRecord, file: object) -> EventRecord:
        """The event in its current schema; errors name `file`.

        Raises LogTooNew for a kind or schema version that only a newer refold supports, and
        LogCorrupt for a payload that a step cannot read.
        """
        while event.schema != self._current.get(event.kind):
            step = self._steps.get((event.kind, event.schema))
            if step is None:
                known = self._current.get(event.kind)
                if event.schema < 1:
                    text = f"it has schema version {event.schema}, versions begin with 1"
                    raise LogCorrupt(str(file), f"{text}: {PUT_A_COPY}", f"event {event.seq}")
                text = (
                    f'made by a newer refold ("{event.kind}" in version {event.schema}, '
                    f"this one reads {'none' if known is None else known}): upgrade"
                )
                raise LogTooNew(str(file), text, f"event {event.seq}")
            try:
                payload = step.payload(event.payload)
            except (ValueError, TypeError, RecursionError) as error:
                # The errors of msgspec are ValueErrors.
                text = f"it cannot be read ({error}): {PUT_A_COPY}"
                raise LogCorrupt(str(file), text, f"event {event.seq}") from error
            event = event._replace(
                kind=step.new_kind or event.kind,
                schema=step.new_schema or event.schema + 1,
                payload=payload,
            )
        return event

    def stored_kinds(self, kinds: tuple[str, ...]) -> tuple[str, ...]:
        """The kinds under which events of `kinds` may be stored."""
        found = set(kinds)
        while (
            older := {kind for (kind, _), step in self._steps.items() if step.new_kind in found}
            - found
        ):
            found |= older
        return tuple(sorted(found))
