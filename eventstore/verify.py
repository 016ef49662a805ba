"""Verifies a log: every record exists once, in its place, and unchanged."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from eventstore import chain, folders
from eventstore.errors import PUT_A_COPY, LogCorrupt
from eventstore.records import EventRecord, Header, Tip
from eventstore.segment import Segment, open_segment

DAMAGES_MAX = 20
"""The check of a log stops after this number of findings."""


class Damage(Struct, frozen=True):
    """One finding: the file, the record in it, and what is wrong."""

    file: str
    record: str
    text: str


class VerifyReport(Struct, frozen=True):
    """The result of a check. `closed`: the log ends with its closing record; otherwise records
    at the end may be missing, which cannot be detected. `living`: a daemon writes it now.
    `events_without_commands`: the number of last events of a daemon's log, if it is not closed, for
    which no command is stored."""

    segments: int
    events: int
    commands: int
    first_seq: int
    last_seq: int
    closed: bool
    living: bool
    events_without_commands: int
    damages: list[Damage]

    @property
    def is_sound(self) -> bool:
        """Whether no damage was found."""
        return not self.damages


def verify(path: Path) -> VerifyReport:
    """Check the log at `path`, a folder or one segment.

    Raises the errors of opening: LogNotFound, NotALog, LogTooNew, LogFailed, LogLocked.
    """
    checks = _Checks()
    for segment in folders.segments_of(path):
        try:
            checks.segment(segment)
        except LogCorrupt as error:
            checks.add_damage(segment, error.record or "file", error.text)
        if len(checks.damages) >= DAMAGES_MAX:
            break
    folder = path if path.is_dir() else path.parent
    return checks.report(folders.is_being_written(folder))


def check_complete(path: Path) -> None:
    """Check what is known without reading all records: the trees and indexes of the files, and that
    no event or command is missing that later records or the closing record show.

    Readers that check the checksum chain of the records that they read call this first. Raises
    LogCorrupt, and the errors of opening.
    """
    last_cause = answered = first_seq = 0
    before: _Commands | None = None
    for file in folders.segments_of(path):
        with open_segment(file) as segment:
            for fault in _file_faults(segment):
                raise LogCorrupt(segment.path, f"{fault}: {PUT_A_COPY}", "file")
            if segment.header.kind != "recorded":
                continue
            first_seq = first_seq or segment.header.first_seq
            start = segment.header.predecessor.commands if segment.header.predecessor else 0
            if before is not None and (fault := before.difference(start)):
                raise LogCorrupt(before.file, f"{fault}: {PUT_A_COPY}", "commands")
            # The order is that of `_Checks.segment`.
            closing, end = segment.closing, segment.last_seq()
            ((cause, commands),) = segment.query("select max(cause), count(*) from commands")
            last_cause = max(last_cause, cause or 0)
            last_seq = segment.last_seq()
            if last_cause > last_seq:
                text = f"{_without_event(last_seq)}: {PUT_A_COPY}"
                raise LogCorrupt(segment.path, text, f"command of event {last_cause}")
            ((cause,),) = segment.query(f"select max(cause) from events where seq <= {end:d}")
            answered = max(answered, cause or 0)
            before = _Commands(segment.path, start, commands)
            if closing is not None:
                fault = before.difference(closing.tip.commands)
            elif last_cause < answered >= first_seq:
                fault = f"those of event {answered} are {_without_commands(last_cause)}"
            else:
                fault = ""
            if fault:
                raise LogCorrupt(segment.path, f"{fault}: {PUT_A_COPY}", "commands")


def check_ends(path: Path) -> None:
    """Check that each segment ends where the next one or the closing record says. Together with
    `check_complete`, and a reader of all records that checks their chain, this finds what `verify`
    finds. Raises LogCorrupt."""
    before: Tip | None = None
    for file in folders.segments_of(path):
        with open_segment(file) as segment:
            named = segment.header.predecessor
            if before is not None and named != before:
                fault = "has no predecessor" if named is None else _difference(named, before)
                text = f"the end of the previous segment does not match: {fault}: {PUT_A_COPY}"
                raise LogCorrupt(segment.path, text, "header")
            closing = segment.closing
            before = _stored_tip(segment)
            if closing is not None and closing.tip != before:
                text = f"{_difference(closing.tip, before)}: {PUT_A_COPY}"
                raise LogCorrupt(segment.path, text, "closing record")


def _stored_tip(segment: Segment) -> Tip:
    start = chain.start(segment.header, segment.header_body)
    last = "select chain from {} order by rowid desc limit 1"
    events, commands = (segment.query(last.format(one)) for one in ("events", "commands"))
    return Tip(
        last_seq=segment.last_seq(),
        commands=start.commands + segment.command_count(),
        event_chain=events[0][0] if events else start.event_chain,
        command_chain=commands[0][0] if commands else start.command_chain,
    )


def _file_faults(segment: Segment) -> Iterator[str]:
    """SQLite's findings in the parts that contain no records: its trees and the commands' index."""
    for (finding,) in segment.query("pragma integrity_check(3)"):
        if finding != "ok":
            yield f"SQLite reports: {finding}"


def _without_event(last_seq: int) -> str:
    return f"its event is not in the log, which ends with event {last_seq}"


def _without_commands(last_cause: int) -> str:
    return (
        "missing, although the log has its outcome: the last stored command is of event"
        f" {last_cause}"
    )


class _Commands(NamedTuple):
    """The number of commands in a segment, and in the log before it."""

    file: Path
    start: int
    stored: int

    def difference(self, end: int) -> str:
        """Compares the number of stored commands with the one that the log counts, `end` up to the
        end of the segment; "" if they are equal."""
        expected = end - self.start
        if expected == self.stored:
            return ""
        return f"there should be {expected}, but there are {self.stored}"


class _Checks:
    """The state of a check, which proceeds segment by segment."""

    def __init__(self) -> None:
        self.damages: list[Damage] = []
        self._segments = 0
        self._events = 0
        self._commands = 0
        self._first_seq: int | None = None
        self._tip: Tip | None = None
        self._closed = False
        self._is_recorded = False
        self._last_cause = 0
        self._answered = 0
        """The last event whose commands an event of the log answers."""

    def add_damage(self, file: Path, record: str, text: str) -> None:
        """Record a finding."""
        if len(self.damages) < DAMAGES_MAX:
            self.damages.append(Damage(str(file), record, text))

    def report(self, living: bool) -> VerifyReport:
        """The findings so far."""
        return VerifyReport(
            segments=self._segments,
            events=self._events,
            commands=self._commands,
            first_seq=self._first_seq or 1,
            last_seq=self._tip.last_seq if self._tip else 0,
            closed=self._closed,
            living=living,
            events_without_commands=self._events_without_commands(),
            damages=self.damages,
        )

    def _events_without_commands(self) -> int:
        if self._closed or self._tip is None or not self._is_recorded:
            return 0
        before = max(self._last_cause, (self._first_seq or 1) - 1)
        return max(0, self._tip.last_seq - before)

    def segment(self, path: Path) -> None:
        """Check one segment. Raises LogCorrupt if it cannot be read any further."""
        before, self._tip = self._tip, None
        self._segments += 1
        with open_segment(path) as segment:
            self._is_recorded = segment.header.kind == "recorded"
            self._check_header(path, segment.header, before)
            self._check_file(segment)
            # This order is consistent while the log grows. No record follows a closing record. A
            # command is stored after the event that caused it, and before an event that answers it.
            closing, end = segment.closing, segment.last_seq()
            tip = chain.start(segment.header, segment.header_body)
            commands, command_chain, last_cause = self._check_commands(segment, tip)
            last_seq, event_chain = self._check_events(segment, tip, end)
            self._tip = Tip(
                last_seq=last_seq,
                commands=tip.commands + commands,
                event_chain=event_chain,
                command_chain=command_chain,
            )
            self._closed = closing is not None
            if closing and not self.damages and closing.tip != self._tip:
                self.add_damage(path, "closing record", _difference(closing.tip, self._tip))
            if last_cause > last_seq and not self.damages:
                self.add_damage(path, f"command of event {last_cause}", _without_event(last_seq))
            self._last_cause = max(self._last_cause, last_cause)
            self._check_commands_complete(segment)

    def _check_commands_complete(self, segment: Segment) -> None:
        """An event that answers a command is stored with or after all commands of that event. The
        closing record of a closed log counts the commands."""
        if self.damages or self._closed or not self._is_recorded:
            return
        if self._last_cause < self._answered >= (self._first_seq or 1):
            text = _without_commands(self._last_cause)
            self.add_damage(segment.path, f"commands of event {self._answered}", text)

    def _check_header(self, path: Path, header: Header, before: Tip | None) -> None:
        if self._first_seq is None:
            self._first_seq = header.first_seq
        elif header.predecessor is None:
            self.add_damage(path, "header", "has no predecessor: the file belongs to another log")
        if self._closed:
            self.add_damage(path, "header", "the segment before it has a closing record")
        if before and header.predecessor and before != header.predecessor and not self.damages:
            text = (
                "the end of the previous segment does not match: "
                f"{_difference(header.predecessor, before)}"
            )
            self.add_damage(path, "header", text)

    def _check_file(self, segment: Segment) -> None:
        for fault in _file_faults(segment):
            self.add_damage(segment.path, "file", fault)

    def _check_events(self, segment: Segment, tip: Tip, end: int) -> tuple[int, bytes]:
        """The number and chain value of the last event. Commands of outcomes after event `end` may
        not have been read."""
        previous, expected = tip.event_chain, tip.last_seq + 1
        for rows in segment.event_rows():
            for row in rows:
                fault = chain.event_fault(previous, expected, row)
                if fault:
                    self.add_damage(segment.path, f"event {row[0]}", fault)
                else:
                    self._note_answered(EventRecord._make(row[:-1]), end)
                previous, expected = chain.value_of(row), chain.number_of(row) + 1
                self._events += 1
        return expected - 1, previous

    def _note_answered(self, event: EventRecord, end: int) -> None:
        if event.cause is not None and event.seq <= end:
            self._answered = max(self._answered, event.cause)

    def _check_commands(self, segment: Segment, tip: Tip) -> tuple[int, bytes, int]:
        """The number of commands, the last chain value, and the highest cause."""
        previous, number, last_cause = tip.command_chain, 0, 0
        for rows in segment.command_rows():
            for row in rows:
                cause, ordinal = row[0], row[1]
                fault = chain.command_fault(previous, row)
                if fault:
                    self.add_damage(segment.path, f"command {cause}.{ordinal}", fault)
                previous, number = chain.value_of(row), number + 1
                last_cause = max(last_cause, cause if isinstance(cause, int) else 0)
        self._commands += number
        return number, previous, last_cause


def _difference(expected: Tip, found: Tip) -> str:
    if expected.last_seq != found.last_seq:
        return f"event {expected.last_seq} should be the last one, but it is {found.last_seq}"
    if expected.commands != found.commands:
        return f"there should be {expected.commands} commands, but there are {found.commands}"
    return "its checksums do not match the records"
