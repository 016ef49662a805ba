"""`refold reassign` before it reaches a cluster: which options go together, and how it ends."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from controller.cli import reassign as reassigning
from controller.cli.main import app
from controller.cli.output import OutputFault
from controller.cli.reassign_options import ACTIONS
from controller.operator.reassignment import access
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


def told(result: Result) -> list[str]:
    """Why it could not begin."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    prefix = "refold reassign: "
    lines = result.stderr.splitlines()
    assert all(line.startswith(prefix) for line in lines), result.stderr
    return [line.removeprefix(prefix) for line in lines]


@pytest.mark.parametrize("actions", [(), ("--list", "--cancel")])
def test_there_is_exactly_one_action(actions: tuple[str, ...]) -> None:
    (line,) = told(reassign(*ZOOKEEPER, *actions))
    assert line.startswith("Command must include exactly one action: --generate, --execute, ")


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_every_action_needs_a_cluster(action: str) -> None:
    assert "Please specify --zookeeper or --bootstrap-server" in told(reassign(f"--{action}"))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--execute", *ZOOKEEPER), "--execute needs --reassignment-json-file"),
        (("--request", *ZOOKEEPER), "--request needs --reassignment-json-file"),
        (
            ("--generate", "--broker-list", "1", *ZOOKEEPER),
            "--generate needs --topics-to-move-json-file",
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
            ("--list", "--command-config", "x", *ZOOKEEPER),
            "--command-config is for --bootstrap-server",
        ),
        (
            ("--verify", *ZOOKEEPER),
            "--verify needs either --reassignment-json-file or --id",
        ),
        (
            ("--verify", "--id", "0x1", *BROKERS),
            "--id names a znode and needs --zookeeper",
        ),
        (
            ("--remove-cancel", *BROKERS),
            "--remove-cancel is done by znodes and needs --zookeeper: Kafka has no API for it",
        ),
    ],
)
def test_options_that_do_not_fit(arguments: tuple[str, ...], why: str) -> None:
    assert told(reassign(*arguments)) == [why]


def test_cancel_says_which_way_needs_what(file: Path) -> None:
    (line,) = told(reassign("--cancel", *BROKERS))
    assert line.endswith("with --reassignment-json-file Kafka's API cancels what the file lists")
    (line,) = told(reassign("--cancel", "--reassignment-json-file", file, *ZOOKEEPER))
    assert "is Kafka's own, by its API, and needs --bootstrap-server" in line


def test_additional_is_kafkas(file: Path) -> None:
    (line,) = told(
        reassign("--execute", "--additional", "--reassignment-json-file", file, *ZOOKEEPER)
    )
    assert line.endswith("with --zookeeper use --execute-extra")


def test_all_that_is_wrong_is_told() -> None:
    assert told(reassign("--execute", "--id", "7")) == [
        "--execute needs --reassignment-json-file",
        'Option "--id" can\'t be used with action "--execute"',
        "Please specify --zookeeper or --bootstrap-server",
    ]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--verify", "--id", "seven"), "--id 'seven' is no czxid, such as 0x1a2b"),
        (
            ("--execute", "--reassignment-json-file", "absent.json"),
            "absent.json cannot be read: No such file or directory",
        ),
    ],
)
def test_values_that_cannot_be_used(arguments: tuple[str, ...], why: str) -> None:
    assert told(reassign(*arguments, *ZOOKEEPER)) == [why]


def test_a_connect_string_that_is_none() -> None:
    (line,) = told(reassign("--list", "--zookeeper", "zk:port"))
    assert line.startswith("--zookeeper: ")


@pytest.mark.parametrize(
    "arguments", [("--throttle", "-2"), ("--throttle", "fast"), ("--nothing",)]
)
def test_arguments_that_are_none(arguments: tuple[str, ...]) -> None:
    assert reassign("--execute", *ZOOKEEPER, *arguments).exit_code == 2


def test_json_says_what_is_wrong(file: Path) -> None:
    file.write_text("{")
    result = reassign("--execute", "--reassignment-json-file", file, *ZOOKEEPER, "--json")
    assert (result.exit_code, result.stderr) == (2, "")
    answer = json.loads(result.stdout)
    assert answer["action"] == "execute"
    assert answer["error"].startswith(f"{file} cannot be used: ")


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "ZOOKEEPER_MS", 200)
    (line,) = told(reassign("--list", "--zookeeper", f"{HOST}:{free_port()}"))
    assert line.startswith("no ZooKeeper answers at ")
    assert line.endswith("look at --zookeeper")
    (line,) = told(reassign("--list", "--bootstrap-server", f"{HOST}:{free_port()}"))
    assert line.startswith("no broker answers at ")
    assert line.endswith("look at --bootstrap-server")


@pytest.mark.parametrize(("action", "status"), [("--cancel", 2), ("--list", 1)])
def test_output_that_nobody_reads(
    monkeypatch: pytest.MonkeyPatch, action: str, status: int
) -> None:
    """It ends there; what would have changed something has not, `main` settles the others."""

    async def run(*given: object) -> None:
        raise OutputFault

    monkeypatch.setattr(reassigning, "_run", run)
    assert reassign(action, *ZOOKEEPER).exit_code == status


def test_a_list_of_brokers_that_is_none(tmp_path: Path) -> None:
    topics = tmp_path / "topics.json"
    topics.write_text('{"topics":[{"topic":"t"}]}')
    arguments = ("--generate", "--topics-to-move-json-file", topics, "--broker-list", "1,x")
    assert told(reassign(*arguments, *BROKERS)) == ["--broker-list '1,x': 'x' is no broker id"]
