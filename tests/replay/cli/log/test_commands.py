"""`refold log` from the command line: output and exit codes."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from controller.core import commands, events
from eventstore.writer import LogWriter
from tests.eventstore.samples import command, event, header
from tests.replay.cli.command import REFOLD, refold

STATE = "/brokers/topics/t/partitions/0/state"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of a fired watch, a read of the state of t-0, a broker's response, and a timer."""
    encode = msgspec.msgpack.encode
    read = commands.ReadZnodes(paths=(STATE,), watch=True)
    observed: list[events.Event] = [
        events.WatchFired(path="/brokers/ids/3", change="created", zxid=7),
        events.ZnodesRead(
            command=commands.CommandId(1, 0),
            offset=0,
            errors=[0],
            data=[b'{"leader":1}'],
            versions=[1],
            czxids=[1],
            mzxids=[1],
            owners=[0],
        ),
        events.BrokerResponded(
            command=commands.CommandId(2, 0),
            broker=3,
            broker_epoch=7,
            error=0,
            partition_errors=[("t", 0, 9)],
        ),
        events.TimerFired(timer="topic-deletion"),
    ]
    stored = [
        event(number, kind=one.__struct_config__.tag, term=number // 4, payload=encode(one))
        for number, one in enumerate(observed, 1)
    ]
    reason = encode(commands.Reason(rule="broker start-up"))
    issued = command(1, kind="read_znodes", target=STATE, reason=reason, body=encode(read))
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append(stored[:1])
        writer.append(stored[1:], [issued])
    return tmp_path / "log"


def shown(*arguments: str | Path) -> list[int]:
    done = refold("log", "show", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["seq"] for line in done.stdout.splitlines()]


def test_verify_reports_a_sound_log(log: Path) -> None:
    done = refold("log", "verify", log)
    assert done.returncode == 0
    assert done.stdout == f"{log}: sound and closed; 4 events, 1 commands in 1 segment(s)\n"
    report = json.loads(refold("log", "verify", log, "--json").stdout)
    assert report["sound"]
    assert report["damages"] == []


def test_verify_reports_a_damaged_log(log: Path) -> None:
    segment = log / "00000000000000000001.refold"
    with closing(sqlite3.connect(segment)) as connection:
        connection.executescript("update events set term = 9 where seq = 2")
    done = refold("log", "verify", log)
    assert done.returncode == 1
    assert done.stdout.startswith(f"{segment}, event 2: it was changed")
    assert json.loads(refold("log", "verify", "--json", log).stdout)["damages"][0]["record"]


@pytest.mark.parametrize("sub_command", ["verify", "show", "stats", "tail", "export"])
def test_incident_is_accepted_as_a_log(sub_command: str) -> None:
    incident = Path("tests/incidents/topics").absolute()
    done = refold("log", sub_command, incident)
    assert done.returncode == 0
    assert all(one.startswith("refold log: not checked: ") for one in done.stderr.splitlines())
    packed = refold("log", sub_command, incident / "log.tar.xz")
    assert done.stdout == packed.stdout.replace("/log.tar.xz", "")


@pytest.mark.parametrize("sub_command", ["verify", "show", "stats", "tail"])
def test_path_without_a_log_is_reported_in_one_line(tmp_path: Path, sub_command: str) -> None:
    done = refold("log", sub_command, tmp_path / "nowhere")
    assert done.returncode == 2
    assert done.stderr == f"refold log: {tmp_path}/nowhere: no such file or folder\n"
    assert done.stdout == ""
    assert refold("log", sub_command, "-", stdin=b"nonsense").returncode == 2


def test_show_filters_by_number_time_kind_and_term(log: Path) -> None:
    assert shown(log) == [1, 2, 3, 4]
    assert shown(log, "--from", "2", "--to", "3") == [2, 3]
    assert shown(log, "--from", "2026-11-18T11:06:43") == [3, 4]
    assert shown(log, "--to", "2026-11-18T12:06:42+01:00") == [1, 2]
    assert shown(log, "--kind", "timer_fired", "--kind", "watch_fired") == [1, 4]
    assert shown(log, "--term", "1") == [4]
    assert shown(log, "--limit", "1") == [1]
    assert shown(log, "--from", "0001-01-01", "--to", "9999-12-31") == [1, 2, 3, 4]


def test_show_filters_by_subject(log: Path) -> None:
    assert shown(log, "--subject", "t-0") == [2, 3]
    assert shown(log, "--subject", "t") == [2]
    assert shown(log, "--subject", "broker 3") == [1, 3]
    assert shown(log, "--subject", "topic-deletion") == [4]


def test_show_decodes_events_and_commands(log: Path) -> None:
    done = refold("log", "show", log, "--json", "--commands")
    first, second, *_ = map(json.loads, done.stdout.splitlines())
    assert first["event"] == {
        "kind": "watch_fired",
        "path": "/brokers/ids/3",
        "change": "created",
        "zxid": 7,
    }
    assert first["commands"][0]["reason"] == {"rule": "broker start-up", "choices": []}
    assert first["commands"][0]["body"]["paths"] == [STATE]
    assert second["event"]["data"] == ['{"leader":1}']
    text = refold("log", "show", log, "--commands").stdout.splitlines()
    assert "2026-11-18T11:06:41.000000Z  term 0  watch_fired  zookeeper" in text[0]
    assert text[1].split()[:3] == ["1.0", "read_znodes", STATE]


def test_show_prints_undecodable_payloads_as_hex(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append([event(1, payload=b"\xc1\xff"), event(2, kind="foreseen")])
    done = refold("log", "show", tmp_path / "log", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout.splitlines()[0])["event"] == "0xc1ff"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--from yesterday", "yesterday is neither a number nor a time"),
        ("--from 3 --to 2", "3 is after --to 2"),
        ("--from 2026-11-19 --to 2026-11-18", "2026-11-19 is after --to 2026-11-18"),
        ("--term -1", "--term"),
        (
            "--kind nonsense",
            "'nonsense' is not a kind of event; use one of: allocate_producer_ids_received, ",
        ),
        ("--kind timer_fired --kind read_znodes", "'read_znodes' is not a kind of event"),
    ],
    ids=["invalid bound", "numbers", "times", "term", "unknown kind", "kind of command"],
)
def test_show_rejects_impossible_filters(log: Path, options: str, message: str) -> None:
    done = refold("log", "show", log, *options.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "options",
    [
        "--kind session_expired",
        "--channel unknown",
        "--term 7",
        "--from 5",
        "--from 2030-01-01",
        "--from 99999999999999999999",
        "--from 9999-12-31",
        "--to 0001-01-01",
    ],
)
def test_show_reports_that_no_event_matches(log: Path, options: str) -> None:
    done = refold("log", "show", log, *options.split())
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"refold log: {log}: no event matches\n"


def test_show_prints_nothing_as_json_if_no_event_matches(log: Path) -> None:
    done = refold("log", "show", "--json", log, "--channel", "unknown")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_show_rejects_a_subject_that_the_log_does_not_have(log: Path) -> None:
    done = refold("log", "show", log, "--subject", "nonsense")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the log has no subject nonsense; names: " in done.stderr
    done = refold("log", "show", log, "--subject", "broker x")
    assert done.returncode == 2
    assert "the log has no subject broker x; did you mean broker " in done.stderr


def test_show_rejects_a_broker_with_a_number_that_is_no_id(log: Path) -> None:
    name = f"broker {'9' * 5000}"
    done = refold("log", "show", log, "--subject", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"the log has no subject {name}; " in done.stderr


def test_show_accepts_an_unknown_kind_that_the_log_has(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append([event(1), event(2, kind="foreseen")])
    assert shown(tmp_path / "log", "--kind", "foreseen") == [2]


def test_stats_has_counts_terms_and_duration(log: Path) -> None:
    found = json.loads(refold("log", "stats", log, "--json").stdout)
    assert found["event_count"] == 4
    assert found["command_count"] == 1
    assert found["duration_s"] == 3.0
    assert found["terms"] == [0, 1]
    text = refold("log", "stats", log).stdout
    assert "watch_fired" in text
    assert "2026-11-18T11:06:41.000000Z to 2026-11-18T11:06:44.000000Z, 3.000 s" in text


def test_copy_writes_to_a_folder_or_a_pipe(log: Path, tmp_path: Path) -> None:
    assert refold("log", "copy", log, tmp_path / "copy").returncode == 0
    assert shown(tmp_path / "copy") == [1, 2, 3, 4]
    piped = subprocess.run([*REFOLD, "log", "copy", log, "-"], capture_output=True, check=True)
    assert refold("log", "show", "-", "--json", stdin=piped.stdout).stdout.count("\n") == 4
    assert refold("log", "verify", "-", stdin=piped.stdout).returncode == 0
    assert refold("log", "copy", "-", tmp_path / "back", stdin=piped.stdout).returncode == 0
    assert shown(tmp_path / "back", "--subject", "t-0") == [2, 3]
    cut = refold("log", "copy", "-", tmp_path / "cut", stdin=piped.stdout[:-10])
    assert cut.returncode == 1
    assert "is truncated: copy it again" in cut.stderr


def test_copy_refuses_a_folder_with_a_log(log: Path) -> None:
    done = refold("log", "copy", log, log)
    assert done.returncode == 2
    assert "already contains a log" in done.stderr


def test_tail_prints_the_last_events(log: Path) -> None:
    lines = refold("log", "tail", "-n", "2", log).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["3", "4"]


def test_tail_follows_until_the_log_is_closed(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "log", header(), segment_bytes=1) as writer:
        writer.append([event(1)])
        follower = subprocess.Popen(
            [*REFOLD, "log", "tail", "-f", tmp_path / "log"], stdout=subprocess.PIPE, text=True
        )
        assert follower.stdout is not None
        assert follower.stdout.readline().split()[0] == "1"
        writer.roll_if_due()
        writer.append([event(2)])
        assert follower.stdout.readline().split()[0] == "2"
    assert follower.stdout.read() == ""
    assert follower.wait(timeout=10) == 0
    follower.stdout.close()


def test_tail_ends_quietly_with_ctrl_c(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append([event(1)])
        follower = subprocess.Popen(
            [*REFOLD, "log", "tail", "-f", tmp_path / "log"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert follower.stdout is not None
        follower.stdout.readline()
        follower.send_signal(signal.SIGINT)
        assert follower.communicate(timeout=10) == ("", "")
        assert follower.returncode == 0


def test_broken_pipe_causes_no_error(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append([event(number) for number in range(1, 5001)])
    for sub_command in (["show", tmp_path / "log"], ["copy", tmp_path / "log", "-"]):
        read_end, write_end = os.pipe()
        program = subprocess.Popen(
            [*REFOLD, "log", *sub_command], stdout=write_end, stderr=subprocess.PIPE
        )
        os.close(write_end)
        os.read(read_end, 10)
        os.close(read_end)
        assert program.communicate(timeout=20)[1] == b""
        assert program.returncode == 0


def test_closed_standard_input_is_an_error(log: Path) -> None:
    for arguments in ("verify -", "show -", f"copy - {log.with_name('copy')}"):
        command = f'exec "{sys.executable}" -m replay.cli.main log {arguments} <&-'
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith("refold log: standard input: is closed")
        assert done.stderr.count("\n") == 1


def test_verify_reports_a_copy_of_a_growing_log(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "log", header()) as writer:
        writer.append([event(1)])
        refold("log", "copy", tmp_path / "log", tmp_path / "copy")
    done = refold("log", "verify", tmp_path / "copy")
    assert done.returncode == 0
    assert "not closed (the log was copied while it was written, or" in done.stdout


def test_changed_header_is_reported_with_the_remedy(log: Path) -> None:
    [segment] = log.glob("*.refold")
    with closing(sqlite3.connect(segment, isolation_level=None)) as database:
        database.execute("update header set body = replace(body, 'c', 'd')")
    done = refold("log", "show", log)
    assert done.returncode == 1
    assert f"{segment}, header: it was changed: replace the file with an intact copy" in done.stderr


@pytest.mark.parametrize("sub_command", ["show", "tail", "stats"])
def test_help_of_commands_that_do_not_verify_recommends_verify(sub_command: str) -> None:
    assert "run `refold log verify` first" in refold("log", sub_command, "--help").stdout


def test_log_commands_do_not_import_the_daemons_libraries(log: Path) -> None:
    """`refold log` starts quickly: it imports no connection, channel or event loop."""
    program = (
        "import sys; from replay.cli.main import app\n"
        "try: app(['log', 'verify', sys.argv[1]])\n"
        "except SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('anyio', 'aiokafka', 'asyncio', 'kio')))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(log)], check=False)
    assert done.returncode == 0
