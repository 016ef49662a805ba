"""`refold agree` from the command line: output and exit codes."""

import json
import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from msgspec import structs
from typer.testing import CliRunner

from eventstore.writer import LogWriter
from replay.agreement.results import AgreementResult
from replay.cli.agreement_report import print_agreement
from replay.cli.main import app
from replay.stock_clusters.zookeeper_log.source import open_source
from tests.eventstore.samples import event, header
from tests.replay.cli.command import refold
from tests.replay.stock_clusters.zookeeper_log.samples import RECORDING
from tools.zookeeper_log.corruption import Corruption, corrupt
from tools.zookeeper_log.incidents import copy_all_but_logs, transactions_of, write_again

INCIDENTS = Path(__file__).parents[2] / "incidents"
CRASH = RECORDING.with_name("broker-crash-2.tar.xz")
FIELDS = {
    "decisions",
    "agreed",
    "differs",
    "missing",
    "extra",
    "explained",
    "warm",
    "inputs",
    "by_kind",
    "requests",
    "divergences",
}
"""Documented fields; the output has more."""
MORE = {"unjudged", "by_rule"}
OF_ALL = {
    *("source", "settings", "notes", "damaged"),
    *("passed_over", "missing_transactions", "altered", "is_cut", "cut_logs", "damaged_parts"),
    *("undecided", "kraft_terms"),
}
TALLY = {"decisions", "agreed", "differs", "missing", "extra"}


@pytest.fixture(scope="module")
def folder(folder_of: Callable[[str], Path]) -> Path:
    return folder_of("broker-crash-2")


@pytest.fixture(scope="module")
def log(log_of: Callable[[str], Path]) -> Path:
    return log_of("broker-crash-2")


@pytest.fixture(scope="module")
def corrupted(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Corruption]:
    """A copy in which a leader is changed."""
    copy = tmp_path_factory.mktemp("corrupted") / "copy"
    return copy, corrupt(folder, copy, 3, ["leader"])


def agree(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["agree", *map(str, arguments)])


def as_json(*arguments: str | Path) -> dict[str, Any]:
    result = agree(*arguments, "--json")
    assert result.stderr == ""
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_json_has_the_documented_fields(log: Path) -> None:
    result = as_json(log)
    assert result.keys() == FIELDS | MORE | OF_ALL
    assert result["requests"].keys() == FIELDS - {"requests", "divergences"} | MORE
    for side in (result, result["requests"]):
        assert side["decisions"] == side["agreed"] > 100
        assert (side["differs"], side["missing"], side["extra"], side["explained"]) == (0, 0, 0, [])
        assert (side["warm"], side["inputs"]) == (0, 0)
        assert all(one.keys() == TALLY for one in side["by_kind"].values())
        assert sum(one["agreed"] for one in side["by_kind"].values()) == side["agreed"]
    assert result["divergences"] == []
    assert (result["damaged"], result["passed_over"]) == ({}, 0)
    assert result["source"] == str(log)


def test_divergence_in_json_has_both_sides_the_cause_and_preceding_records(
    corrupted: tuple[Path, Corruption],
) -> None:
    copy, corruption = corrupted
    result = as_json(copy)
    [at, *_] = [one for one in result["divergences"] if one["zxid"] == corruption.zxid]
    assert (at["subject"], at["verdict"], at["kind"]) == ("decision", "differs", "partition_state")
    assert at["paths"] == [corruption.path]
    [difference] = at["differences"]
    before, after = (
        json.loads(one or "")["leader"] for one in (corruption.before, corruption.after)
    )
    assert difference == f"{corruption.path}: leader {before}, Kafka {after}"
    event, _, rule = at["cause"].partition(": ")
    assert (event, result["by_rule"][rule]["differs"]) == ("Startup", 1)
    assert at["between"]
    assert at["explained"] == ""
    assert result["differs"] + result["missing"] + result["extra"] > 0


@pytest.mark.parametrize("kind", ["log", "folder", "archive"])
def test_log_folder_and_archive_have_the_same_result(kind: str, log: Path, folder: Path) -> None:
    sources = {"log": log, "folder": folder, "archive": CRASH}
    result = as_json(sources[kind])
    assert result.pop("source") == str(sources[kind])
    assert [one.startswith("starts from ") for one in result.pop("notes")] == [True]
    varying = ("source", "notes")
    assert result == {name: one for name, one in as_json(log).items() if name not in varying}


def test_agreement_is_reported_as_text(log: Path) -> None:
    result = agree(log)
    assert (result.exit_code, result.stderr) == (0, "")
    first, *lines = result.stdout.splitlines()
    assert first == "starts from zookeeper/version-2/snapshot.0"
    assert lines[0] == (
        "broker settings: inter.broker.protocol.version=3.9-IV0, delete.topic.enable=true"
    )
    assert lines[1] == (
        "decisions: 132, 132 agreed, 0 differ, 0 missing, 0 extra; 0 before the first election,"
        " 0 inputs"
    )
    assert "requests to brokers: 147, 147 agreed, 0 differ, 0 missing, 0 extra" in lines
    assert any(one.startswith("  partition_state: ") for one in lines)
    assert lines[-1] == f"{log}: agrees; judged: 132 decisions, 147 requests"


def test_divergence_is_reported_as_text(corrupted: tuple[Path, Corruption]) -> None:
    """The report has the place, both values, the fold's position and the preceding records."""
    copy, corruption = corrupted
    result = agree(copy)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    [place] = [
        number
        for number, line in enumerate(lines)
        if line.startswith("differs partition_state at") and f"zxid {corruption.zxid:#x}" in line
    ]
    assert lines[place].endswith(corruption.path)
    before, after = (
        json.loads(one or "")["leader"] for one in (corruption.before, corruption.after)
    )
    assert lines[place + 1] == f"  {corruption.path}: leader {before}, Kafka {after}"
    assert lines[place + 2].startswith("  the fold was processing ")
    assert ", since " in lines[place + 2]
    between = lines[place + 3 : place + 13]
    assert any(f"zxid {corruption.zxid:#x}" in line and corruption.path in line for line in between)
    found = as_json(copy)
    judged = f"judged: {found['decisions']} decisions, {found['requests']['decisions']} requests"
    assert lines[-1] == f"{copy}: does not agree; {judged}"


def test_verdict_includes_damage(folder: Path, tmp_path: Path) -> None:
    """Damage is listed by file; the undamaged part agrees."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    damaged = {"logs/broker-1/controller.log": 3, "logs/broker-2/control-requests.log": 2}
    for name, count in damaged.items():
        with (copy / name).open("a") as lines:
            lines.write("a line in another layout\n" * count)
    result = agree(copy)
    assert result.exit_code == 3
    damage = ", ".join(f"{count} in {name}" for name, count in damaged.items())
    judged = "judged: 132 decisions, 147 requests"
    last = result.stdout.splitlines()[-1]
    assert last.startswith(f"{copy}: agrees as far as judged; {judged}; damaged lines, ")
    assert last.endswith(f": {damage}")
    assert as_json(copy)["damaged"] == damaged


def test_verdict_includes_skipped_transactions(folder: Path, tmp_path: Path) -> None:
    """Two zxids are raised, so that all later transactions follow higher zxids."""
    copy = tmp_path / "copy"
    copy_all_but_logs(folder, copy)
    with open_source(folder) as source:
        [log] = source.server.logs
        whole = [*transactions_of(log.path)]
        jumped = [structs.replace(one, zxid=one.zxid + (1 << 32)) for one in whole[119:121]]
        write_again(log, copy, [*whole[:119], *jumped, *whole[121:]])
    result = agree(copy)
    assert result.exit_code == 3
    after = len(whole) - 121
    last = result.stdout.splitlines()[-1]
    assert last.startswith(f"{copy}: incomplete: {after} transactions are out of order; judged: ")
    assert last.endswith(f"; damaged lines, transactions or snapshots: {after} in {log.name}")


@pytest.mark.long
def test_verdict_includes_missing_transactions(
    folder_of: Callable[[str], Path], tmp_path: Path
) -> None:
    """The remaining files agree, but the decisions in the missing file are unknown."""
    source = shutil.copytree(folder_of("chaos-4"), tmp_path / "chaos-4")
    _, middle, _ = sorted(source.rglob("log.*"), key=lambda one: int(one.suffix[1:], 16))
    middle.unlink()
    result = agree(source)
    assert result.exit_code == 3
    gaps = re.findall(r"^transactions between zxid 0x(\w+) and 0x(\w+) ", result.stdout, re.M)
    count = sum(int(before, 16) - int(after, 16) - 1 for after, before in gaps)
    end = f"{source}: incomplete: at least {count} transactions are missing; judged: "
    assert result.stdout.splitlines()[-1].startswith(end)
    assert as_json(source)["missing_transactions"] == count > 0


def test_verdict_includes_a_truncated_archive(folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "cut.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder / "zookeeper", "zookeeper")
        tar.add(folder / "logs", "logs")
    archive.write_bytes(archive.read_bytes()[:-20_000])
    result = agree(archive)
    assert result.exit_code == 3
    assert f"{archive}: incomplete: the source is cut" in result.stdout.splitlines()[-1]
    found = as_json(archive)
    assert (found["is_cut"], found["differs"], found["missing"], found["extra"]) == (True, 0, 0, 0)


def test_transaction_log_that_is_cut_is_incomplete_and_its_part_is_judged(
    folder: Path, tmp_path: Path
) -> None:
    source = tmp_path / "cut"
    shutil.copytree(folder, source)
    [log] = source.rglob("log.1")
    records = log.read_bytes().rstrip(b"\0")
    log.write_bytes(records[: len(records) * 6 // 10])
    result = agree(source)
    assert result.exit_code == 3
    found = as_json(source)
    assert found["is_cut"]
    assert 0 < found["decisions"] == found["agreed"] < 132
    judged = f"judged: {found['decisions']} decisions, {found['requests']['decisions']} requests"
    start = f"{source}: incomplete: the source is cut; {judged}"
    assert result.stdout.splitlines()[-1].startswith(start)


def test_requests_that_no_log_shows_are_not_judged(folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "without"
    shutil.copytree(folder / "zookeeper", source / "zookeeper")
    result = agree(source)
    assert result.exit_code == 3
    found = as_json(source)
    unjudged = found["requests"]["unjudged"]
    assert unjudged > 100
    assert f"0 missing, 0 extra, {unjudged} cannot tell" in result.stdout
    assert result.stdout.splitlines()[-1] == (
        f"{source}: agrees as far as judged; judged: {found['decisions']} decisions, 0 requests;"
        f" not judged: {unjudged} requests"
    )


def test_decisions_of_a_term_that_began_earlier_are_not_judged(
    folder: Path, tmp_path: Path
) -> None:
    with open_source(folder) as source:
        times_ms = [one.time_ms for one in source.transactions(0)]
    middle_ms = times_ms[len(times_ms) // 3]
    result = agree(folder, "--from", str(middle_ms))
    warm = json.loads(agree(folder, "--from", str(middle_ms), "--json").stdout)["warm"]
    assert warm > 0
    assert result.exit_code == 3
    assert f"; not judged: {warm} decisions before the first election" in result.stdout


def test_terms_of_a_kraft_controller_are_named_and_not_judged() -> None:
    """A KRaft controller took the role in dual-write mode, and deleted a topic."""
    result = agree(INCIDENTS / "migration-left")
    assert result.exit_code == 3
    assert (
        "not judged: 27 decisions of KRaft controller 3000 in controller epoch 11 (KRaft epoch 2):"
        in result.stdout
    )
    [*_, last] = result.stdout.splitlines()
    assert "agrees as far as judged; judged: 6 decisions, 0 requests; " in last
    assert "not judged: 27 decisions in 1 term of KRaft controllers, " in last
    found = as_json(INCIDENTS / "migration-left")
    assert found["kraft_terms"] == [
        {"controller": 3000, "epoch": 11, "kraft_epoch": 2, "decisions": 27}
    ]
    assert (found["decisions"], found["agreed"], found["divergences"]) == (6, 6, [])


def test_refolds_rules_can_be_selected(log: Path) -> None:
    result = as_json(log, "--rules", "refold")
    assert result["decisions"] == 132
    assert agree(log, "--rules", "refold").exit_code == int(bool(result["divergences"]))
    slip = agree(log, "--rules", "kraft")
    assert slip.exit_code == 2
    assert "kraft" in slip.stderr


def test_settings_of_the_brokers_can_be_specified(log: Path) -> None:
    result = agree(log, "--json", "--broker-config", "inter.broker.protocol.version=2.6")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["settings"]["inter.broker.protocol.version"] == "2.6"
    both = (
        *("--broker-config", "leader.imbalance.per.broker.percentage = 9"),
        *("--broker-config", "delete.topic.enable=true"),
    )
    assert as_json(log, *both)["settings"]["leader.imbalance.per.broker.percentage"] == "9"


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("log.dirs=/x", "log.dirs does not affect decisions"),
        ("delete.topic.enable", "delete.topic.enable is not KEY=VALUE"),
        ("=3", "=3 is not KEY=VALUE"),
        ("inter.broker.protocol.version=9.9", "9.9"),
        (
            "leader.imbalance.per.broker.percentage=many",
            "percentage=many: the value must be a whole number",
        ),
        ("unclean.leader.election.enable=", "the brokers' settings cannot be used"),
        *(
            (f"{key}=1", f"{key} does not affect decisions")
            for key in ("rules", "broker.id", "is.broker", "take.over", "inter.broker.listener")
        ),
    ],
)
def test_unusable_setting_is_rejected(log: Path, setting: str, text: str) -> None:
    result = agree(log, "--broker-config", setting)
    assert result.exit_code == 2
    assert text in " ".join(result.stderr.replace("│", " ").split())
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("nothing", "nothing does not exist"),
        ("empty", "has no ZooKeeper transaction log"),
        ("recorded", "is a recorded log of refold's controller"),
        ("file.txt", "is neither a folder nor an archive (.tar"),
        ("broken.tar.xz", "broken.tar.xz"),
    ],
)
def test_unusable_source_is_rejected(tmp_path: Path, source: str, text: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").write_text("x")
    (tmp_path / "broken.tar.xz").write_bytes(CRASH.read_bytes()[:9000])
    with LogWriter.create(tmp_path / "recorded", header()) as writer:
        writer.append([event(1)])
    done = refold("agree", tmp_path / source)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_options_of_an_import_are_accepted(folder: Path) -> None:
    assert agree(folder, "--chroot", "/nope").exit_code == 2
    assert agree(folder, "--from", "yesterday").exit_code == 2
    assert as_json(folder, "--zone", "UTC", "--to", "2036-01-01T00:00:00Z")["decisions"] == 132


@pytest.mark.parametrize("option", ["--chroot=/k", "--from=5", "--to=5", "--zone=Europe/Paris"])
def test_options_for_a_source_are_rejected_for_a_log(log: Path, option: str) -> None:
    result = agree(log, option)
    assert result.exit_code == 2
    assert "is a log" in " ".join(result.stderr.replace("│", " ").split())


def test_truncated_archive_without_zookeepers_data_is_rejected(tmp_path: Path) -> None:
    """The error includes that the archive is truncated, which is the reason."""
    archive = tmp_path / "cut.tar.xz"
    whole = RECORDING.with_name("topics-1.tar.xz").read_bytes()
    archive.write_bytes(whole[: len(whole) // 10])
    result = agree(archive)
    assert result.exit_code == 2
    assert "cut.tar.xz is damaged" in result.stderr
    assert "has no ZooKeeper transaction log" in result.stderr


def test_folder_with_one_log_is_read_and_one_with_several_is_rejected(
    log: Path, tmp_path: Path
) -> None:
    """As `refold run --mode shadow` writes them."""
    shutil.copytree(log, tmp_path / "run-1")
    assert refold("agree", tmp_path).returncode == 0
    shutil.copytree(log, tmp_path / "run-2")
    result = refold("agree", tmp_path)
    assert result.returncode == 2
    assert f"give one of {tmp_path / 'run-1'} (" in result.stderr


def test_packed_log_of_an_incident_is_compared(log: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "log.tar.xz", "w:xz") as packed:
        packed.add(log, "log")
    result = refold("agree", tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1].startswith(f"{tmp_path}: agrees; judged: 132 decisions")


def test_incident_of_the_daemon_is_rejected_with_the_command_for_it() -> None:
    result = refold("agree", "tests/incidents/failover")
    assert (result.returncode, result.stdout) == (2, "")
    assert "recorded log of refold's controller" in result.stderr
    assert "use `refold replay`" in result.stderr


def test_replay_of_an_imported_log_names_agree(log: Path) -> None:
    result = refold("replay", log)
    assert result.returncode == 2
    assert "`refold agree`" in result.stderr


def test_decisions_that_no_log_confirms_are_counted(
    folder_of: Callable[[str], Path], tmp_path: Path
) -> None:
    """The damaged line is the only one that shows why the controller wrote the new topic."""
    shutil.copytree(folder_of("unclean-3"), tmp_path / "source")
    lines = tmp_path / "source" / "logs" / "broker-3" / "controller.log"
    text = b"New topics: [Set(tool.03)"
    lines.write_bytes(lines.read_bytes().replace(text, text.replace(b"i", b"\xff")))
    result = agree(tmp_path / "source")
    assert result.exit_code == 3
    assert re.search(r"^decisions: .* extra, 19 \w+ \w+; 0 before", result.stdout, re.MULTILINE)
    last = result.stdout.splitlines()[-1]
    assert "; not judged: 19 decisions, 19 requests; damaged lines" in last


@pytest.mark.parametrize(
    ("count", "text"),
    [(1, "at least 1 transaction is missing"), (2, "at least 2 transactions are missing")],
)
def test_verdict_says_that_the_number_of_missing_transactions_is_the_least(
    count: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_agreement(AgreementResult(source="log", missing_transactions=count))
    assert f"log: incomplete: {text}; judged: " in capsys.readouterr().out
