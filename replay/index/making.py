"""Makes the index of a log of the daemon, and snapshots, in one pass over the log:
`python -m replay.index.making LOG`. For an imported log it only makes snapshots.

The pass derives all commands again and compares them with those that the log has, as `refold why`
does. An index of a log that has other commands is never used.
"""

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE
from typing import Final

import msgspec

from controller.core.canonical import decode_command, kind_of
from controller.core.commands import CommandId
from controller.core.events import BrokerResponded, Event
from controller.fingerprint import core_fingerprint
from eventstore import snapshots
from eventstore.errors import LogError
from eventstore.reader import LogReader
from eventstore.records import CommandRecord, EventRecord
from replay.errors import ReplayError
from replay.index.every_fact import EVERYTHING, EveryFactObserver
from replay.index.store import About, Index, IndexWriter, RoleLost, stamp_of, writing
from replay.inspect.at import SnapshotSchedule, make_snapshots
from replay.logs.open_log import RecordedLog, open_log
from replay.progress import Progress, unreported
from replay.subjects import subjects_of_command, subjects_of_event
from replay.why.noted_facts import KnownZnodes
from replay.why.recorded import LogPart, NextEvent, Run, TakenEvent

_COMMANDS_REMEMBERED: Final = 100_000
_REPORTED_EVERY: Final = 5_000
_ID: Final = re.compile("[0-9a-f]{32}")


def make_index(path: Path, progress: Progress = unreported) -> None:
    """Make the index of a log, unless there is one that can be used, and snapshots.

    Raises LogError, ReplayError.
    """
    with open_log(path) as log:
        if not isinstance(log, RecordedLog) or Index.of(log.reader) is not None:
            make_snapshots(path, progress)
            return
        mode = S_IMODE(log.reader.segments[0].stat().st_mode)
        stamp, last = stamp_of(log.reader), log.reader.last_seq
        with writing(path, mode) as writer:
            made = _Pass(log, last, writer)
            made.run(path, progress)
            made.finish(stamp)


class _Pass:
    """Folds the whole log once."""

    def __init__(self, log: RecordedLog, last: int, writer: IndexWriter) -> None:
        self._last = last
        self._run = Run(LogPart(log, last), EVERYTHING, [], KnownZnodes({}, {}), EveryFactObserver)
        observer = self._run.observer
        assert isinstance(observer, EveryFactObserver), "the run makes it"
        self._observer = observer
        self._writer = writer
        self._subjects = _Subjects(log.reader, observer.topic_name, writer)
        self._lost: list[RoleLost] = []
        self._last_active = 0

    def run(self, path: Path, progress: Progress) -> None:
        """Fold the events. Raises LogError, ReplayError."""
        last = snapshots.latest_snapshot(path, core_fingerprint(), self._last)
        schedule = SnapshotSchedule(path, last.seq if last is not None else 0)
        for order, taken in enumerate(self._run.records(), 1):
            self._take(taken, order)
            seq = taken.record.seq
            progress("making the index", seq, self._last)
            schedule.offer(seq, self._run.snapshot)

    def _take(self, taken: NextEvent, order: int) -> None:
        folded = self._run.take(taken, order)
        assert folded is not None, "a single log raises an error instead"
        record = taken.record
        for one in folded.inexact:
            self._writer.add_command(one)
        keys = self._subjects.keys(record, folded, taken.stored)
        self._writer.add_numbers(keys, record.seq)
        self._writer.add_facts(self._observer.take_facts())
        self._note_role(record.seq)

    def _note_role(self, seq: int) -> None:
        lost = self._lost[-1] if self._lost else None
        is_lost = lost is not None and not lost.until
        if self._observer.lost_at and not is_lost:
            self._lost.append(RoleLost(seq, self._last_active))
        elif not self._observer.lost_at and lost is not None and is_lost:
            self._lost[-1] = msgspec.structs.replace(lost, until=seq)
        if self._observer.controller.is_active:
            self._last_active = seq

    def finish(self, stamp: str) -> None:
        """Write what is known at the end."""
        limits = self._run.limits
        about = About(
            stamp, self._last, limits.is_cut_off, limits.differs_at, limits.unrecorded, self._lost
        )
        self._writer.finish(about, self._subjects.names, self._observer.moved)


class _Subjects:
    """Called with the events in order, returns the keys of the postings of each."""

    def __init__(
        self, reader: LogReader, topic_name: Callable[[str], str], writer: IndexWriter
    ) -> None:
        self.names: dict[str, None] = {}
        self._reader = reader
        self._topic_name = topic_name
        self._writer = writer
        self._known_ids: dict[str, str] = {}
        self._of_commands: dict[CommandId, tuple[tuple[str, ...], bool]] = {}
        """The subjects of commands, and whether the log has their bodies."""

    def keys(
        self, record: EventRecord, folded: TakenEvent, stored: list[CommandRecord]
    ) -> list[str]:
        """The keys of the next event."""
        keys = [f"event kind {record.kind}", f"event term {record.term}"]
        keys += [f"event {one}" for one in self._of_event(record.seq, folded.event.event)]
        bodies = {one.ordinal for one in stored if one.body is not None}
        for one in folded.issued:
            subjects = tuple(dict.fromkeys(subjects_of_command(one.command)))
            self._of_commands[one.id] = (subjects, one.id.ordinal in bodies)
            keys += [
                f"decision kind {kind_of(one.command)}",
                f"decision term {one.term}",
                f"rule {one.reason.rule}",
            ]
            keys += [f"decision {each}" for each in subjects]
        while len(self._of_commands) > _COMMANDS_REMEMBERED:
            del self._of_commands[next(iter(self._of_commands))]
        return keys

    def _of_event(self, seq: int, event: Event) -> list[str]:
        ids: dict[str, str] = {}

        def name_of(id: str) -> str:
            name = ids[id] = self._topic_name(id)
            if self._known_ids.get(id) != name:
                self._known_ids[id] = name
                self._writer.add_topic_name(id, seq, name)
            return name

        found = list(subjects_of_event(event, name_of))
        self.names.update(dict.fromkeys(subjects_of_event(event, str) if ids else found))
        if isinstance(event, BrokerResponded):
            for topic, _, _ in event.partition_errors:
                if _ID.fullmatch(topic):
                    name_of(topic)
        command: CommandId | None = getattr(event, "command", None)
        if command is not None:
            subjects, has_body = self._of_commands.get(command) or self._in_log(command)
            found += subjects
            if has_body:
                self.names.update(dict.fromkeys(subjects))
        return found

    def _in_log(self, command: CommandId) -> tuple[tuple[str, ...], bool]:
        """The subjects of an earlier command, which is not remembered."""
        for one in self._reader.commands_caused_by([command.cause]):
            if one.ordinal == command.ordinal and one.body is not None:
                with suppress(msgspec.DecodeError):
                    return tuple(subjects_of_command(decode_command(one.body))), True
        return (), False


def main() -> None:
    """The command line of the helper process. It prints its progress as event numbers."""

    def report(what: str, done: int, total: int | None) -> None:
        if done % _REPORTED_EVERY == 0:
            sys.stdout.write(f"{done}\n")
            sys.stdout.flush()

    try:
        make_index(Path(sys.argv[1]), report)
    except (LogError, ReplayError) as error:
        sys.exit(f"refold index: {error}")


if __name__ == "__main__":
    main()
