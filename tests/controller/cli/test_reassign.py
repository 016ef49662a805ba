"""`refold reassign` before it connects to a cluster: combinations of options, and exit codes."""

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from controller.cli import reassign as reassigning
from controller.cli.reassign_options import ACTIONS
from controller.core.znodes import REASSIGN_CANCEL, broker_config_path, read_config, write_config
from controller.operator.reassignment import cluster
from controller.operator.reassignment.cluster import ClusterConnection
from replay.cli.main import app, main
from tests.controller.core.procedures.reassignment.interrupting import request, submit
from tests.controller.core.procedures.reassignment.reassigning import T0
from tests.controller.operator.reassignment.harness import ReassignHarness
from tools.lab.ports import HOST, free_port

MOVES = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
ZOOKEEPER = ("--zookeeper", "zk:2181")
BROKERS = ("--bootstrap-server", "kafka:9092")


def reassign(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["reassign", *map(str, arguments)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "moves.json"
    path.write_text(MOVES)
    return path


def error_lines(result: Result) -> list[str]:
    """The reported errors."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    prefix = "refold reassign: "
    lines = result.stderr.splitlines()
    assert all(line.startswith(prefix) for line in lines), result.stderr
    return [line.removeprefix(prefix) for line in lines]


@pytest.mark.parametrize("actions", [(), ("--list", "--cancel")])
def test_exactly_one_action_is_required(actions: tuple[str, ...]) -> None:
    (line,) = error_lines(reassign(*ZOOKEEPER, *actions))
    assert line.startswith("Command must include exactly one action: --generate, --execute, ")


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_every_action_needs_a_cluster(action: str) -> None:
    assert "Please specify --zookeeper or --bootstrap-server" in error_lines(
        reassign(f"--{action}")
    )


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--execute", *ZOOKEEPER), "--execute requires --reassignment-json-file"),
        (("--request", *ZOOKEEPER), "--request requires --reassignment-json-file"),
        (
            ("--generate", "--broker-list", "1", *ZOOKEEPER),
            "--generate requires --topics-to-move-json-file",
        ),
        (
            ("--list", "--throttle", "5", *ZOOKEEPER),
            'Option "--throttle" can\'t be used with action "--list"',
        ),
        (
            ("--remove-cancel", "--wait", *ZOOKEEPER),
            'Option "--wait" can\'t be used with action "--remove-cancel"',
        ),
        (
            ("--list", "--zk-tls-config-file", "x", "--bootstrap-server", "x:1"),
            "--zk-tls-config-file applies to --zookeeper",
        ),
        (
            ("--list", "--command-config", "x", *ZOOKEEPER),
            "--command-config applies to --bootstrap-server",
        ),
        (
            ("--verify", *ZOOKEEPER),
            "--verify requires either --reassignment-json-file or --id",
        ),
        (
            ("--verify", "--id", "0x1", *BROKERS),
            "--id names a znode and requires --zookeeper",
        ),
        (
            ("--list", "--force", *ZOOKEEPER),
            'Option "--force" can\'t be used with action "--list"',
        ),
        (
            ("--list-strays", *ZOOKEEPER),
            "--list-strays asks brokers for their log directories and requires --bootstrap-server",
        ),
        (
            ("--delete-strays", *ZOOKEEPER),
            (
                "--delete-strays asks brokers for their log directories and requires "
                "--bootstrap-server"
            ),
        ),
        (
            ("--delete-strays", *BROKERS),
            (
                "--delete-strays works through znodes and requires --zookeeper: Kafka "
                "has no API for it"
            ),
        ),
        (
            ("--remove-cancel", *BROKERS),
            (
                "--remove-cancel works through znodes and requires --zookeeper: Kafka "
                "has no API for it"
            ),
        ),
    ],
)
def test_options_that_do_not_fit_are_rejected(arguments: tuple[str, ...], why: str) -> None:
    assert error_lines(reassign(*arguments)) == [why]


def test_cancel_without_a_cluster_names_both_routes(file: Path) -> None:
    (line,) = error_lines(reassign("--cancel", *BROKERS))
    assert line.endswith(
        "with --reassignment-json-file Kafka's API cancels the partitions in the file"
    )
    (line,) = error_lines(reassign("--cancel", "--reassignment-json-file", file, *ZOOKEEPER))
    assert "uses Kafka's API and requires --bootstrap-server" in line


def test_force_with_a_file_is_rejected(file: Path) -> None:
    arguments = ("--cancel", "--force", "--reassignment-json-file", file)
    assert error_lines(reassign(*arguments, *ZOOKEEPER, *BROKERS)) == [
        "--force applies to --cancel without a file, which rolls back everything"
    ]


def test_help_describes_the_risk_of_force() -> None:
    text = " ".join(reassign("--help").stdout.replace("│", " ").split())
    assert "fewer than min(min.insync.replicas, number of originals) originals are in sync" in text
    assert "goes offline or loses records" in text


def test_additional_requires_kafkas_api(file: Path) -> None:
    (line,) = error_lines(
        reassign("--execute", "--additional", "--reassignment-json-file", file, *ZOOKEEPER)
    )
    assert line.endswith("with --zookeeper use --execute-extra")


def test_all_errors_are_reported() -> None:
    assert error_lines(reassign("--execute", "--id", "7")) == [
        "--execute requires --reassignment-json-file",
        'Option "--id" can\'t be used with action "--execute"',
        "Please specify --zookeeper or --bootstrap-server",
    ]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--verify", "--id", "seven"), "--id 'seven' is not a czxid such as 0x1a2b"),
        (
            ("--execute", "--reassignment-json-file", "absent.json"),
            "absent.json cannot be read: No such file or directory",
        ),
    ],
)
def test_invalid_values_are_rejected(arguments: tuple[str, ...], why: str) -> None:
    assert error_lines(reassign(*arguments, *ZOOKEEPER)) == [why]


def test_invalid_connect_string_is_rejected() -> None:
    (line,) = error_lines(reassign("--list", "--zookeeper", "zk:port"))
    assert line.startswith("--zookeeper: ")


@pytest.mark.parametrize(
    "arguments", [("--throttle", "-2"), ("--throttle", "fast"), ("--nothing",)]
)
def test_invalid_arguments_are_rejected(arguments: tuple[str, ...]) -> None:
    assert reassign("--execute", *ZOOKEEPER, *arguments).exit_code == 2


def test_json_contains_the_error(file: Path) -> None:
    file.write_text("{")
    result = reassign("--execute", "--reassignment-json-file", file, *ZOOKEEPER, "--json")
    assert (result.exit_code, result.stderr) == (2, "")
    answer = json.loads(result.stdout)
    assert answer["action"] == "execute"
    assert answer["error"].startswith(f"{file} cannot be used: ")


def test_unreachable_cluster_exits_with_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "ZOOKEEPER_MS", 200)
    (line,) = error_lines(reassign("--list", "--zookeeper", f"{HOST}:{free_port()}"))
    assert line.startswith("cannot connect to ZooKeeper at ")
    assert line.endswith("check --zookeeper")
    (line,) = error_lines(reassign("--list", "--bootstrap-server", f"{HOST}:{free_port()}"))
    assert line.startswith("no broker answers at ")
    assert line.endswith("check --bootstrap-server")


def test_invalid_list_of_brokers_is_rejected(tmp_path: Path) -> None:
    topics = tmp_path / "topics.json"
    topics.write_text('{"topics":[{"topic":"t"}]}')
    arguments = ("--generate", "--topics-to-move-json-file", topics, "--broker-list", "1,x")
    assert error_lines(reassign(*arguments, *BROKERS)) == [
        "--broker-list '1,x': 'x' is not a broker id"
    ]


# On a simulated cluster -------------------------------------------------------------------------

RATE = "leader.replication.throttled.rate"


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> ReassignHarness:
    """t-0 moves to [4,5,6], and broker 4 is throttled."""
    harness = ReassignHarness()
    submit(harness.world, {T0: (4, 5, 6)})
    harness.world.put(broker_config_path(4), write_config({RATE: "5"}))

    @asynccontextmanager
    async def connected(*addresses: object) -> AsyncIterator[ClusterConnection]:
        yield harness.with_disks

    monkeypatch.setattr(reassigning, "connected", connected)
    return harness


def throttle(harness: ReassignHarness) -> dict[str, str]:
    """The throttle of broker 4."""
    return read_config("4", harness.world.data(broker_config_path(4)))


@pytest.mark.parametrize(("action", "status"), [("--cancel", 2), ("--list-strays", 0)])
def test_closed_output_ends_an_action_before_it_changes_anything(
    harness: ReassignHarness, monkeypatch: pytest.MonkeyPatch, action: str, status: int
) -> None:
    harness.leave_on_disk(6, ("gone", 0))
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as unread:  # noqa: PTH123 - it is no path
        monkeypatch.setattr(sys, "stdout", unread)
        monkeypatch.setattr(sys, "argv", ["refold", "reassign", action, *ZOOKEEPER, *BROKERS])
        with pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code == status
    assert harness.world.data(REASSIGN_CANCEL) is None


@pytest.mark.parametrize("more", [(), ("--wait",), ("--force",)])
def test_cancel_clears_throttles_of_a_completed_rollback(
    harness: ReassignHarness, more: tuple[str, ...]
) -> None:
    result = reassign("--cancel", *more, *ZOOKEEPER)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("Clearing broker-level throttles") == 1
    assert throttle(harness) == {}


def test_cancel_reports_throttles_of_a_waiting_rollback(harness: ReassignHarness) -> None:
    harness.without_controller()
    result = reassign("--cancel", "--json", *ZOOKEEPER)
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert answer["throttles_left"] == {"brokers/4": [RATE]}
    assert answer["clear_throttles_with"].endswith(
        "--verify --wait --reassignment-json-file /dev/stdin"
    )


@pytest.mark.parametrize("more", [("--preserve-throttles",), ("--dry-run",)])
def test_cancel_keeps_throttles_on_request(harness: ReassignHarness, more: tuple[str, ...]) -> None:
    result = reassign("--cancel", *more, *ZOOKEEPER)
    assert result.exit_code == 0
    assert "throttle" not in result.output
    assert throttle(harness) == {RATE: "5"}


def test_cancel_with_wait_reports_throttles_that_another_move_needs(
    harness: ReassignHarness,
) -> None:
    harness.world.create_topic("u", {0: (1, 2)})
    request(harness.world, {("u", 0): (3, 4)})
    result = reassign("--cancel", "--wait", *ZOOKEEPER)
    assert result.exit_code == 0, result.output
    assert "Reassignment of partition t-0 is completed." in result.stdout
    assert "throttles remain, because partitions are being reassigned: u-0" in result.stderr
    assert throttle(harness) == {RATE: "5"}


def test_strays_exit_with_4_and_are_in_the_json(harness: ReassignHarness) -> None:
    harness.leave_on_disk(6, ("gone", 0))
    result = reassign("--list-strays", "--json", *ZOOKEEPER, *BROKERS)
    assert result.exit_code == 4, result.output
    assert json.loads(result.stdout)["strays"] == [
        {
            "topic": "gone",
            "partition": 0,
            "broker": 6,
            "log_dir": "/data",
            "bytes": 1024,
            "assigned": None,
            "deletion": None,
        }
    ]


def test_delete_strays_waits_until_its_timeout(harness: ReassignHarness) -> None:
    harness.without_controller()
    harness.leave_on_disk(6, ("gone", 0))
    result = reassign("--delete-strays", "--timeout", "0", *ZOOKEEPER, *BROKERS)
    assert result.exit_code == 3, result.output
    assert "broker 6 has not confirmed the deletion of gone-0 yet" in result.stderr
