"""Replay of a log in parts, each from a snapshot, has the result of a replay from the beginning."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.commands import CommandId
from controller.core.events import (
    Event,
    NumbersDrawn,
    Recorded,
    SessionConnected,
    VersionsOffered,
    WatchFired,
)
from controller.core.snapshot import load_snapshot, take_snapshot
from controller.event_log.records import command_record, event_record
from controller.fingerprint import core_fingerprint
from eventstore.folders import segments_of
from eventstore.reader import LogReader
from eventstore.records import CommandRecord, EventRecord
from eventstore.snapshots import put_snapshot, read_snapshot
from eventstore.writer import LogWriter
from replay.cli.main import app
from replay.index.making import make_index
from replay.logs.decode import UPCASTERS, configuration_of, decode_recorded
from replay.logs.packed import log_at
from replay.logs.recorded_fold import fold_at_start, fold_event
from replay.verify.event_fields import EventFieldChecker, PartEdges, are_consistent
from replay.verify.parts import Part, join, parts_at, parts_of, verify_log, verify_part
from replay.verify.verification import Verification
from replay.world.simulation import Simulation
from tests.replay.diff.versions import RECORDED
from tests.replay.recorded_log import header, incident, write_log
from tests.replay.recorded_log import verified as whole
from tools.bench.inspect import make_log

CUTS = 7
"""The number of parts that a log is cut into."""
NEVER_IDLE = "restart-without-a-controller"
"""In this incident the controller starts until the last event, so that its log has no parts."""


def cut(log: Path) -> list[Part]:
    """Parts of a log between snapshots that are made here, in its folder; none of them between
    events of one batch that changed the term. There the terms before the part would be needed, so
    the log would be verified from its beginning."""
    with LogReader.open(log, UPCASTERS) as reader:
        fold = fold_at_start(reader)
        last, between = reader.header.first_seq, (reader.last_seq - reader.header.first_seq) / CUTS
        for record, following in pairwise(reader.events()):
            fold_event(fold, decode_recorded(record))
            is_possible = fold.is_idle and following.term == fold.term
            if is_possible and record.seq - last >= between:
                put_snapshot(log, core_fingerprint(), record.seq, take_snapshot(fold))
                last = record.seq
        return parts_at(reader, reader.snapshots)


def verified(log: Path, parts: list[Part]) -> Verification | None:
    """The joined result; None if a part does not agree."""
    results = [verify_part(log, one) for one in parts]
    found = [one for one in results if one is not None]
    return join(found) if len(found) == len(results) else None


@pytest.mark.sampled
@pytest.mark.parametrize("incident", RECORDED, ids=[one.name for one in RECORDED])
def test_parts_of_an_incident_have_the_result_of_the_whole(incident: Path) -> None:
    with log_at(incident / "log.tar.xz") as log:
        parts = cut(log)
        assert len(parts) > 1 or incident.name == NEVER_IDLE
        assert verified(log, parts) == whole(log)


def test_parts_of_a_log_that_ends_with_a_crash_have_the_result_of_the_whole(tmp_path: Path) -> None:
    simulation = incident()
    stored_until = len(simulation.history) - 3
    log = write_log(tmp_path / "log", simulation, close=False, commands_until=stored_until)
    found = whole(log)
    assert verified(log, cut(log)) == found


Change = Callable[[EventRecord, list[CommandRecord]], tuple[EventRecord, list[CommandRecord]]]


def other_term(
    event: EventRecord, commands: list[CommandRecord]
) -> tuple[EventRecord, list[CommandRecord]]:
    return event._replace(term=event.term + 1), commands


def other_reason(
    event: EventRecord, commands: list[CommandRecord]
) -> tuple[EventRecord, list[CommandRecord]]:
    return event, [one._replace(reason=b"{}") for one in commands]


def no_commands(
    event: EventRecord, _: list[CommandRecord]
) -> tuple[EventRecord, list[CommandRecord]]:
    return event, []


def earlier(
    event: EventRecord, commands: list[CommandRecord]
) -> tuple[EventRecord, list[CommandRecord]]:
    return event._replace(wall_ns=event.wall_ns - 10**9), commands


def write_changed(folder: Path, simulation: Simulation, seq: int, change: Change) -> Path:
    """The log of a simulation with a change in one event."""
    with LogWriter.create(folder, header()) as writer:
        for one, issued in simulation.history:
            event, commands = event_record(one), [command_record(each) for each in issued]
            if one.seq == seq:
                event, commands = change(event, commands)
            writer.append([event], commands)
    return folder


@pytest.mark.parametrize("change", [other_term, other_reason, no_commands, earlier])
def test_part_that_differs_or_has_notes_is_not_confirmed(tmp_path: Path, change: Change) -> None:
    simulation = incident()
    [*_, seq] = [
        one.seq for one, issued in simulation.history[: len(simulation.history) // 2] if issued
    ]
    log = write_changed(tmp_path / "log", simulation, seq, change)
    parts = cut(log)
    [of_change] = [one for one in parts if one.first_seq <= seq <= one.last_seq]
    results = {one: verify_part(log, one) for one in parts}
    assert [one for one, result in results.items() if result is None] == [of_change]


def test_snapshot_that_is_not_the_state_of_the_log_is_noticed(tmp_path: Path) -> None:
    """The part after it agrees: its decisions do not depend on what is different."""
    log = write_log(tmp_path / "log", incident())
    parts = cut(log)
    changed = parts[3].before
    assert changed is not None
    with LogReader.open(log) as reader:
        fold = load_snapshot(read_snapshot(changed), configuration_of(reader.header))
    [(broker, epoch), *_] = fold.controller.context.channels.items()
    offered = VersionsOffered(broker, epoch, [])
    fold_event(fold, Recorded(changed.seq, 0, 0, fold.term, f"broker:{broker}", offered))
    put_snapshot(log, core_fingerprint(), changed.seq, take_snapshot(fold))
    assert verify_part(log, parts[2]) is None
    assert verify_part(log, parts[3]) is None
    assert verify_part(log, parts[1]) is not None


def test_damaged_snapshot_is_not_used(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", incident())
    parts = cut(log)
    assert parts[1].before is not None
    parts[1].before.path.write_bytes(b"damaged")
    assert verify_part(log, parts[1]) is None


# What parts assume of each other -----------------------------------------------------------------


def edges(
    first_seq: int, events: list[tuple[Event, str]], clocks: list[tuple[int, int]] | None = None
) -> PartEdges:
    """Of a part. Each event has one command; its clocks are its number if they are not given."""
    fields = EventFieldChecker(first_seq, 0)
    for seq, (event, channel) in enumerate(events, first_seq):
        wall_ns, mono_ns = clocks[seq - first_seq] if clocks else (seq, seq)
        one = Recorded(seq, wall_ns, mono_ns, 0, channel, event)
        assert fields.check(event_record(one), one) == []
        fields.note_fold(seq, 0, 1)
    return fields.edges()


def consistent(first: list[tuple[Event, str]], second: list[tuple[Event, str]]) -> bool:
    """Whether a part may follow another one, which begins with the log."""
    return are_consistent([edges(1, first), edges(1 + len(first), second)])


SESSION = (SessionConnected(0x1F, 6000, "zk1:2181", False), "zookeeper:1f")
DRAWN = (NumbersDrawn(CommandId(1, 0), []), "draw")


def watch(session: str) -> tuple[Event, str]:
    return WatchFired("/controller", "data", 7), f"zookeeper:{session}"


def test_part_may_answer_commands_of_earlier_parts() -> None:
    assert consistent([SESSION], [DRAWN])
    assert not consistent([SESSION], [(NumbersDrawn(CommandId(1, 1), []), "draw")])


def test_part_may_have_events_of_sessions_of_earlier_parts() -> None:
    assert consistent([SESSION], [watch("1f")])
    assert not consistent([SESSION], [watch("2f")])


@pytest.mark.parametrize(
    ("first", "is_consistent"), [((3, 3), True), ((2, 3), False), ((3, 2), False)]
)
def test_clocks_do_not_go_back_between_parts(
    first: tuple[int, int], *, is_consistent: bool
) -> None:
    before = edges(1, [SESSION, watch("1f")], [(1, 1), (3, 3)])
    after = edges(3, [watch("1f"), watch("1f")], [first, (9, 9)])
    last = edges(5, [watch("1f")], [(9, 9)])
    assert are_consistent([before, after, last]) == is_consistent


def test_part_of_a_log_without_its_first_segments_may_assume_what_these_had() -> None:
    of_removed = [(NumbersDrawn(CommandId(2, 7), []), "draw"), watch("3f")]
    assert are_consistent([edges(5, of_removed), edges(7, of_removed)])
    for command in (CommandId(0, 0), CommandId(2, -1)):
        fields = EventFieldChecker(5, 0)
        one = Recorded(5, 5, 5, 0, "draw", NumbersDrawn(command, []))
        assert [each.name for each in fields.check(event_record(one), one)] == ["command"]


def test_connection_has_requests_of_one_broker_in_all_parts() -> None:
    of_brokers = [(AlterPartitionReceived(2, 3, one, 7, []), "api:1") for one in (1, 2)]
    assert consistent([of_brokers[0]], [of_brokers[0]])
    assert not consistent([of_brokers[0]], [of_brokers[1]])
    other = AlterPartitionReceived(3, 3, 3, 7, []), "api:2"
    assert not consistent([of_brokers[0], other], [of_brokers[1], other])


# A long log --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of this core with snapshots."""
    log = tmp_path_factory.mktemp("long") / "log"
    make_log(log, 22_000)
    make_index(log)
    return log


def replayed(log: Path, workers: int) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(app, ["replay", str(log), "--json", "--workers", str(workers)])
    return done.exit_code, json.loads(done.stdout)


@pytest.mark.slow
def test_log_with_snapshots_is_replayed_by_several_processes(long_log: Path) -> None:
    with LogReader.open(long_log, UPCASTERS) as reader:
        parts = parts_of(reader, 2)
        seen: list[int] = []
        found = verify_log(reader, lambda _, done, __: seen.append(done), 2)
        assert len(seen) == len(parts) > 1
        assert max(seen) == found.events
    assert replayed(long_log, 2) == replayed(long_log, 1)


def altered(commands: list[CommandRecord], cause: int) -> list[CommandRecord]:
    """Commands with another reason, if that is their cause."""
    return [one._replace(reason=b"{}") if one.cause == cause else one for one in commands]


@pytest.mark.slow
def test_difference_is_reported_as_by_one_process(long_log: Path, tmp_path: Path) -> None:
    """A part only finds that it does not agree."""
    log = tmp_path / "log"
    with LogReader.open(long_log, UPCASTERS) as reader:
        middle = reader.last_seq // 2
        changed = next(one.cause for one in reader.commands(middle))
        records = list(reader.records())
        with LogWriter.create(log, reader.header) as writer:
            events = [event for event, _ in records]
            writer.append(
                events, [one for _, commands in records for one in altered(commands, changed)]
            )
        for name in reader.snapshots:
            (log / name.path.name).write_bytes(name.path.read_bytes())
    status, document = replayed(log, 2)
    assert status == 1
    assert len(document["mismatches"]) == 1
    assert replayed(log, 1) == (status, document)


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        "update events set chain = x'00' where rowid = 9000",
        "update commands set chain = x'00' where rowid = 9000",
        "delete from events where rowid = (select max(rowid) from events)",
        "delete from commands where rowid = (select max(rowid) from commands)",
    ],
)
def test_damage_is_reported_as_by_one_process(long_log: Path, tmp_path: Path, damage: str) -> None:
    log = tmp_path / "log"
    shutil.copytree(long_log, log)
    [segment] = segments_of(log)
    with closing(sqlite3.connect(segment, isolation_level=None)) as database:
        database.execute(damage)
    by_one, by_two = (
        CliRunner().invoke(app, ["replay", str(log), "--workers", workers]) for workers in "12"
    )
    assert (by_two.exit_code, by_two.output) == (by_one.exit_code, by_one.output)
    assert by_one.exit_code == 2
    assert str(segment) in by_one.output
