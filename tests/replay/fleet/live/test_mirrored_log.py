"""Folding a log from its messages: each record once, also if messages are repeated or missing."""

from pathlib import Path

import msgspec
import pytest

from eventstore.frames import EventsFrame, decode, encode
from eventstore.reader import LogReader
from replay.fleet.live.mirrored_log import MirroredLog, MirroredLogState
from tests.replay.fleet.live.mirrored import State, counted, published
from tools.fleet.histories import GeneratedHistory, write_log


def states(log: MirroredLog) -> list[State] | None:
    found = log.partitions()
    if found is None:
        return None
    return [(one.topic, one.partition, one.health, one.leader, one.isr) for one in found]


def take(state: MirroredLogState, values: list[bytes]) -> MirroredLog:
    log = MirroredLog(state)
    for value in values:
        log.add(value, None)
    return log


def stored(state: MirroredLogState) -> MirroredLogState:
    """The state as it is read back from the disk."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=MirroredLogState)


def events_in(values: list[bytes]) -> int:
    return sum(isinstance(decode(one), EventsFrame) for one in values)


@pytest.fixture(scope="module")
def log(short_history: GeneratedHistory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with several segments that is not closed."""
    folder = tmp_path_factory.mktemp("followed") / "run-1"
    return write_log(folder, short_history, "a", 1, segment_bytes=200_000, is_closed=False)


@pytest.fixture(scope="module")
def expected_health(log: Path) -> list[list[State]]:
    """The expected health after each event."""
    return counted(log)


def test_health_equals_what_inspect_shows(log: Path, expected_health: list[list[State]]) -> None:
    values = published(log)
    assert len(LogReader(log).segments) > 1
    followed = take(MirroredLogState(), values)
    assert followed.state().trouble == ""
    assert followed.new_events == 400
    assert states(followed) == expected_health[-1] != []
    assert {one[2] for of_all in expected_health for one in of_all} == {
        "offline",
        "under_replicated",
    }


@pytest.mark.long
@pytest.mark.parametrize("size", [100, 7, 1])
def test_batch_size_does_not_change_the_health(
    log: Path, expected_health: list[list[State]], size: int
) -> None:
    values, state, taken = published(log), MirroredLogState(), 0
    for start in range(0, len(values), size):
        followed = take(stored(state), values[start : start + size])
        state, taken = followed.state(), taken + followed.new_events
        found = states(followed)
        if found is not None:
            assert found == expected_health[state.seq]
    assert (taken, state.seq, state.trouble, state.is_active) == (400, 400, "", True)


def test_snapshots_limit_the_events_folded_again(
    log: Path, expected_health: list[list[State]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from replay.fleet.live import mirrored_log

    monkeypatch.setattr(mirrored_log, "REFOLDED_MAX", 20)
    values, state, most = published(log), MirroredLogState(), 0
    for start in range(0, len(values), 10):
        followed = take(stored(state), values[start : start + 10])
        state = followed.state()
        most = max(most, len(state.events))
    assert state.snapshot is not None
    assert most < 100
    assert states(take(MirroredLogState(), values)) == expected_health[-1]
    assert state.trouble == ""


def test_repeated_messages_change_nothing(log: Path, expected_health: list[list[State]]) -> None:
    values = published(log)
    first = take(MirroredLogState(), values[:300])
    state = first.state()
    again = take(stored(state), values[:300])
    assert (again.new_events, again.state()) == (0, state)
    late = take(stored(state), values[100:])
    assert late.new_events == events_in(values) - events_in(values[:300])
    assert states(late) == expected_health[-1]


def test_missing_event_stops_the_log_permanently(log: Path) -> None:
    values = published(log)
    missing = next(
        number for number in range(200, 300) if isinstance(decode(values[number]), EventsFrame)
    )
    state = take(MirroredLogState(), values[:missing] + values[missing + 1 :]).state()
    seq = events_in(values[:missing])
    assert state.seq == seq
    assert state.trouble.startswith(f"event {seq + 2} does not follow event {seq}")
    # The log stays stopped.
    assert take(stored(state), values).state().trouble == state.trouble


def test_changed_record_stops_the_log(log: Path) -> None:
    values = published(log)
    changed = next(
        number for number in range(200, 300) if isinstance(decode(values[number]), EventsFrame)
    )
    frame = decode(values[changed])
    assert isinstance(frame, EventsFrame)
    seq, wall_ns, *others = frame.rows[0]
    values[changed] = encode(EventsFrame([(seq, wall_ns + 1, *others)]))  # type: ignore[list-item]
    assert (
        take(MirroredLogState(), values).state().trouble.startswith(f"event {seq} does not follow")
    )


def test_log_without_its_beginning_is_not_folded(log: Path) -> None:
    values = published(log)
    assert (
        take(MirroredLogState(), values[1:]).state().trouble
        == "the topic does not contain the beginning of the log"
    )
    second = next(n for n in range(1, len(values)) if values[n][1:9] == values[0][1:9])
    assert (
        take(MirroredLogState(), values[second:]).state().trouble
        == "the topic does not contain the beginning of the log"
    )


def test_parts_of_a_record_are_joined_across_batches(
    log: Path, expected_health: list[list[State]]
) -> None:
    """A record in three parts, split between two batches, with repeated parts."""
    values = published(log)
    whole = next(
        number for number in range(200, 300) if isinstance(decode(values[number]), EventsFrame)
    )
    body = values[whole]
    parts = [(body[:20], "1/3"), (body[20:30], "2/3"), (body[30:], "3/3")]
    followed = take(MirroredLogState(), values[:whole])
    for value, part in parts[:2]:
        followed.add(value, part)
    state = stored(followed.state())
    assert state.parts == [body[:20], body[20:30]]
    for again in range(3):
        followed = MirroredLog(state)
        for value, part in parts[again:]:
            followed.add(value, part)
        assert followed.new_events == 1
        followed = take(stored(followed.state()), values[whole + 1 :])
        assert states(followed) == expected_health[-1]


def test_closing_record_after_missing_events_stops_the_log(
    short_history: GeneratedHistory, tmp_path: Path
) -> None:
    values = published(write_log(tmp_path / "run-1", short_history, "a", 1))
    ended = take(MirroredLogState(), values).state()
    assert (ended.is_ended, ended.trouble, ended.snapshot) == (True, "", None)
    last = max(n for n, one in enumerate(values) if isinstance(decode(one), EventsFrame))
    state = take(MirroredLogState(), values[:last] + values[-1:]).state()
    assert state.trouble == "the log ends with event 400, not 399"


def test_undecodable_message_stops_the_log(log: Path) -> None:
    values = published(log)
    header = msgspec.json.decode(decode(values[0]).header)  # type: ignore[union-attr]
    assert (
        take(MirroredLogState(), [b"nonsense", *values])
        .state()
        .trouble.startswith("after event 0:")
    )
    assert header["kind"] == "recorded"
