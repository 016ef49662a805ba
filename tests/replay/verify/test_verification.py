"""Replay agrees with a log of this core, and finds every difference."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs
from typer.testing import CliRunner

from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.commands import (
    Notice,
    Reason,
)
from controller.core.events import Recorded, ShutdownRequested, ZnodesRead
from controller.event_log.records import event_record
from eventstore.folders import segments_of
from eventstore.reader import LogReader
from eventstore.writer import LogWriter
from replay.cli.main import app
from replay.errors import ReplayError
from replay.logs.packed import log_at
from replay.world.simulation import Simulation
from tests.replay.cli.command import refold
from tests.replay.diff.versions import RECORDED
from tests.replay.recorded_log import (
    header,
    incident,
    verified,
    with_an_impossible_outcome,
    write_log,
)

ROOT = Path(__file__).parents[3]


def refold_replay(
    log: Path, root: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """`refold replay LOG --json`, with the code in `root` or with an environment in a new
    process."""
    if root is None and not environment:
        return refold("replay", log, "--json")
    root = root or ROOT
    return subprocess.run(
        [sys.executable, "-m", "replay.cli.main", "replay", str(log), "--json"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_log_of_this_core_agrees(tmp_path: Path) -> None:
    simulation = incident()
    result = verified(write_log(tmp_path / "log", simulation))
    assert result.mismatches == []
    assert result.events == len(simulation.history)
    assert result.commands == result.agreed == len(simulation.commands())
    assert result.unrecorded == 0
    assert [bool(issued) for _, issued in simulation.history[-5:]] == [True, *[False] * 4]
    assert result.events_without_commands == 4


@pytest.mark.sampled
@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_log_agrees_in_a_new_process_with_any_hash_seed(tmp_path: Path, seed: str) -> None:
    log = write_log(tmp_path / "log", incident())
    done = refold_replay(log, PYTHONHASHSEED=seed)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["mismatches"] == []
    counts = {"events", "commands", "agreed", "unrecorded", "events_without_commands"}
    assert set(result) == counts | {"mismatches", "other_core", "is_closed", "notes"}
    assert result["agreed"] == result["commands"] > 50


def test_log_without_any_command_is_refused(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", incident(), close=False, commands_until=0)
    with pytest.raises(ReplayError, match=r"commands: those of event .* are missing"):
        verified(log)


def stopped() -> Simulation:
    """The incident, after which an operator stops the controller."""
    simulation = incident()
    simulation.happen(ShutdownRequested(""), "operator")
    return simulation


@pytest.mark.parametrize("fingerprint", [None, "another"])
def test_missing_closing_record_of_a_controller_that_stopped_is_noted(
    tmp_path: Path, fingerprint: str | None
) -> None:
    simulation = stopped() if fingerprint is None else reworded(stopped())
    log = write_log(tmp_path / "log", simulation, fingerprint=fingerprint, close=False)
    result = verified(log)
    assert result.notes == ["the controller stopped, but the closing record is missing"]
    assert result.events_without_commands == 0
    closed = write_log(tmp_path / "closed", simulation, fingerprint=fingerprint)
    assert verified(closed).notes == []


def test_request_that_arrives_after_the_stop_does_not_hide_the_missing_closing_record(
    tmp_path: Path,
) -> None:
    simulation = stopped()
    last, _ = simulation.history[-1]
    request = ElectLeadersReceived(1, 2, "preferred", None)
    clocks, term = (last.wall_ns, last.mono_ns), simulation.fold.term
    late = Recorded(last.seq + 1, *clocks, term, "api:1", request)
    rejected = [one for part in simulation.fold.apply(late) for one in part]
    assert rejected
    simulation.history.append((late, rejected))
    result = verified(write_log(tmp_path / "log", simulation, close=False))
    assert result.notes == ["the controller stopped, but the closing record is missing"]


def test_imported_log_is_refused(tmp_path: Path) -> None:
    imported = structs.replace(header(), kind="world-backed")
    LogWriter.create(tmp_path / "log", imported).close()
    with pytest.raises(ReplayError, match="or an imported log"):
        verified(tmp_path / "log")


def test_replaced_last_event_of_a_closed_log_is_an_error(tmp_path: Path) -> None:
    """The checksums of the events fit together, but not the one in the closing record."""
    simulation = incident()
    log = write_log(tmp_path / "log", simulation)
    recorded, issued = simulation.history[-1]
    later = structs.replace(recorded, mono_ns=recorded.mono_ns + 1)
    simulation.history[-1] = (later, issued)
    [other] = segments_of(write_log(tmp_path / "other", simulation))
    [segment] = segments_of(log)
    with closing(sqlite3.connect(segment, isolation_level=None)) as database:
        database.execute("attach ? as other", (str(other),))
        database.execute(f"replace into events select * from other.events where seq = {later.seq}")
    with pytest.raises(ReplayError, match="closing record: its checksums do not match"):
        verified(log)


def reworded(simulation: Simulation) -> Simulation:
    """The incident as a version with other texts would have recorded it."""
    for place, (recorded, issued) in enumerate(simulation.history):
        simulation.history[place] = (
            recorded,
            [
                one._replace(
                    command=structs.replace(one.command, text="in other words")
                    if isinstance(one.command, Notice)
                    else one.command,
                    reason=Reason("another name of the rule"),
                )
                for one in issued
            ],
        )
    return simulation


def test_log_of_another_core_agrees_if_only_texts_differ(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", reworded(incident()), fingerprint="another")
    result = verified(log)
    assert result.mismatches == []
    assert result.agreed == result.commands > 50
    assert result.other_core.startswith("core another (refold ")
    same_core = write_log(tmp_path / "same", reworded(incident()))
    assert verified(same_core).mismatched > 50


def test_log_of_another_core_does_not_agree_if_a_decision_differs(tmp_path: Path) -> None:
    simulation = incident()
    recorded, issued = simulation.history[3]
    simulation.history[3] = (recorded, [*issued[:-1], issued[-1]._replace(term=7)])
    log = write_log(tmp_path / "log", simulation, fingerprint="another")
    [mismatch] = verified(log).mismatches
    assert (mismatch.what, mismatch.event, mismatch.differs) == ("changed", recorded.seq, ["term"])
    done = CliRunner().invoke(app, ["replay", str(log)])
    assert done.exit_code == 1
    assert "recorded by core another (refold " in done.output
    assert f"refold diff {log} --base REF --head installed" in done.output


def test_log_of_another_core_that_cannot_be_folded_recommends_its_version(
    tmp_path: Path,
) -> None:
    cluster = with_an_impossible_outcome(incident())
    log = write_log(tmp_path / "log", cluster, fingerprint="another")
    done = CliRunner().invoke(app, ["replay", str(log)])
    assert done.exit_code == 2
    assert "recorded by core another (refold " in done.stderr
    outcome = (
        "cannot fold event 2 (znodes_written, the outcome of command 1.0): run that version, or"
    )
    assert outcome in done.stderr
    assert "refold diff LOG --base REF" in done.stderr
    assert "AttributeError" not in done.stderr


def test_defect_of_the_core_that_recorded_the_log_is_raised(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", with_an_impossible_outcome(incident()))
    with pytest.raises(AttributeError):
        verified(log)


@pytest.mark.parametrize("incident", RECORDED, ids=lambda one: one.name)
def test_incidents_of_older_cores_agree(incident: Path) -> None:
    with log_at(incident) as log:
        result = verified(log)
    assert result.mismatches == []
    assert result.agreed > 40


@pytest.mark.parametrize("packed", ["", "log.tar.xz"], ids=["incident", "packed log"])
def test_incidents_and_packed_logs_are_replayed_without_unpacking(packed: str) -> None:
    done = CliRunner().invoke(app, ["replay", str(RECORDED[0] / packed)])
    assert done.exit_code == 0, done.stderr
    assert " agrees: " in done.stdout


def test_changed_event_changes_the_commands(tmp_path: Path) -> None:
    """Commands are derived from events: a changed ISR changes the decisions."""
    simulation = incident()
    changed = 0
    for place, (recorded, issued) in enumerate(simulation.history):
        event = recorded.event
        if isinstance(event, ZnodesRead) and event.data[0] and b'"isr":[1,2,3]' in event.data[0]:
            data = [event.data[0].replace(b'"isr":[1,2,3]', b'"isr":[1,3]'), *event.data[1:]]
            other = structs.replace(recorded, event=structs.replace(event, data=data))
            simulation.history[place] = (other, issued)
            changed += 1
    assert changed
    assert verified(write_log(tmp_path / "log", simulation)).mismatched > 0


def flip_byte(log: Path, query: str, table: str, column: str) -> None:
    """Changes one byte of a value, as a defective disk would."""
    [segment] = segments_of(log)
    with closing(sqlite3.connect(segment, isolation_level=None)) as database:
        rowid, value = database.execute(query).fetchone()
        data = value.encode() if isinstance(value, str) else bytes(value)
        middle = len(data) // 2
        data = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        stored = data.decode() if isinstance(value, str) else data
        database.execute(f"update {table} set {column} = ? where rowid = ?", (stored, rowid))


@pytest.mark.parametrize("column", ["payload", "kind", "channel", "chain"])
def test_one_byte_changed_in_an_event_is_an_error(tmp_path: Path, column: str) -> None:
    log = write_log(tmp_path / "log", incident())
    flip_byte(log, f"select rowid, {column} from events where rowid = 20", "events", column)
    assert refold_replay(log).returncode in (1, 2)


@pytest.mark.parametrize("column", ["digest", "body", "target", "reason", "kind"])
def test_one_byte_changed_in_a_command_is_an_error(tmp_path: Path, column: str) -> None:
    log = write_log(tmp_path / "log", incident())
    query = f"select rowid, {column} from commands where kind = 'write_znodes' limit 1"
    flip_byte(log, query, "commands", column)
    assert refold_replay(log).returncode in (1, 2)


def test_one_byte_changed_in_a_rule_is_another_core(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", incident())
    root = tmp_path / "code"
    for package in ("controller", "eventstore", "replay"):
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("*.pyc.*"))
    assert refold_replay(log, root).returncode == 0
    rule = root / "controller/core/procedures/elections/replica_state_machine.py"
    source = rule.read_text()
    assert source.count("state.leader_epoch + 1") == 1
    rule.write_text(source.replace("state.leader_epoch + 1", "state.leader_epoch + 2"))
    done = refold_replay(log, root)
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert result["other_core"].startswith("core ")
    changed = {part["part"] for one in result["mismatches"] for part in one["differences"]}
    assert "partitions[t-0].leadership.leader_epoch" in changed


def test_result_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """A closed pipe does not change the status; a full disk is an error."""
    log = write_log(tmp_path / "log", incident())
    replay = [sys.executable, "-m", "replay.cli.main", "replay"]
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as unread, Path("/dev/full").open("wb") as full:
        quiet, failed = (
            subprocess.run([*replay, log], stdout=to, stderr=subprocess.PIPE, check=False)
            for to in (unread, full)
        )
    assert (quiet.returncode, quiet.stderr) == (0, b"")
    assert failed.returncode == 2
    assert failed.stderr == b"refold: cannot write the output: No space left on device\n"


@pytest.mark.parametrize("damage", ["missing", "empty", "text", "folder"])
def test_unusable_input_is_reported_in_one_line(tmp_path: Path, damage: str) -> None:
    log = tmp_path / "log"
    if damage == "empty":
        log.write_bytes(b"")
    elif damage == "text":
        log.write_text("no log at all\n" * 1000)
    elif damage == "folder":
        log.mkdir()
    done = refold_replay(log)
    assert done.returncode == 2
    assert done.stdout == ""
    assert str(log) in done.stderr
    assert "Traceback" not in done.stderr


def test_event_of_a_newer_refold_is_refused(tmp_path: Path) -> None:
    simulation = incident()
    log = write_log(tmp_path / "log", simulation, close=False)
    assert event_record(simulation.history[0][0]).kind == "session_connected"
    with LogReader.open(log) as reader:
        events = list(reader.events())
    newer = [events[0]._replace(schema=99), *events[1:]]
    other = tmp_path / "newer"
    with LogWriter.create(other, header()) as writer:
        writer.append(newer)
    done = refold_replay(other)
    assert done.returncode == 2
    assert "newer refold" in done.stderr


def test_log_without_its_first_segment_needs_a_snapshot(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", incident())
    [segment] = segments_of(log)
    with closing(sqlite3.connect(segment, isolation_level=None)) as database:
        database.execute("delete from events where rowid = 1")
    with pytest.raises(ReplayError):
        verified(log)
