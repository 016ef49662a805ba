"""Reads a log from a folder, one segment, or a stream on standard input, in constant memory."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Self

from msgspec import structs

from eventstore import folders, snapshots, stream, subjects
from eventstore.errors import PUT_A_COPY, LogCorrupt
from eventstore.filters import EventFilter
from eventstore.records import Closing, CommandRecord, EventRecord, Header
from eventstore.segment import Segment, open_segment
from eventstore.subjects import SubjectsOf
from eventstore.upcasters import Upcasters
from eventstore.verify import verify

ALL = EventFilter()

_NONE = 1 << 63
"""After each number of an event."""


class LogReader:
    """A log that can be read repeatedly, also while a daemon writes it: each call sees what is
    stored at that time. A context manager."""

    def __init__(self, path: Path, upcasters: Upcasters | None = None) -> None:
        """`path` is a folder or one segment. Without `upcasters`, events are returned as stored.

        Raises LogNotFound, NotALog, LogTooNew, LogCorrupt.
        """
        self.path = path
        self._upcasters = upcasters
        self._resources = ExitStack()
        with open_segment(folders.segments_of(path)[0]) as first:
            self.header: Header = first.header

    @classmethod
    def open(
        cls,
        path: Path | str,
        upcasters: Upcasters | None = None,
        standard_input: BinaryIO | None = None,
    ) -> Self:
        """Open a log at a path as the constructor does, or read it from a stream if the path is "-"
        (see `stream`). A streamed log is stored in a temporary folder while the reader is open, and
        verified: raises LogCorrupt."""
        if str(path) != "-":
            return cls(Path(path), upcasters)
        with ExitStack() as resources:
            folder = Path(resources.enter_context(TemporaryDirectory(prefix="refold-")))
            stream.receive(standard_input or stream.standard_input(), folder)
            report = verify(folder)
            for damage in report.damages:
                raise LogCorrupt("the stream", damage.text, damage.record)
            reader = cls(folder, upcasters)
            reader._resources = resources.pop_all()
        return reader

    def close(self) -> None:
        """Delete the temporary folder, if any. No file of the log stays open between calls."""
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def segments(self) -> list[Path]:
        """The current segments, in order."""
        return folders.segments_of(self.path)

    @property
    def closing(self) -> Closing | None:
        """The closing record; None while the log is being written, and after a crash."""
        with open_segment(self.segments[-1]) as last:
            return last.closing

    @property
    def last_seq(self) -> int:
        """The number of the last event, 0 if there is none. Raises LogCorrupt if the closing record
        names another one."""
        with open_segment(self.segments[-1]) as last:
            closing = last.closing
            found = last.last_seq()
            if closing is not None and closing.tip.last_seq != found:
                text = f"event {closing.tip.last_seq} should be the last one, but it is {found}"
                raise LogCorrupt(last.path, f"{text}: {PUT_A_COPY}", "closing record")
            return found

    def last_seq_at(self, wall_ns: int) -> int | None:
        """The number of the last event at or before a wall clock time; None if there is none."""
        for path in reversed(self.segments):
            with open_segment(path) as segment:
                found = segment.last_seq_at(wall_ns)
            if found is not None:
                return found
        return None

    @property
    def snapshots(self) -> list[snapshots.SnapshotName]:
        """The existing snapshots, oldest first. `snapshots.read_snapshot` reads one."""
        folder = self.path if self.path.is_dir() else self.path.parent
        return snapshots.names_in(folder)

    def events(
        self, wanted: EventFilter = ALL, subjects_of: SubjectsOf | None = None
    ) -> Iterator[EventRecord]:
        """The events that pass a filter, in order, upcast. A filter by subject requires
        `subjects_of`, which receives events as stored. Raises LogTooNew, and LogCorrupt as
        `Segment.events`."""
        stored = wanted
        if self._upcasters and wanted.kinds:
            stored = structs.replace(wanted, kinds=self._upcasters.stored_kinds(wanted.kinds))
        return chain.from_iterable(self._event_pages(wanted, stored, subjects_of))

    def _event_pages(
        self, wanted: EventFilter, stored: EventFilter, subjects_of: SubjectsOf | None
    ) -> Iterator[Iterable[EventRecord]]:
        last_seq: int | None = None
        for segment in self._segments_in_range(wanted.first_seq, wanted.last_seq):
            if wanted.is_range and last_seq is not None:
                _require_adjacent(last_seq, segment)
            for page in _stored_events(segment, stored, subjects_of):
                events = self._upcast(page, segment.path)
                yield (
                    [one for one in events if one.kind in wanted.kinds] if wanted.kinds else events
                )
                if page and wanted.is_range:
                    last_seq = page[-1].seq

    def _upcast(self, page: list[EventRecord], path: Path) -> Iterable[EventRecord]:
        upcasters = self._upcasters
        if upcasters is None or upcasters.are_current(page):
            return page
        # Lazily: the events before one that cannot be read are returned.
        return (upcasters.upcast(one, path) for one in page)

    def commands(
        self, first_cause: int | None = None, last_cause: int | None = None, kind: str = ""
    ) -> Iterator[CommandRecord]:
        """The commands caused by a range of events, in stored order. Commands of the last events
        may not be stored yet. After a crash they may never be stored. With `kind` only
        those of one kind: their checksum chain is not checked, since it includes the others.
        """
        return chain.from_iterable(self._command_pages(first_cause, last_cause, kind))

    def _command_pages(
        self, first_cause: int | None, last_cause: int | None, kind: str
    ) -> Iterator[Iterable[CommandRecord]]:
        first = 0 if first_cause is None else first_cause
        last = (1 << 63) - 1 if last_cause is None else last_cause
        # A command is stored after its cause: in the same or a later segment.
        for segment in self._segments_in_range(first_cause, None):
            if kind:
                yield segment.commands_of_kind(kind, first, last)
            else:
                yield from segment.command_pages(first, last)
            if segment.header.first_seq > last:
                return

    def events_numbered(self, numbers: Sequence[int]) -> Iterator[EventRecord]:
        """The events with these numbers, in order, upcast. Their chain is not checked."""
        if not numbers:
            return
        for segment in self._segments_in_range(min(numbers), max(numbers)):
            for event in segment.events_numbered(list(numbers), ALL):
                yield self._upcasters.upcast(event, segment.path) if self._upcasters else event

    def commands_caused_by(self, causes: Sequence[int]) -> Iterator[CommandRecord]:
        """The commands that these events caused. Their chain is not checked."""
        if not causes:
            return
        # A command is stored after its cause: in the same or a later segment.
        for segment in self._segments_in_range(min(causes), None):
            yield from segment.commands_caused_by(causes)

    def records(
        self, wanted: EventFilter = ALL, subjects_of: SubjectsOf | None = None
    ) -> Iterator[tuple[EventRecord, list[CommandRecord]]]:
        """The events that pass a filter, each with the commands that it caused."""
        commands = self.commands(wanted.first_seq, wanted.last_seq)
        command = next(commands, None)
        cause = _NONE if command is None else command.cause
        for event in self.events(wanted, subjects_of):
            seq = event.seq
            caused: list[CommandRecord] = []
            while cause <= seq:
                if cause == seq and command is not None:
                    caused.append(command)
                command = next(commands, None)
                cause = _NONE if command is None else command.cause
            yield event, caused

    def _segments_in_range(self, first_seq: int | None, last_seq: int | None) -> Iterator[Segment]:
        """The segments that may contain events of a range, each open while it is the current
        one."""
        paths = self.segments
        for position, path in enumerate(paths):
            following = paths[position + 1] if position + 1 < len(paths) else None
            ends_before = following and folders.first_seq_of(following) <= (first_seq or 0)
            starts_after = last_seq is not None and self._starts_after(path, last_seq)
            if ends_before or starts_after:
                continue
            with open_segment(path) as segment:
                yield segment

    @staticmethod
    def _starts_after(path: Path, seq: int) -> bool:
        return folders.is_segment(path) and folders.first_seq_of(path) > seq


def _require_adjacent(last_seq: int, segment: Segment) -> None:
    """Check that a segment begins directly after event `last_seq`. Raises LogCorrupt."""
    first_seq = segment.header.first_seq
    if first_seq != last_seq + 1:
        text = f"events {last_seq + 1} to {first_seq - 1} are missing: {PUT_A_COPY}"
        raise LogCorrupt(segment.path, text, "header")


def _stored_events(
    segment: Segment, wanted: EventFilter, subjects_of: SubjectsOf | None
) -> Iterator[list[EventRecord]]:
    if wanted.subject is None:
        return segment.event_pages(wanted)
    if subjects_of is None:
        raise ValueError("a filter by subject requires subjects_of")
    return subjects.events_about(segment, wanted, subjects_of)
