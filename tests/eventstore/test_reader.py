import sqlite3
import subprocess
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from eventstore.chain import chained
from eventstore.errors import LogCorrupt, LogLocked, LogTooNew
from eventstore.filters import EventFilter
from eventstore.folders import segments_of
from eventstore.reader import LogReader
from eventstore.records import EventRecord
from eventstore.schema import INSERT_EVENT
from eventstore.segment import open_segment
from eventstore.subjects import index_path, index_subjects
from eventstore.upcasters import Upcast, Upcasters
from eventstore.verify import verify
from eventstore.writer import LogWriter
from tests.eventstore.samples import START_NS, command, event, events, header, write_log


@pytest.fixture
def mixed_log(tmp_path: Path) -> Path:
    """Nine events in segments of three, with various kinds, channels and terms."""
    folder = tmp_path / "mixed"
    with LogWriter.create(folder, header(), segment_bytes=1) as writer:
        for first in (1, 4, 7):
            writer.append(
                [
                    event(first),
                    event(first + 1, kind="timer_fired", channel="timer"),
                    event(first + 2, kind="broker_answered", channel="broker-3", term=2),
                ]
            )
            writer.roll_if_due()
    return folder


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (EventFilter(), [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (EventFilter(first_seq=4, last_seq=7), [4, 5, 6, 7]),
        (EventFilter(from_ns=START_NS + 8 * 10**9), [8, 9]),
        (EventFilter(to_ns=START_NS + 2 * 10**9), [1, 2]),
        (EventFilter(kinds=("timer_fired",)), [2, 5, 8]),
        (EventFilter(kinds=("timer_fired", "broker_answered"), first_seq=5), [5, 6, 8, 9]),
        (EventFilter(channel="broker-3"), [3, 6, 9]),
        (EventFilter(term=2, last_seq=6), [3, 6]),
        (EventFilter(first_seq=10), []),
    ],
)
def test_filters_select_events(mixed_log: Path, wanted: EventFilter, numbers: list[int]) -> None:
    assert [one.seq for one in LogReader(mixed_log).events(wanted)] == numbers


class ParityIndexer:
    """Indexes even or odd, and a broker with the event's number. Records the calls."""

    def __init__(self, version: str = "1") -> None:
        self.version = version
        self.asked: list[int] = []

    def __call__(self, record: EventRecord, /) -> Iterable[str]:
        self.asked.append(record.seq)
        return ["even" if record.seq % 2 == 0 else "odd", f"broker {record.seq}"]


subjects_of = ParityIndexer()


def test_events_are_found_by_subject(mixed_log: Path) -> None:
    reader = LogReader(mixed_log)
    even = EventFilter(subject="even", kinds=("watch_fired", "timer_fired"))
    assert [one.seq for one in reader.events(even, subjects_of)] == [2, 4, 8]
    assert [one.seq for one in reader.events(EventFilter(subject="broker 5"), subjects_of)] == [5]
    assert list(reader.events(EventFilter(subject="nobody"), subjects_of)) == []
    assert index_path(reader.segments[0]).exists()
    assert verify(mixed_log).is_sound


def test_index_is_extended(tmp_path: Path) -> None:
    counted = ParityIndexer()
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append(events(1, 4))
        with open_segment(writer.segment) as segment:
            index_subjects(segment, counted)
        writer.append(events(5, 6))
    wanted = EventFilter(subject="odd")
    found = LogReader(tmp_path / "log").events(wanted, counted)
    assert [one.seq for one in found] == [1, 3, 5]
    assert counted.asked == [1, 2, 3, 4, 5, 6]


def test_no_index_is_written_in_the_folder_of_a_running_daemon(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append(events(1, 4))
        found = LogReader(tmp_path / "log").events(EventFilter(subject="odd"), subjects_of)
        assert [one.seq for one in found] == [1, 3]
        assert not index_path(writer.segment).exists()


def test_index_that_cannot_be_written_is_created_elsewhere(mixed_log: Path) -> None:
    reader = LogReader(mixed_log)
    index_path(reader.segments[0]).mkdir()
    found = reader.events(EventFilter(subject="even", last_seq=4), subjects_of)
    assert [one.seq for one in found] == [2, 4]


def test_index_of_other_rules_is_created_again(mixed_log: Path) -> None:
    wanted = EventFilter(subject="odd")
    for version in ("1", "2"):
        parity = ParityIndexer(version)
        assert len(list(LogReader(mixed_log).events(wanted, parity))) == 5
        assert parity.asked == list(range(1, 10))


def test_growing_log_is_read(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "log", header(), segment_bytes=1) as writer:
        reader = LogReader(tmp_path / "log")
        assert list(reader.events()) == []
        writer.append(events(1, 3))
        assert reader.last_seq == 3
        writer.roll_if_due()
        writer.append(events(4, 5))
        assert list(reader.events()) == events(1, 5)
        assert verify(tmp_path / "log").living
        assert reader.closing is None
    assert reader.closing is not None


def test_slow_reader_does_not_delay_the_writer(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append(events(1, 2500))
        slow = LogReader(tmp_path / "log").events()
        next(slow)
        wal = writer.segment.with_name(writer.segment.name + "-wal")
        for first in range(2501, 12_501, 1000):
            writer.append(events(first, first + 999, payload=b"x" * 2000))
        # The write-ahead log was checkpointed: it holds one batch, not all records.
        assert wal.stat().st_size < 10 << 20
        assert sum(1 for _ in slow) == 12_499


def test_locked_log_is_reported(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "log", header(), busy_ms=10) as writer:
        foreign = sqlite3.connect(writer.segment, isolation_level=None)
        foreign.execute("begin immediate")
        with pytest.raises(LogLocked, match="another process has locked it"):
            writer.append(events(1, 3))
        foreign.close()


def test_log_on_a_read_only_file_system_is_read(small_disk: Path) -> None:
    write_log(small_disk / "closed")
    write_log(small_disk / "open", closed=False)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert verify(small_disk / "closed").closed
    reader = LogReader(small_disk / "closed")
    assert list(reader.events()) == events(1, 10)
    found = reader.events(EventFilter(subject="odd"), subjects_of)
    assert [one.seq for one in found] == [1, 3, 5, 7, 9]
    assert list(LogReader(small_disk / "open").events()) == events(1, 10)
    left = sorted(one.name for one in (small_disk / "closed").iterdir())
    assert left == ["00000000000000000001.refold", "lock"]


def test_last_transactions_before_a_crash_are_read_from_a_read_only_file_system(
    small_disk: Path,
) -> None:
    writer = LogWriter.create(small_disk / "living", header())
    writer.append(events(1, 10))
    crashed = small_disk / "crashed"
    crashed.mkdir()
    for suffix in ("", "-wal"):
        name = writer.segment.name + suffix
        (crashed / name).write_bytes((small_disk / "living" / name).read_bytes())
    writer.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert list(LogReader(crashed).events()) == events(1, 10)
    assert verify(crashed).is_sound


def test_old_schemas_are_read_as_the_current_one(tmp_path: Path) -> None:
    """Version 1 of "ticked" was called "tick"; version 2 of "ticked" has an exclamation mark."""
    upcasters = Upcasters(
        {"ticked": 2},
        {
            ("tick", 1): Upcast(lambda payload: payload.upper(), new_kind="ticked", new_schema=1),
            ("ticked", 1): Upcast(lambda payload: payload + b"!"),
        },
    )
    stored = [
        event(1, kind="tick", payload=b"a"),
        event(2, kind="ticked", payload=b"B"),
        event(3, kind="ticked", schema=2, payload=b"C!"),
    ]
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append(stored)
    reader = LogReader(tmp_path / "log", upcasters)
    for wanted in (EventFilter(), EventFilter(kinds=("ticked",))):
        read = list(reader.events(wanted))
        assert [one.payload for one in read] == [b"A!", b"B!", b"C!"]
        assert {(one.kind, one.schema) for one in read} == {("ticked", 2)}
    assert list(LogReader(tmp_path / "log").events()) == stored


def test_log_of_format_1_is_readable() -> None:
    """The log and the stream in logs/ were written by refold 0.1.0 and never change."""
    log = Path(__file__).parent / "logs" / "format-1"
    assert verify(log).closed
    with (log / "log.stream").open("rb") as source:
        readers = [LogReader(log), LogReader.open("-", standard_input=source)]
    for reader in readers:
        with reader:
            assert reader.header == header()
            assert list(reader.events()) == events(1, 4)
            assert list(reader.commands()) == [command(seq) for seq in range(1, 5)]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"schema": 2}, 'event 3: made by a newer refold \\("watch_fired" in version 2'),
        ({"kind": "foreseen"}, 'made by a newer refold \\("foreseen" in version 1'),
    ],
)
def test_newer_schemas_are_reported(tmp_path: Path, changes: dict[str, object], text: str) -> None:
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append([*events(1, 2), event(3, **changes)])
    found = LogReader(tmp_path / "log", Upcasters({"watch_fired": 1})).events()
    with pytest.raises(LogTooNew, match=text):
        list(found)


def test_schema_version_that_no_refold_writes_is_damage(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append([*events(1, 2), event(3, schema=0)])
    found = LogReader(tmp_path / "log", Upcasters({"watch_fired": 1})).events()
    with pytest.raises(LogCorrupt, match="event 3: it has schema version 0"):
        list(found)


def test_commands_of_one_kind_are_selected(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append([event(1), event(2)], [command(1, 0), command(1, 1, kind="notice")])
        writer.append([event(3)], [command(2, 0, kind="notice"), command(2, 1)])
    with LogReader.open(tmp_path / "log") as reader:
        found = [(one.cause, one.ordinal) for one in reader.commands(kind="notice")]
        assert found == [(1, 1), (2, 0)]
        assert [one.cause for one in reader.commands(last_cause=1, kind="notice")] == [1]


@pytest.mark.parametrize("first", [None, *range(7)])
@pytest.mark.parametrize("last", [None, *range(7)])
def test_commands_of_a_range_are_those_of_its_events(
    tmp_path: Path, first: int | None, last: int | None
) -> None:
    stored = [command(cause, ordinal) for cause, ordinal in ((1, 0), (2, 0), (2, 1), (5, 0))]
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append(events(1, 5), stored)
    with LogReader.open(tmp_path / "log") as reader:
        found = list(reader.commands(first, last))
    between = range(first or 0, 10 if last is None else last + 1)
    assert found == [one for one in stored if one.cause in between]


def test_command_that_now_names_a_later_cause_does_not_end_a_range(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", 10)
    [segment] = segments_of(log)
    with closing(sqlite3.connect(segment, isolation_level=None)) as database:
        database.execute("update commands set cause = 99 where cause = 4")
    with LogReader.open(log) as reader, pytest.raises(LogCorrupt, match="it was changed"):
        list(reader.commands(3, 6))


def test_event_that_was_changed_ends_reading(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", 10)
    [segment] = segments_of(log)
    with closing(sqlite3.connect(segment, isolation_level=None)) as database:
        database.execute("update events set payload = x'00' where seq = 4")
    read: list[EventRecord] = []
    with LogReader.open(log) as reader, pytest.raises(LogCorrupt, match="event 4: it was changed"):
        read.extend(reader.events())
    assert read == events(1, 3)


def test_missing_event_ends_reading_also_if_the_checksums_fit(tmp_path: Path) -> None:
    writer = LogWriter.create(tmp_path / "log", header())
    writer.append(events(1, 3))
    rows, _ = chained(writer.tip.event_chain, events(5, 6))
    writer.abandon()
    with closing(sqlite3.connect(writer.segment, isolation_level=None)) as database:
        database.executemany(INSERT_EVENT, rows)
    with LogReader.open(writer.folder) as reader:
        found = reader.events()
        assert [next(found).seq for _ in range(3)] == [1, 2, 3]
        with pytest.raises(LogCorrupt, match="events 4 to 4 are missing"):
            next(found)
