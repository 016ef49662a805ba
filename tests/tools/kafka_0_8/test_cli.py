"""The command line of the 0.8 design, without servers; tests/lab/kafka_0_8 has it with servers."""

import json
from collections.abc import Coroutine
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from controller.kafka_0_8.configuration import BrokerConfiguration
from controller.kafka_0_8_broker.problems import ClusterZnodes
from controller.kafka_0_8_broker.status import ClusterStatus, status_of
from tools.kafka_0_8 import broker_command, options
from tools.kafka_0_8.cli import app, produce, text_of
from tools.lab import control
from tools.lab.cli import app as lab
from tools.lab.lab import Lab
from tools.lab.ports import HOST, free_port


def run(*arguments: object) -> tuple[int, str, str]:
    """Exit status, output and errors."""
    result = CliRunner().invoke(app, list(map(str, arguments)))
    return result.exit_code, result.stdout, result.stderr


def test_scenario_writes_the_logs_of_its_brokers(tmp_path: Path) -> None:
    status, output, _ = run("scenario", "bounce", tmp_path / "logs")
    assert status == 0
    assert output.splitlines() == sorted(map(str, (tmp_path / "logs").iterdir()))
    status, _, error = run("scenario", "bounce", tmp_path / "logs")
    assert status == 2
    assert "exists already" in error
    status, _, error = run("scenario", "nonsense", tmp_path / "others")
    assert status == 2
    assert "use one of startup, leader_failure" in error


@pytest.mark.parametrize("ids", ["a", "1,b", "1,,2", "1,", "-1", "1;2", str(2**31)])
def test_list_that_is_no_list_of_broker_ids_is_rejected(ids: str) -> None:
    status, _, error = run("create", "t", "--replicas", ids, "--zookeeper", "localhost")
    assert status == 2
    assert "is no list of broker ids; write them as 1,2,3" in error


@pytest.mark.parametrize("command", ["add-brokers", "remove-brokers"])
def test_empty_list_of_brokers_is_rejected(command: str) -> None:
    status, output, error = run(command, "", "--zookeeper", "localhost")
    assert (status, output) == (2, "")
    assert "the list of brokers is empty; write ids as 1,2,3" in " ".join(error.split())


def test_producer_waits_longer_than_a_failover_takes_by_default() -> None:
    """A leader is killed with the default settings, and is a replica of the next leader's ISR."""
    defaults = BrokerConfiguration(broker_id=1, host="", port=0)
    session_ms = signature(broker_command.broker).parameters["session_timeout_ms"].default
    waits_ms = defaults.leader_election_wait_time_ms + 1.5 * defaults.keep_in_sync_time_ms
    assert session_ms + waits_ms < 1000 * options.PRODUCE_SECONDS
    assert signature(produce).parameters["timeout"].default == options.PRODUCE_SECONDS


@pytest.mark.parametrize("is_of_design_0_8", [False, True])
def test_lab_without_kafka_has_no_version_of_kafka(is_of_design_0_8: bool, tmp_path: Path) -> None:
    started = Lab(tmp_path)
    started.is_of_design_0_8 = is_of_design_0_8
    started.zookeepers.append(SimpleNamespace(connect="localhost:1", **_STOPPED))
    assert ("kafka" in control.status(started, "")) is not is_of_design_0_8


_STOPPED = {"name": "", "state": "", "running": False, "folder": ""}


def test_unusable_servers_are_rejected() -> None:
    status, _, error = run("status", "--zookeeper", "localhost:x")
    assert status == 2
    assert "is not HOST:PORT" in error


@pytest.mark.parametrize("host", ["::1", "two words", "a/b", "ü"])
def test_host_that_cannot_be_registered_is_rejected(host: str, tmp_path: Path) -> None:
    command = ("broker", "--broker-id", 1, "--port", 9092, "--data", tmp_path / "data")
    status, _, error = run(*command, "--zookeeper", "localhost", "--host", host)
    assert status == 2
    assert "use a host name, or an IPv4 address" in " ".join(error.split())
    assert not (tmp_path / "data").exists()


@pytest.mark.sampled
@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("add-brokers", "1,2"),
        ("remove-brokers", "1"),
        ("create", "t", "--replicas", "1"),
        ("delete", "t"),
        ("reassign", "t", 0, "1,2"),
        ("produce", "t", 0, "a"),
        ("consume", "t", 0),
    ],
    ids=lambda command: command[0],
)
def test_unreachable_zookeeper_is_one_line_and_status_1(
    command: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "SESSION_TIMEOUT_MS", 300)
    connect = ("--zookeeper", f"{HOST}:{free_port()}")
    status, output, error = run(*command, *connect)
    assert (status, output) == (1, "")
    assert error.startswith("kafka_0_8: no session within 0.3 s: ")
    assert error.count("\n") == 1
    status, output, error = run(*command, *connect, "--json")
    assert (status, error) == (1, "")
    assert json.loads(output)["error"].startswith("no session within 0.3 s: ")


@pytest.mark.parametrize("name", ["", "a/b"])
def test_name_that_is_no_topic_is_rejected(name: str) -> None:
    status, _, error = run("delete", name, "--zookeeper", "localhost")
    assert status == 2
    assert f"{name!r} is no name of a topic" in " ".join(error.split())


def test_producer_without_records_is_rejected() -> None:
    status, _, error = run("produce", "t", 0, "--zookeeper", "localhost")
    assert status == 2
    assert "no records: give arguments, or lines on standard input" in " ".join(error.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--design", "0.9"), "there is no design 0.9; use one of kafka, 0.8"),
        (("--design", "0.8", "--chroot", "/kafka"), "has neither --chroot nor"),
    ],
)
def test_lab_rejects_designs_that_it_cannot_start(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "lab"
    result = CliRunner().invoke(lab, ["up", *arguments, "--dir", str(folder)])
    assert result.exit_code == 1
    assert message in result.output
    assert not folder.exists()


def test_status_shows_unreadable_content_as_unreadable_and_names_the_problems() -> None:
    contents = {
        "/brokers": b"",
        "/brokers/epoch": b"0",
        "/brokers/ids": b"",
        "/brokers/ids/1": b"\x1b[2J",
        "/brokers/ids/2": b"host2:9092",
        "/brokers/partitions_reassigned": b"",
        "/brokers/partitions_reassigned/t": b"",
        "/brokers/partitions_reassigned/t/0": b"",
        "/brokers/state": b"",
        "/brokers/state/2": b"",
        "/brokers/state/2/hello": b"",
        "/brokers/topics": b"",
        "/brokers/topics/t": b"",
        "/brokers/topics/t/0": b"",
        "/brokers/topics/t/0/ISR": b"",
        "/brokers/topics/t/0/replicas": b"2",
        "/brokers/topics/t/1": b"",
    }
    lines = text_of(status_of(ClusterZnodes(contents))).splitlines()
    assert lines[:5] == [
        "broker 1 at an unreadable address",
        "broker 2 at host2:9092",
        "queue of broker 2: 0 requests",
        "t-0: replicas 2, no leader, unreadable ISR, unreadable reassignment",
        "t-1: no replicas, no leader, no ISR",
    ]
    assert [one.split()[:2] for one in lines[5:]] == [
        ["problem:", "/brokers/ids/1"],
        ["problem:", "/brokers/state/2/hello"],
        ["problem:", "/brokers/topics/t/0/ISR"],
        ["problem:", "/brokers/topics/t/1"],
        ["problem:", "/brokers/partitions_reassigned/t/0"],
    ]


@pytest.mark.parametrize("denied", [[], ["/brokers/state/2", "/brokers/ids"]])
def test_status_with_denied_znodes_is_complete_otherwise_and_exits_with_1(
    denied: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = {
        "/brokers": b"",
        "/brokers/epoch": b"0",
        "/brokers/ids": b"",
        "/brokers/state": b"",
        "/brokers/state/1": b"7",
        "/brokers/state/2": b"8",
    }
    readable = {path: one for path, one in contents.items() if path not in denied}
    status = status_of(ClusterZnodes(readable, denied))
    asyncio = SimpleNamespace(run=lambda awaitable: _closed(awaitable, status))
    monkeypatch.setattr(options, "asyncio", asyncio)
    code, output, error = run("status", "--zookeeper", "localhost")
    assert (code, error) == (1 if denied else 0, "")
    lines = output.splitlines()
    if denied:
        assert lines[:2] == ["queue of broker 1: 0 requests", "queue of broker 2: unreadable"]
        assert [one.split()[:2] for one in lines[2:]] == [["problem:", path] for path in denied]
    else:
        assert lines[1] == "queue of broker 2: 0 requests, the broker is not registered"
    code, output, _ = run("status", "--zookeeper", "localhost", "--json")
    assert (code, json.loads(output)["denied"]) == (1 if denied else 0, denied)


def _closed(awaitable: Coroutine[Any, Any, Any], result: ClusterStatus) -> ClusterStatus:
    awaitable.close()
    return result


@pytest.mark.parametrize("is_argument", [True, False])
def test_record_that_is_not_utf_8_is_rejected(is_argument: bool) -> None:
    arguments = ["produce", "t", "0", "--zookeeper", "localhost", "a"]
    if is_argument:
        result = CliRunner().invoke(app, [*arguments, "zz\udcff"])
    else:
        result = CliRunner().invoke(app, arguments[:-1], input=b"a\nzz\xff\n")
    assert result.exit_code == 2
    assert "is not UTF-8" in " ".join(result.stderr.split())


@pytest.mark.parametrize(("requests", "text"), [(1, "1 request,"), (2, "2 requests,")])
def test_status_counts_the_requests_of_a_queue(requests: int, text: str) -> None:
    paths = [
        "/brokers/state/1",
        *(f"/brokers/state/1/request-000000000{i}" for i in range(requests)),
    ]
    found = text_of(
        status_of(ClusterZnodes(dict.fromkeys(["/brokers", "/brokers/state", *paths], b"")))
    )
    assert f"queue of broker 1: {text}" in found


def test_status_without_a_cluster_says_so() -> None:
    assert text_of(status_of(ClusterZnodes({}))).startswith(
        "no cluster: there is no znode /brokers here"
    )
