"""Logs of brokers of the 0.8 design: replay, events, decisions, inspect, and the other commands."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from controller.core.commands import Notice, WriteZnodes
from controller.core.operations import SetData
from controller.core.values import ANY_VERSION
from controller.event_log.records import command_record, event_record
from controller.fingerprint import broker_fingerprint, core_fingerprint
from controller.kafka_0_8.commands import TruncateLog
from controller.kafka_0_8.configuration import FIRST_RULES
from eventstore.records import Header
from eventstore.writer import LogWriter
from replay.cli.main import app
from replay.explore.kafka_0_8.saved import write_log, write_logs
from replay.world.kafka_0_8.broker_process import BrokerProcess
from replay.world.kafka_0_8.cluster import Cluster08
from replay.world.kafka_0_8.scenarios import SCENARIOS, expired_leader, leader_failure
from tests.controller.kafka_0_8.clusters import T, issued, replicated


def run(*arguments: object) -> tuple[int, str, str]:
    """Run refold; exit code, output and errors."""
    result = CliRunner().invoke(app, list(map(str, arguments)))
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log of the broker that becomes leader."""
    end = leader_failure()
    process = end.cluster.brokers[end.broker]
    write_log(tmp_path / "log", process.configuration, process.history)
    return tmp_path / "log"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__)
def test_logs_of_every_broker_replay(scenario, tmp_path: Path) -> None:
    logs = write_logs(scenario().cluster.brokers.values(), tmp_path / "logs")
    code, output, _ = run("replay", tmp_path / "logs")
    assert code == 0
    assert f"{len(logs)} of {len(logs)} logs agree" in output


def _broken(process: BrokerProcess, folder: Path, fingerprint: str = "") -> Path:
    """A log in which the offset of the first truncation is another one."""
    header = Header(
        kind="recorded",
        core_fingerprint=fingerprint or broker_fingerprint(),
        code_version="test",
        configuration=msgspec.to_builtins(process.configuration),
        cluster_id="simulated",
        created_ns=0,
    )
    with LogWriter.create(folder, header) as writer:
        for recorded, issued in process.history:
            stored = [
                one._replace(command=TruncateLog("t", 0, 99))
                if isinstance(one.command, TruncateLog)
                else one
                for one in issued
            ]
            writer.append([event_record(recorded)], list(map(command_record, stored)))
    return folder


@pytest.mark.parametrize("fingerprint", ["", "another"])
def test_changed_decision_is_found(tmp_path: Path, fingerprint: str) -> None:
    end = expired_leader()
    log = _broken(end.cluster.brokers[1], tmp_path / "log", fingerprint)
    code, output, _ = run("replay", log)
    assert code == 1
    assert "truncate_log t-0" in output
    assert "offset" in output


def test_log_from_before_the_version_of_the_rules_replays(tmp_path: Path) -> None:
    """Its header has no such version, and the ISR was written without a check of the epoch."""
    found = replicated(rules=FIRST_RULES)
    found.stop(3)
    found.produce(1, T, ["a"], -1, wait_ms=6000)
    process = found.brokers[1]
    assert any(isinstance(one, WriteZnodes) for one in issued(found, 1, "I-01"))
    configuration = msgspec.to_builtins(process.configuration)
    del configuration["rules"]
    header = Header(
        kind="recorded",
        core_fingerprint="another",
        code_version="test",
        configuration=configuration,
        cluster_id="simulated",
        created_ns=0,
    )
    with LogWriter.create(tmp_path / "log", header) as writer:
        for recorded, commands in process.history:
            writer.append([event_record(recorded)], list(map(command_record, commands)))
    code, output, _ = run("replay", tmp_path / "log")
    assert (code, "0 unrecorded" in output) == (0, True)


def test_fingerprint_covers_both_packages() -> None:
    assert broker_fingerprint() != core_fingerprint()


def test_decisions_have_their_rules(log: Path) -> None:
    code, output, _ = run("decisions", log, "--partition", "t-0")
    assert code == 0
    assert "rule: E-06 epoch, ISR and leader are written in one transaction" in output
    assert "create ephemeral /brokers/topics/t/0/leader 2;2" in output
    assert "fetch t-0" not in output
    assert "fetch t-0" in run("decisions", log, "--all")[1]


def test_decisions_are_selected_by_rule_kind_and_subject(log: Path) -> None:
    lines = run("decisions", log, "--rule", "I-01", "--json")[1].splitlines()
    assert {json.loads(one)["rule"] for one in lines} == {
        "I-01 remove a follower that lags for KeepInSyncTime from the ISR"
    }
    lines = run("decisions", log, "--kind", "truncate_log", "--json")[1].splitlines()
    assert [json.loads(one)["text"] for one in lines] == ["truncate the log of t-0 to offset 0"]
    code, _, error = run("decisions", log, "--topic", "other")
    assert (code, "the log has no topic other; topics: t" in error) == (2, True)
    assert run("decisions", log, "--kind", "nonsense")[0] == 2
    assert run("decisions", log, "--broker", "1")[0] == 0


def test_events_are_in_words(log: Path) -> None:
    code, output, _ = run("events", log)
    assert code == 0
    assert "watch of /brokers/topics/t/0/leader: deleted" in output
    assert "1 records for t-0, acks -1" in output
    assert "log opened, log end 0, checkpointed high watermark 0" in output
    output = run("events", log, "--kind", "produce_received", "--json")[1]
    assert json.loads(output)["subjects"] == ["t", "t-0"]
    assert run("events", log, "--kind", "broker_answered")[0] == 2


@pytest.mark.parametrize("command", ["events", "decisions"])
def test_lines_have_no_term_because_the_design_has_none(command: str, log: Path) -> None:
    code, output, _ = run(command, log)
    assert (code, " term " in output) == (0, False)
    assert json.loads(run(command, log, "--limit", 1, "--json")[1])["term"] is None


def test_records_are_shown(log: Path) -> None:
    code, output, _ = run("log", "show", log, "--commands")
    assert code == 0
    assert '"kind":"produce_received","request":' in output
    assert "truncate_log  t-0" in output
    output = run("log", "show", log, "--kind", "log_truncated", "--commands", "--json")[1]
    commands = [json.loads(one) for one in output.splitlines()]
    assert any(one.get("kind") == "log_truncated" for one in commands)


def test_state_at_a_moment_is_shown(log: Path) -> None:
    code, output, _ = run("inspect", log)
    assert code == 0
    assert "broker 2: connected to ZooKeeper" in output
    assert "t-0" in output
    view = json.loads(run("inspect", log, "--json")[1])
    assert view["replicas"] == [
        {
            "name": "t-0",
            "topic": "t",
            "role": "leader",
            "leader": 2,
            "epoch": 2,
            "hw": 3,
            "leo": 3,
            "isr": [2, 3],
            "cur": [1],
            "rar": [],
            "waiting_requests": 0,
        }
    ]
    before = json.loads(run("inspect", log, "--at", 40, "--json")[1])
    assert before["replicas"][0]["role"] == "follower"
    assert json.loads(run("inspect", log, "--topic", "u", "--json")[1])["replicas"] == []


def test_changes_between_two_moments_are_shown(log: Path) -> None:
    found = json.loads(run("inspect", log, "--at", 40, "--to", 70, "--json")[1])
    assert (found["from"], found["to"]) == (40, 70)
    changes = {
        (one["subject"], one["what"]): (one["before"], one["after"]) for one in found["changes"]
    }
    assert changes["replica t-0", "role"] == ("follower", "leader")
    assert changes["replica t-0", "epoch"] == (1, 2)
    output = run("inspect", log, "--at", 40, "--to", 70)[1]
    assert "follower" in output
    assert (
        json.loads(run("inspect", log, "--at", 40, "--to", 70, "--topic", "u", "--json")[1])[
            "changes"
        ]
        == []
    )
    code, _, error = run("inspect", log, "--at", 40, "--to", 5)
    assert code == 2
    assert "5 is before --at" in error


def test_causes_of_a_leadership_are_explained(log: Path) -> None:
    code, output, _ = run("why", log, "--partition", "t-0")
    assert code == 0
    assert output.startswith("t-0: broker 2 leads with epoch 2, ISR [2,3], CUR [1].")
    found = json.loads(run("why", log, "--partition", "t-0", "--json")[1])
    texts = [one["text"] for one in found["chain"]]
    assert texts[:3] == [
        "leads with epoch 2, ISR [2,3], CUR [1]",
        "leads with epoch 2, ISR [1,2,3], CUR []",
        "knows no leader that it can follow",
    ]


def test_causes_of_the_end_of_a_leadership_are_explained(tmp_path: Path) -> None:
    end = expired_leader()
    process = end.cluster.brokers[1]
    write_log(tmp_path / "log", process.configuration, process.history)
    chain = json.loads(run("why", tmp_path / "log", "--partition", "t-0", "--json")[1])["chain"]
    (end,) = [one for one in chain if "its session is over" in one["text"]]
    assert end["text"].startswith("knows no leader that it can follow: no longer the leader")
    assert end["because"] is None
    assert end["text"].endswith("(the ZooKeeper session is over)")
    joined = [one for one in chain if one["rule"].startswith("I-02")]
    assert [one["because"]["text"].split(", epoch")[0] for one in joined] == [
        "request 2: replica 3",
        "request 1: replica 2",
    ]
    code, output, _ = run("why", tmp_path / "log")
    assert code == 0
    assert "has no ZooKeeper session" in output


def _chain(found: Cluster08, folder: Path, *subject: str) -> list[dict[str, Any]]:
    """The causes in the log of broker 1."""
    process = found.brokers[1]
    write_log(folder, process.configuration, process.history)
    return json.loads(run("why", folder, *subject, "--json")[1])["chain"]


def test_notices_about_another_partition_are_no_causes(tmp_path: Path) -> None:
    found = replicated()
    found.create_topic("u", {0: (1, 2, 3)})
    found.run(1500)
    found.end_session(1)
    found.run(2000)
    for topic, other in (("t-0", "u-0"), ("u-0", "t-0")):
        notices = [
            command.command.text
            for _, issued in found.brokers[1].history
            for command in issued
            if isinstance(command.command, Notice) and command.command.subject == other
        ]
        assert notices
        texts = [one["text"] for one in _chain(found, tmp_path / topic, "--partition", topic)]
        (end,) = [one for one in texts if "its session is over" in one]
        assert end.count("no longer the leader") == 1


def test_notice_without_a_change_of_state_is_a_cause(tmp_path: Path) -> None:
    found = replicated()
    found.stop(2)
    found.stop(3)
    found.write(SetData("/brokers/topics/t/0/ISR", b"8,9;1", ANY_VERSION))
    found.end_session(1)
    found.run(3000)
    newest = _chain(found, tmp_path / "log", "--partition", "t-0")[0]
    assert newest["text"].startswith(
        "knows no leader that it can follow: no broker can become leader: none of the assigned"
    )
    assert newest["rule"].startswith("E-08")


def test_notice_about_the_registration_is_a_cause_for_the_session(tmp_path: Path) -> None:
    found = replicated()
    found.stop(1, session_ends=False)
    found.start(1)
    found.run(1000)
    texts = [one["text"] for one in _chain(found, tmp_path / "log")]
    assert any("another session has registered this id" in one for one in texts)
    assert not any("no longer the leader" in one for one in texts)


def test_questions_about_other_subjects_are_rejected(log: Path) -> None:
    for option in (("--topic", "t"), ("--term", 1), ("--broker", 1), ("--unhealthy",)):
        code, _, error = run("why", log, *option)
        assert code == 2
        assert "--partition T-0" in error


@pytest.mark.parametrize(
    "command", [("health",), ("diff", "--base", "HEAD"), ("new-incident", "--name", "one")]
)
def test_command_that_does_not_read_the_log_says_which_do(
    command: tuple[str, ...], log: Path
) -> None:
    code, _, error = run(command[0], log, *command[1:])
    assert code == 2
    assert "broker 2 of the 0.8 design" in error
    assert "`refold decisions LOG --partition T-0`" in error


def test_unusable_configuration_is_one_line(tmp_path: Path) -> None:
    header = Header(
        kind="recorded",
        core_fingerprint=broker_fingerprint(),
        code_version="test",
        configuration={"design": "0.8", "broker_id": "one"},
        cluster_id="",
        created_ns=0,
    )
    LogWriter.create(tmp_path / "log", header).close()
    code, _, error = run("inspect", tmp_path / "log")
    assert code == 2
    assert "the configuration in the log's header cannot be used" in error


def test_export_and_import_restore_the_log(log: Path, tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    assert run("log", "export", log, "--out", file)[0] == 0
    assert run("log", "import", file, tmp_path / "restored")[0] == 0
    assert run("replay", tmp_path / "restored")[0] == 0


def test_events_of_a_partition_are_found_by_its_subject(log: Path) -> None:
    output = run("log", "show", log, "--subject", "t-0", "--json")[1]
    kinds = {json.loads(one)["kind"] for one in output.splitlines()}
    assert {"produce_received", "log_truncated", "watch_fired", "znodes_read"} <= kinds
    assert "session_connected" not in kinds
    output = run("log", "show", log, "--subject", "broker 3", "--json")[1]
    assert {json.loads(one)["kind"] for one in output.splitlines()} >= {"znodes_read"}
