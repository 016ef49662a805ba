"""Restores logs from the topic."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec
from aiokafka.structs import ConsumerRecord
from msgspec import Struct

from eventstore import folders
from eventstore.errors import LogCorrupt, LogExists, LogNotFound, LogTooNew, from_os
from eventstore.frames import (
    CommandRow,
    CommandsFrame,
    EventRow,
    EventsFrame,
    Frame,
    FrameReceiver,
    SegmentFrame,
    decode,
    receiving,
)
from eventstore.mirror.topic import (
    PART,
    MirrorTopic,
    OnWait,
    consumer,
    errors_of,
    header_of,
    messages,
    partitions_of,
    readable_ends,
)
from eventstore.verify import VerifyReport, verify

_ROWS_MAX: Final = 2000
_PARTIAL: Final = ".fetching"
"""The folder of incomplete logs. No log's name begins like this."""


class MirroredRun(Struct, frozen=True):
    """A log on the topic; its key is CLUSTER/NAME."""

    cluster: str
    name: str
    records: int


class RestoredLog(Struct, frozen=True):
    """A restored log. `is_cut`: the topic no longer contains its beginning."""

    folder: Path
    cluster: str
    records: int
    is_cut: bool
    report: VerifyReport


class NotFetched(Struct, frozen=True):
    """A log on the topic that could not be restored, by its key, and why."""

    log: str
    reason: str


Advance = Callable[[int, int], None]
"""The number of messages read, and the total number of offsets."""


async def list_logs(topic: MirrorTopic, advance: Advance, on_wait: OnWait) -> list[MirroredRun]:
    """The logs on the topic, by cluster and name. Raises MirrorFailed."""
    counts: dict[str, int] = {}

    def count(key: str, message: ConsumerRecord) -> None:
        counts[key] = counts.get(key, 0) + _is_record(message)

    await _read_topic(topic, count, advance, on_wait)
    return [MirroredRun(*_names(key), records) for key, records in sorted(counts.items())]


async def fetch(
    topic: MirrorTopic, parent: Path, wanted: str | None, advance: Advance, on_wait: OnWait
) -> list[RestoredLog | NotFetched]:
    """Restore the logs on the topic below `parent`, or only `wanted` (NAME or CLUSTER/NAME), each
    in a folder with its name. If several clusters have logs of the same name, the folders are
    CLUSTER/NAME. If one log cannot be restored, the others still are.

    Raises MirrorFailed, LogExists, LogNotFound, LogFull, LogReadOnly, LogFailed.
    """
    incoming: dict[str, _IncomingLog] = {}
    with ExitStack() as resources:
        resources.callback(shutil.rmtree, parent / _PARTIAL, ignore_errors=True)

        def add(key: str, message: ConsumerRecord) -> None:
            if wanted is not None and wanted not in (key, _names(key)[1]):
                return
            if key not in incoming:
                one = _IncomingLog(parent, key, len(incoming), topic.place)
                incoming[key] = resources.enter_context(one)
            incoming[key].add(message)

        await _read_topic(topic, add, advance, on_wait)
        if wanted is not None and not incoming:
            raise LogNotFound(topic.place, f"has no log {wanted}: --list shows its logs")
        targets = _folders(parent, sorted(incoming))
        for key, folder in targets.items():
            if incoming[key].can_be_made:
                _refuse_existing(folder)
        return [incoming[key].finish(folder) for key, folder in targets.items()]


def _folders(parent: Path, keys: list[str]) -> dict[str, Path]:
    """The folders of logs, by key."""
    names = Counter(_names(key)[1] for key in keys)
    return {
        key: parent / name if names[name] == 1 else parent / cluster / name
        for key in keys
        for cluster, name in [_names(key)]
    }


def _refuse_existing(folder: Path) -> None:
    if folder.exists():
        raise LogExists(folder, "already exists: use another folder with --out")


async def _read_topic(
    topic: MirrorTopic,
    add: Callable[[str, ConsumerRecord], None],
    advance: Advance,
    on_wait: OnWait,
) -> None:
    """Call `add` with everything that was written to the topic before this call and is not
    aborted."""
    async with errors_of(topic), consumer(topic) as reader:
        places = await partitions_of(topic)
        reader.assign(places)
        ends = await readable_ends(topic, reader, places, on_wait)
        begins = await reader.beginning_offsets(places)
        total, passed = sum(ends.values()) - sum(begins.values()), 0
        for place in places:
            async for message in messages(reader, place, begins[place], ends[place]):
                key = (message.key or b"").decode(errors="replace")
                if "/" in key:
                    add(key, message)
                advance(passed + message.offset - begins[place], total)
            passed += ends[place] - begins[place]


class _IncomingLog:
    """A log that is being restored; its folder gets its name when it is complete."""

    def __init__(self, parent: Path, key: str, number: int, place: str) -> None:
        self._key = key
        self._cluster, name = _names(key)
        self._folder = parent / name
        self._partial = parent / _PARTIAL / str(number)
        self._place = f"{place}, log {key}"
        self._resources = ExitStack()
        self._events: list[EventRow] = []
        self._commands: list[CommandRow] = []
        self._parts: list[bytes] = []
        self._records = 0
        self._is_cut = False
        self._reason = "" if _is_safe(key) else "its name is not a valid folder name"

    def __enter__(self) -> "_IncomingLog":
        if self._reason:
            return self
        _refuse_existing(self._folder)
        try:
            shutil.rmtree(self._partial, ignore_errors=True)
            folders.make_private(self._partial)
        except OSError as error:
            raise from_os(error, self._partial) from error
        self._resources.callback(shutil.rmtree, self._partial, ignore_errors=True)
        self._receiver: FrameReceiver = self._resources.enter_context(
            receiving(self._partial, self._place)
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    @property
    def can_be_made(self) -> bool:
        """Whether the log can be restored, as far as is known."""
        return not self._reason

    def add(self, message: ConsumerRecord) -> None:
        """Handle one message, in order. Raises LogFull, LogReadOnly, LogFailed."""
        if self._reason:
            return
        with self._fails_alone():
            self._add(message)

    def finish(self, folder: Path) -> RestoredLog | NotFetched:
        """Verify the log and give its folder its name. Raises LogFull, LogReadOnly, LogFailed."""
        with self._fails_alone():
            self._flush()
        if not self._records and not self._reason:
            self._reason = "the topic has lost its beginning, and no segment begins after that"
        if self._reason:
            return NotFetched(self._key, self._reason)
        self._receiver.close()
        try:
            folders.make_private(folder.parent)
            self._partial.rename(folder)
            folders.sync_folder(folder.parent)
        except OSError as error:
            raise from_os(error, folder) from error
        report = verify(folder)
        return RestoredLog(folder, self._cluster, self._records, self._is_cut, report)

    @contextmanager
    def _fails_alone(self) -> Iterator[None]:
        """Errors in this log become the reason why it is not restored."""
        try:
            yield
        except (LogCorrupt, LogTooNew) as error:
            self._reason = str(error)

    def _add(self, message: ConsumerRecord) -> None:
        self._parts.append(message.value or b"")
        if not _is_record(message):
            return
        body, self._parts = b"".join(self._parts), []
        try:
            frame = decode(body)
        except msgspec.MsgspecError as error:
            # The first record on the topic may have lost some of its parts.
            if self._records:
                where = f"partition {message.partition} offset {message.offset}"
                raise LogCorrupt(self._place, f"cannot be read: {error}", where) from None
            frame = None
        if not self._records and not isinstance(frame, SegmentFrame):
            self._is_cut = True
        elif frame is not None:
            self._records += 1
            self._add_frame(frame)

    def _add_frame(self, frame: Frame) -> None:
        match frame:
            case EventsFrame(rows=rows):
                self._events += rows
            case CommandsFrame(rows=rows):
                self._commands += rows
            case _:
                self._flush()
                self._receiver.add(frame)
        if len(self._events) + len(self._commands) >= _ROWS_MAX:
            self._flush()

    def _flush(self) -> None:
        if self._events:
            self._receiver.add(EventsFrame(self._events))
        if self._commands:
            self._receiver.add(CommandsFrame(self._commands))
        self._events, self._commands = [], []


def _names(key: str) -> tuple[str, str]:
    cluster, _, name = key.partition("/")
    return cluster, name


def _is_safe(key: str) -> bool:
    """Whether both parts of a key are folder names that stay inside the target folder."""
    names = key.split("/")
    return len(names) == 2 and all(
        name and name.isprintable() and not name.startswith(".") for name in names
    )


def _is_record(message: ConsumerRecord) -> bool:
    """Whether a message is a whole record, or the last part of one."""
    number, _, count = header_of(message, PART).partition(b"/")
    return number == count
