"""`refold import` from the command line, and `refold log` and `refold replay` on its log."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.replay.cli.command import CANNOT_WRITE, REFOLD, on_a_full_disk, refold, unread
from tests.replay.stock_clusters.zookeeper_log.samples import RECORDING

CRASH = RECORDING.with_name("broker-crash-2.tar.xz")


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = tmp_path_factory.mktemp("imported") / "log"
    done = refold("import", CRASH, "--out", log)
    assert done.returncode == 0, done.stderr
    return log


def test_json_has_the_counts(tmp_path: Path) -> None:
    done = refold("import", CRASH, "--out", tmp_path / "log", "--json")
    assert done.returncode == 0
    assert done.stderr == ""
    result = json.loads(done.stdout)
    counts = {name: result[name] for name in ("transactions", "sessions", "terms", "events")}
    assert counts == {"transactions": 256, "sessions": 7, "terms": 3, "events": 1520}
    assert (result["chroot"], result["damages"], result["gaps"]) == ("", [], [])


def test_result_is_reported_as_text(tmp_path: Path) -> None:
    done = refold("import", RECORDING, "--out", tmp_path / "log", "--from", "1795223070000")
    assert done.returncode == 0
    *_, summary, last = done.stdout.splitlines()
    assert summary.startswith(f"{RECORDING}: 319 transactions after zxid")
    assert "warm: assignment" in done.stdout
    assert "the cluster under /prod/k1" in summary
    assert last.startswith(f"{tmp_path / 'log'}: ")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("{source}", "--chroot", "/nope"), "no Kafka cluster is under /nope, there is /"),
        (("{source}", "--chroot", "nope"), "nope does not begin with /"),
        (("{source}", "--from", "2036-01-01T00:00:00Z"), "all transactions are before --from"),
        (("{source}", "--from", "yesterday"), "yesterday is neither a time such as"),
        (("{source}", "--to", "2026-11-21T03:59:01"), "has no time zone"),
        (("{source}", "--from", "2026-11-21"), "write 2026-11-21T00:00:00Z or"),
        (("{source}", "--from", "2", "--to", "1"), "2 is after --to 1"),
        (("{source}", "--zone", "Mars/Phobos"), "Mars/Phobos is not a time zone"),
        (("{folder}/nothing",), "nothing does not exist"),
        (("{folder}",), "has no ZooKeeper transaction log"),
        ((__file__,), "is neither a folder nor an archive (.tar"),
    ],
)
def test_unusable_source_or_option_is_rejected_and_leaves_no_log(
    tmp_path: Path, arguments: tuple[str, ...], text: str
) -> None:
    filled = [one.format(source=CRASH, folder=tmp_path) for one in arguments]
    done = refold("import", *filled, "--out", tmp_path / "log")
    assert done.returncode == 2
    assert text in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "log").exists()


def test_existing_log_is_rejected(imported: Path) -> None:
    done = refold("import", CRASH, "--out", imported)
    assert done.returncode == 2
    assert "already contains a log: choose another --out, or delete the folder" in done.stderr


def test_progress_is_shown_to_a_terminal_only(tmp_path: Path) -> None:
    terminal, terminal_end = pty.openpty()
    done = subprocess.run(
        [*REFOLD, "import", str(CRASH), "--out", str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        stderr=terminal_end,
        env={**os.environ, "TERM": "xterm"},
        check=False,
        timeout=30,
    )
    os.close(terminal_end)
    shown = os.read(terminal, 65536)
    os.close(terminal)
    assert done.returncode == 0
    assert b"reading" in shown or b"unpacking" in shown


def test_log_commands_read_an_imported_log(imported: Path, tmp_path: Path) -> None:
    done = refold("log", "verify", imported)
    assert done.stdout == f"{imported}: sound and closed; 1520 events, 0 commands in 1 segment(s)\n"
    stats = json.loads(refold("log", "stats", imported, "--json").stdout)
    assert stats["header"]["kind"] == "world-backed"
    assert stats["terms"] == [0, 1, 2, 3]
    kinds = {one["kind"]: one["count"] for one in stats["events"]}
    assert (kinds["transaction"], kinds["observed"]) == (256, 132)
    assert refold("log", "copy", imported, tmp_path / "copy").returncode == 0
    assert refold("log", "tail", "-n", "1", tmp_path / "copy").stdout.count("import_ended") == 2


def test_show_decodes_events_of_an_imported_log(imported: Path) -> None:
    done = refold("log", "show", imported, "--kind", "observed", "--limit", "2", "--json")
    epoch, election = map(json.loads, done.stdout.splitlines())
    assert epoch["event"]["what"] == "controller_epoch"
    assert election["event"] == {
        "kind": "observed",
        "zxid": election["event"]["zxid"],
        "what": "election",
        "broker": election["event"]["broker"],
        "epoch": 1,
        "error": 0,
        "warm": False,
        "is_kraft": False,
    }
    cause = refold("log", "show", imported, "--from", str(election["cause"]), "--limit", "1")
    assert '{"kind":"multi"' in cause.stdout
    assert '"path":"/controller"' in cause.stdout


def test_show_filters_events_by_partition(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert refold("import", RECORDING, "--out", log).returncode == 0
    done = refold("log", "show", log, "--subject", "big_01-0", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert {one["kind"] for one in events} == {"transaction", "observed"}
    transactions = [one for one in events if one["kind"] == "transaction"]
    assert all("/big_01/partitions/0" in json.dumps(one["event"]) for one in transactions)
    assert len(transactions) > 10
    done = refold("log", "show", log, "--subject", "broker 3", "--kind", "request_served", "--json")
    assert len(done.stdout.splitlines()) > 10


def test_kind_of_a_recorded_log_is_rejected(imported: Path) -> None:
    done = refold("log", "show", imported, "--kind", "watch_fired")
    assert done.returncode == 2
    assert "transactions_missing" in done.stderr


def test_replay_of_an_imported_log_recommends_another_command(imported: Path) -> None:
    for arguments in (("replay", imported), ("log", "show", imported, "--format", "kafka")):
        done = refold(*arguments)
        assert done.returncode == 2
        assert "this is a recording of a stock cluster, or an imported log" in done.stderr
        assert "refold log show" in done.stderr


@pytest.mark.sampled
@pytest.mark.parametrize("is_existing", [False, True])
def test_result_that_cannot_be_printed_leaves_no_log(tmp_path: Path, is_existing: bool) -> None:
    log = tmp_path / "log"
    if is_existing:
        log.mkdir()
    assert on_a_full_disk("import", CRASH, "--out", log) == (2, CANNOT_WRITE)
    assert log.exists() is is_existing
    assert [*tmp_path.rglob("*.refold*")] == []
    assert unread("import", CRASH, "--out", log) == (0, "")
    assert refold("log", "verify", log).returncode == 0


def test_full_temporary_folder_is_reported(tmp_path: Path) -> None:
    arguments = ["import", CRASH, "--out", tmp_path / "log"]
    # The file size limit has the effect of a full disk.
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh", *REFOLD, *arguments],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (
        2,
        f"refold import: {tmp_path} cannot be written: File too large; {CRASH} is"
        " unpacked there: free space, or set TMPDIR to another folder\n",
    )
