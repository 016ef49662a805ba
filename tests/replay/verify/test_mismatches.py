"""A replay reports each command that differs, is missing or is not decided any more."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import structs
from typer.testing import CliRunner

from controller.core.canonical import cause_of
from controller.core.commands import CommandId, Issued, Notice, Reason, WriteZnodes
from controller.core.events import NumbersDrawn, Recorded, TimerFired
from controller.event_log.records import command_record, event_record
from eventstore.folders import segments_of
from eventstore.reader import LogReader
from eventstore.writer import LogWriter
from replay.cli.main import app
from replay.logs.decode import UPCASTERS
from replay.logs.snapshots import make_snapshots
from replay.verify.differences import CommandDifference
from replay.verify.verification import MISMATCHES_MAX, verify_decisions
from replay.world.simulation import Simulation
from tests.replay.recorded_log import CONFIGURATION, header, incident, verified, write_log


def invented(seq: int, ordinal: int) -> Issued:
    """A command of an event that no version decides."""
    return Issued(CommandId(seq, ordinal), 1, Notice("info", "invented", "", ""), Reason("none"))


def timer_fired(seq: int, *, channel: str = "timer:none", term: int = 0) -> Recorded:
    """An event after which nothing is decided."""
    clock = 2 * 10**18 + seq
    return Recorded(seq, clock, clock, term, channel, TimerFired("none"))


def append_all(writer: LogWriter, history: Sequence[tuple[Recorded, Sequence[Issued]]]) -> None:
    """Append events and their commands as one batch."""
    writer.append(
        [event_record(recorded) for recorded, _ in history],
        [command_record(one) for _, issued in history for one in issued],
    )


@pytest.mark.parametrize(
    ("data", "differs", "is_stored"),
    [(b"{}", ["digest", "body"], True), (b" " * 5000, ["digest"], False)],
    ids=["small", "large"],
)
def test_different_command_is_reported_with_its_event_and_fields(
    tmp_path: Path, data: bytes, differs: list[str], *, is_stored: bool
) -> None:
    """The log has only the digest of a large command."""
    simulation = incident()
    place = next(
        place
        for place, (_, issued) in enumerate(simulation.history)
        for one in issued
        if isinstance(one.command, WriteZnodes) and "state" in one.command.operations[-1].path
    )
    recorded, issued = simulation.history[place]
    operations = issued[0].command.operations
    changed = WriteZnodes(
        (*operations[:-1], structs.replace(operations[-1], data=data)),
        issued[0].command.epoch_version,
    )
    simulation.history[place] = (recorded, [issued[0]._replace(command=changed), *issued[1:]])
    result = verified(write_log(tmp_path / "log", simulation))
    [mismatch] = result.mismatches
    assert (result.mismatched, result.agreed) == (1, result.commands - 1)
    assert (mismatch.event, mismatch.ordinal) == (recorded.seq, issued[0].id.ordinal)
    assert mismatch.what == "changed"
    assert mismatch.differs == differs
    path = operations[-1].path
    assert mismatch.recorded == mismatch.derived == f"write_znodes {len(operations)} operations"
    part = CommandDifference(
        f"operations[{path}].data", data.decode(), operations[-1].data.decode()
    )
    assert mismatch.is_stored == is_stored
    assert mismatch.differences == ([part] if is_stored else [])


@pytest.mark.parametrize("is_decided", [True, False])
def test_command_that_is_not_derived_is_missing(tmp_path: Path, *, is_decided: bool) -> None:
    simulation = incident()
    history = simulation.history
    place = next(place for place, (_, issued) in enumerate(history) if bool(issued) == is_decided)
    (recorded, issued), count = history[place], len(simulation.commands())
    history[place] = (recorded, [*issued, invented(recorded.seq, len(issued))])
    result = verified(write_log(tmp_path / "log", simulation))
    [mismatch] = result.mismatches
    assert (mismatch.what, mismatch.event) == ("missing", recorded.seq)
    assert (result.commands, result.agreed, result.mismatched) == (count + 1, count, 1)


def test_answer_to_a_command_that_is_not_derived_is_no_mismatch(tmp_path: Path) -> None:
    simulation = incident()
    history = simulation.history
    place = next(place for place, (_, issued) in enumerate(history) if issued)
    (recorded, issued), (last, _) = history[place], history[-1]
    asked = CommandId(recorded.seq, len(issued))
    history[place] = (recorded, [*issued, invented(*asked)])
    clocks, term = (last.wall_ns + 1, last.mono_ns + 1), simulation.fold.term
    history.append((Recorded(last.seq + 1, *clocks, term, "draw", NumbersDrawn(asked, [])), []))
    [mismatch] = verified(write_log(tmp_path / "log", simulation)).mismatches
    assert (mismatch.what, mismatch.event) == ("missing", recorded.seq)


def test_mismatches_above_the_limit_are_only_counted(tmp_path: Path) -> None:
    events = range(1, MISMATCHES_MAX)
    with LogWriter.create(tmp_path / "log", header()) as writer:
        append_all(
            writer, [(timer_fired(one, channel="operator"), [invented(one, 0)]) for one in events]
        )
    result = verified(tmp_path / "log")
    assert result.mismatched == 2 * len(events)
    assert len(result.mismatches) == MISMATCHES_MAX
    assert {one.what for one in result.mismatches} == {"changed", "missing"}


def test_log_without_its_first_segment_agrees_and_progress_is_reported(tmp_path: Path) -> None:
    simulation = Simulation(CONFIGURATION)
    simulation.start_broker(1)
    simulation.connect()
    log, first = tmp_path / "log", len(simulation.history)
    with LogWriter.create(log, header(), segment_bytes=1) as writer:
        append_all(writer, simulation.history)
        assert writer.roll_if_due()
        simulation.put("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1]}}')
        append_all(writer, simulation.history[first:])
        rest, term = range(len(simulation.history) + 1, 1501), simulation.fold.term
        append_all(writer, [(timer_fired(seq, term=term), []) for seq in rest])
    make_snapshots(log)
    segments_of(log)[0].unlink()
    reports: list[tuple[str, int, int | None]] = []
    with LogReader.open(log, UPCASTERS) as reader:
        result = verify_decisions(reader, lambda *report: reports.append(report))
    assert result.mismatches == []
    assert result.events == 1500 - first
    assert reports == [
        ("folding", 1000 - first, result.events),
        ("folding", result.events, result.events),
    ]


# Commands at the end of a log ---------------------------------------------------------------------


def answered(simulation: Simulation) -> int:
    """The last event whose command an event of the history answers."""
    return max(cause_of(recorded.event) or 0 for recorded, _ in simulation.history)


def test_commands_lost_in_a_crash_are_unrecorded(tmp_path: Path) -> None:
    simulation = incident()
    del simulation.history[-6:]
    log = write_log(tmp_path / "log", simulation, close=False, commands_until=answered(simulation))
    result = verified(log)
    assert result.mismatched == 0
    assert result.unrecorded > 0
    assert result.agreed + result.unrecorded == result.commands
    assert result.events_without_commands == 1
    done = CliRunner().invoke(app, ["replay", str(log)])
    assert done.exit_code == 0
    assert "not closed: records at the end may be missing; the last event has no" in done.output


def test_command_that_a_later_event_answers_is_not_lost_in_a_crash(tmp_path: Path) -> None:
    """The daemon stores the commands of an event before it stores an answer to one of them."""
    simulation = incident()
    history = simulation.history
    cause = max(recorded.seq for recorded, issued in history[:-30] if len(issued) > 1)
    answer = next(one.seq for one, _ in history if cause_of(one.event) == cause)
    del history[answer:]
    history[cause - 1] = (history[cause - 1][0], history[cause - 1][1][:-1])
    log = write_log(tmp_path / "log", simulation, close=False, commands_until=cause)
    [mismatch] = verified(log).mismatches
    assert (mismatch.event, mismatch.what) == (cause, "extra")


def test_commands_missing_from_a_closed_log_do_not_agree(tmp_path: Path) -> None:
    """No event answers them."""
    simulation = incident()
    del simulation.history[-4:]
    last = len(simulation.history)
    assert answered(simulation) < last
    result = verified(write_log(tmp_path / "log", simulation, commands_until=last - 1))
    assert result.mismatched == len(simulation.history[-1][1]) > 0
    assert result.unrecorded == 0
    assert {(one.event, one.what) for one in result.mismatches} == {(last, "extra")}


@pytest.mark.parametrize("is_decided", [True, False])
def test_commands_missing_before_a_stored_one_are_not_lost_in_a_crash(
    tmp_path: Path, *, is_decided: bool
) -> None:
    """Commands are stored in the order of their events."""
    simulation = incident()
    history = simulation.history
    kinds = [event_record(recorded).kind for recorded, _ in history]
    expired = kinds.index("session_expired")
    del history[expired + 2 :]
    (recorded, lost), (following, issued) = history[expired:]
    assert recorded.seq > answered(simulation)
    others = [] if is_decided else [invented(following.seq, len(issued))]
    history[expired:] = [(recorded, []), (following, others or issued)]
    result = verified(write_log(tmp_path / "log", simulation, close=False))
    missing = [(recorded.seq, "extra")] * len(lost)
    if not is_decided:
        missing += [(following.seq, "extra"), (following.seq, "missing")]
    assert [(one.event, one.what) for one in result.mismatches] == missing
    assert result.unrecorded == 0
