"""A log that is followed from its messages: each record once, whatever comes again or is gone."""

from pathlib import Path

import msgspec
import pytest

from eventstore.frames import EventsFrame, decode, encode
from eventstore.reader import LogReader
from replay.fleet.live.following import FollowedLog, Kept
from tests.replay.fleet.live.mirrored import State, counted, published
from tools.fleet.incidents import History, write_log


def states(log: FollowedLog) -> list[State] | None:
    found = log.partitions()
    if found is None:
        return None
    return [(one.topic, one.partition, one.health, one.leader, one.isr) for one in found]


def take(kept: Kept, values: list[bytes]) -> FollowedLog:
    log = FollowedLog(kept)
    for value in values:
        log.take(value, None)
    return log


def stored(kept: Kept) -> Kept:
    """As it comes back from the disk."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(kept), type=Kept)


def events_in(values: list[bytes]) -> int:
    return sum(isinstance(decode(one), EventsFrame) for one in values)


@pytest.fixture(scope="module")
def log(told: History, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of several segments that is not closed."""
    folder = tmp_path_factory.mktemp("followed") / "run-1"
    return write_log(folder, told, "a", 1, segment_bytes=200_000, is_closed=False)


@pytest.fixture(scope="module")
def plain(log: Path) -> list[list[State]]:
    """What a plain count says after each event."""
    return counted(log)


def test_what_is_found_is_what_inspect_says(log: Path, plain: list[list[State]]) -> None:
    values = published(log)
    assert len(LogReader(log).segments) > 1
    followed = take(Kept(), values)
    assert followed.kept().trouble == ""
    assert followed.taken == 400
    assert states(followed) == plain[-1] != []
    assert {one[2] for of_all in plain for one in of_all} == {"offline", "under_replicated"}


@pytest.mark.parametrize("size", [1, 7, 100])
def test_batches_of_any_size_come_to_the_same(
    log: Path, plain: list[list[State]], size: int
) -> None:
    values, kept, taken = published(log), Kept(), 0
    for start in range(0, len(values), size):
        followed = take(stored(kept), values[start : start + size])
        kept, taken = followed.kept(), taken + followed.taken
        found = states(followed)
        if found is not None:
            assert found == plain[kept.seq]
    assert (taken, kept.seq, kept.trouble, kept.is_active) == (400, 400, "", True)


def test_snapshots_bound_what_is_folded_again(
    log: Path, plain: list[list[State]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from replay.fleet.live import following

    monkeypatch.setattr(following, "REFOLDED_MAX", 20)
    values, kept, most = published(log), Kept(), 0
    for start in range(0, len(values), 10):
        followed = take(stored(kept), values[start : start + 10])
        kept = followed.kept()
        most = max(most, len(kept.events))
    assert kept.snapshot is not None
    assert most < 100
    assert states(take(Kept(), values)) == plain[-1]
    assert kept.trouble == ""


def test_what_comes_again_changes_nothing(log: Path, plain: list[list[State]]) -> None:
    values = published(log)
    first = take(Kept(), values[:300])
    kept = first.kept()
    again = take(stored(kept), values[:300])
    assert (again.taken, again.kept()) == (0, kept)
    late = take(stored(kept), values[100:])
    assert late.taken == events_in(values) - events_in(values[:300])
    assert states(late) == plain[-1]


def test_what_is_missing_is_told(log: Path) -> None:
    values = published(log)
    missing = next(
        number for number in range(200, 300) if isinstance(decode(values[number]), EventsFrame)
    )
    kept = take(Kept(), values[:missing] + values[missing + 1 :]).kept()
    seq = events_in(values[:missing])
    assert kept.seq == seq
    assert kept.trouble.startswith(f"event {seq + 2} does not follow event {seq}")
    # And stays so.
    assert take(stored(kept), values).kept().trouble == kept.trouble


def test_a_record_that_was_changed_is_told(log: Path) -> None:
    values = published(log)
    changed = next(
        number for number in range(200, 300) if isinstance(decode(values[number]), EventsFrame)
    )
    frame = decode(values[changed])
    assert isinstance(frame, EventsFrame)
    seq, wall_ns, *others = frame.rows[0]
    values[changed] = encode(EventsFrame([(seq, wall_ns + 1, *others)]))  # type: ignore[list-item]
    assert take(Kept(), values).kept().trouble.startswith(f"event {seq} does not follow")


def test_the_beginning_is_needed(log: Path) -> None:
    values = published(log)
    assert take(Kept(), values[1:]).kept().trouble == "its beginning is not on the topic"
    second = next(n for n in range(1, len(values)) if values[n][1:9] == values[0][1:9])
    assert take(Kept(), values[second:]).kept().trouble == "its beginning is not on the topic"


def test_parts_of_a_record(log: Path, plain: list[list[State]]) -> None:
    """Cut between two batches, and come again."""
    values = published(log)
    whole = next(
        number for number in range(200, 300) if isinstance(decode(values[number]), EventsFrame)
    )
    body = values[whole]
    parts = [(body[:20], "1/3"), (body[20:30], "2/3"), (body[30:], "3/3")]
    followed = take(Kept(), values[:whole])
    for value, part in parts[:2]:
        followed.take(value, part)
    kept = stored(followed.kept())
    assert kept.parts == [body[:20], body[20:30]]
    for again in range(3):
        followed = FollowedLog(kept)
        for value, part in parts[again:]:
            followed.take(value, part)
        assert followed.taken == 1
        followed = take(stored(followed.kept()), values[whole + 1 :])
        assert states(followed) == plain[-1]


def test_an_end_that_lacks_records_is_told(told: History, tmp_path: Path) -> None:
    values = published(write_log(tmp_path / "run-1", told, "a", 1))
    ended = take(Kept(), values).kept()
    assert (ended.is_ended, ended.trouble, ended.snapshot) == (True, "", None)
    last = max(n for n, one in enumerate(values) if isinstance(decode(one), EventsFrame))
    kept = take(Kept(), values[:last] + values[-1:]).kept()
    assert kept.trouble == "it ends with event 400, not 399"


def test_a_message_that_is_none_is_told(log: Path) -> None:
    values = published(log)
    header = msgspec.json.decode(decode(values[0]).header)  # type: ignore[union-attr]
    assert take(Kept(), [b"nonsense", *values]).kept().trouble.startswith("after event 0:")
    assert header["kind"] == "recorded"
