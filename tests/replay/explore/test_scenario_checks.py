"""Errors in scenario files are reported before anything runs: where, what, and what exists."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs
from typer.testing import CliRunner

from controller.core.configuration import Configuration
from replay.cli.main import app
from replay.errors import ReplayError
from replay.explore.generators.mix import random_mix
from replay.explore.generators.scenarios import generic
from replay.explore.numbers import RandomNumbers
from replay.explore.saved import read_scenario
from replay.explore.scenario_checks import problem_of
from replay.world.inputs import (
    AllocateProducerIds,
    AlterUserScramCredentials,
    ChangeBrokerConfig,
    ChangeTopicConfig,
    CrashBroker,
    CrashController,
    CreatePartitions,
    CreateTopic,
    CredentialChange,
    CutConnection,
    Delay,
    DelayEphemeralDeletion,
    DeleteZnode,
    ExpireSession,
    FeatureChange,
    HangZooKeeper,
    HoldLink,
    Input,
    KillController,
    LagZooKeeper,
    LoseReply,
    PauseProcess,
    ShutDownController,
    SlowDisk,
    StartController,
    StopZooKeeperMember,
    UpdateFeatures,
    WriteZnode,
)
from replay.world.scenario import (
    BrokerSpec,
    ControllerSpec,
    Load,
    Scenario,
    SlowReplica,
    TopicSpec,
)

_SCENARIO = Scenario(
    brokers=(BrokerSpec(1), BrokerSpec(2)),
    topics=(TopicSpec("t", ((1, 2),)),),
    controllers=(
        ControllerSpec(Configuration(broker_id=100)),
        ControllerSpec(Configuration(broker_id=1, is_broker=True, rules="kafka"), runs=False),
    ),
    load=Load(acks=(-1,), consumers=1),
)
_CONTROLLERS = "refold 100, stock 1"
_WITH_DISK = f"broker 1, broker 2, {_CONTROLLERS}"
_ALL = f"zookeeper, {_WITH_DISK}, admin, producer 0, consumer 0"


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (PauseProcess(1, "brokr 1", 5), f"process 'brokr 1' is not one of {_WITH_DISK}, producer"),
        (PauseProcess(1, "producer 1", 5), "process 'producer 1' is not one of "),
        (SlowDisk(1, "broker 3", 5, 5), f"process 'broker 3' is not one of {_WITH_DISK}"),
        (ExpireSession(1, "refold 1"), f"process 'refold 1' is not one of {_WITH_DISK}, admin"),
        (LoseReply(1, "consumer 0"), "process 'consumer 0' is not one of "),
        (LagZooKeeper(1, "zookeeper", 1, 5), "process 'zookeeper' is not one of "),
        (DelayEphemeralDeletion(1, "", 1, 5), "process '' is not one of "),
        (CutConnection(1, "broker1", "zookeeper", 5), f"one 'broker1' is not one of {_ALL}"),
        (CutConnection(1, "broker 1", "zk", 5), f"other 'zk' is not one of {_ALL}"),
        (HoldLink(1, "admins", "zookeeper", 5), f"sender 'admins' is not one of {_ALL}"),
        (HoldLink(1, "admin", "refold", 5), f"receiver 'refold' is not one of {_ALL}"),
        (CrashController(1, "broker 1", 1), f"process 'broker 1' is not one of {_CONTROLLERS}"),
        (
            KillController(1, "refold 100", "refold 101"),
            f"successor 'refold 101' is not one of same, none, {_CONTROLLERS}",
        ),
        (StartController(1, "refold 7"), f"process 'refold 7' is not one of {_CONTROLLERS}"),
        (ShutDownController(1, "stock 2"), f"process 'stock 2' is not one of {_CONTROLLERS}"),
        (
            Delay(1, "broker 1>broker 3", 1, 5),
            f"link 'broker 1>broker 3' must be \"sender>receiver\", each one of {_ALL}",
        ),
        (Delay(1, "broker 1", 1, 5), "link 'broker 1' must be"),
        (Delay(1, "broker 1>broker 1", 1, 5), "link 'broker 1>broker 1' must be"),
        (Delay(1, "broker 1>broker 2", 0, 5), "number must be 1 or more"),
        (CrashController(1, "refold 100", 0), "act must be 1 or more"),
        (AllocateProducerIds(1, 3), "broker 3 is not one of the brokers [1, 2]"),
        (CrashBroker(1, 3), "broker 3 is not one of the brokers [1, 2]"),
        (CrashBroker(1, 1, restart_after_ms=-1), "restart_after_ms must be 0 to 86400000"),
        (CrashBroker(-1, 1), "at_ms must be 0 to 86400000"),
        (HangZooKeeper(1, -5), "ms must be 0 to 86400000"),
        (StopZooKeeperMember(1, -1, 5), "member must be 0 or more"),
        (LagZooKeeper(1, "admin", -1, 5), "transactions must be 0 or more"),
    ],
)
def test_input_that_names_what_does_not_exist_is_refused(wrong: Input, problem: str) -> None:
    right = CrashBroker(5, 1)
    found = problem_of(_SCENARIO, [right, wrong])
    kind = msgspec.to_builtins(wrong)["input"]
    assert found is not None
    assert found.startswith(f"inputs[1] ({kind}): {problem}")


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"brokers": ()}, "brokers: the ids [] must be one or more"),
        ({"brokers": (BrokerSpec(1), BrokerSpec(1))}, "brokers: the ids [1, 1] must be"),
        ({"active_ms": 0}, "active_ms must be 1 to "),
        ({"quiet_ms": 60_000}, "quiet_ms must be 65500 to 86400000: the cluster must recover"),
        (
            {"broker_settings": {"replica.lag.time.max.ms": "abc"}},
            "broker_settings: replica.lag.time.max.ms must be a whole number, not 'abc'",
        ),
        (
            {"broker_settings": {"replica.lag.time.max.ms": "0"}},
            "broker_settings: replica.lag.time.max.ms must be at least 1, not '0'",
        ),
        (
            {"broker_settings": {"replica.lag.max.ms": "5"}},
            "broker_settings: 'replica.lag.max.ms' has no effect here; use controlled.shutdown.max",
        ),
        ({"topics": (TopicSpec("a/b", ((1,),)),)}, "topics: "),
        ({"topics": (TopicSpec("t", ((1,), (1, 3))),)}, "topics: t-1: the replicas [1, 3] must"),
        ({"topics": (TopicSpec("t", ((),)),)}, "topics: t-0: the replicas [] must be one or more"),
        (
            {"controllers": (ControllerSpec(Configuration(broker_id=2)),)},
            "controllers: broker_id 2 must not be one of the brokers [1, 2]",
        ),
        (
            {"controllers": (ControllerSpec(Configuration(broker_id=9, is_broker=True)),)},
            "controllers: broker_id 9 must be one of the brokers [1, 2]",
        ),
        ({"protocol": "9.9"}, ""),
        ({"zookeeper": "banana"}, "zookeeper 'banana' must be a release"),
        ({"controllers": ()}, "controllers: one or more are needed"),
        (
            {"controllers": _SCENARIO.controllers * 2},
            "controllers: process 'refold 100' is there 2 times",
        ),
        (
            {"controllers": (ControllerSpec(Configuration(broker_id=-1)),)},
            "controllers: broker_id -1 must be 0 to 2147483647",
        ),
        ({"topics": _SCENARIO.topics * 2}, "topics: name 't' is there 2 times"),
        ({"topics": (TopicSpec("t", ()),)}, "topics: t: assignment must have one or more"),
        (
            {"topics": (TopicSpec("t", ((1,),), {"min.insync.replicas": "abc"}),)},
            "topics: t: configs: Invalid value abc for configuration min.insync.replicas",
        ),
        (
            {"slow_replicas": (SlowReplica(1, "t", 7),)},
            "slow_replicas: there is no partition t-7",
        ),
        ({"zookeeper": "2.1"}, "zookeeper '2.1' must be a release from 3.4 on"),
        ({"zookeeper": "banana"}, "zookeeper 'banana' must be a release from 3.4 on"),
        ({"znodes": {"nonsense": "x"}}, "znodes: 'nonsense' must be the path of a znode"),
        ({"znodes": {"/brokers/ids/1": "{}"}}, "znodes: /brokers/ids/1: brokers and"),
        ({"znodes": {"/controller_epoch": "abc"}}, "znodes: /controller_epoch holds 'abc'"),
    ],
)
def test_impossible_cluster_is_refused(changed: dict[str, Any], problem: str) -> None:
    found = problem_of(structs.replace(_SCENARIO, **changed), ())
    assert found is not None
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (CrashBroker(60_000, 1), "at_ms 60000 must be below active_ms 60000"),
        (StopZooKeeperMember(5, 77, 1), "member 77 must be below zookeeper_members 3"),
        (WriteZnode(5, "no/slash", "x"), "path 'no/slash' must be the path of a znode"),
        (DeleteZnode(5, "/a/"), "path '/a/' must be the path of a znode"),
        (
            CreateTopic(5, "x", ((1, 1), ()), {}, "znode"),
            "assignment: the replicas [1, 1] of a partition must be",
        ),
        (CreateTopic(5, "x", (), {}, "znode_with_id"), "assignment must have one or more"),
        (CreateTopic(5, "x/y", ((1,),), {}, "znode"), "topic: "),
        (CreatePartitions(5, "t", ((),), "znode"), "added: the replicas [] of a partition"),
        (
            ChangeTopicConfig(5, "t", {"min.insync.replicas": "abc"}),
            "configs: Invalid value abc for configuration min.insync.replicas",
        ),
        (
            ChangeBrokerConfig(5, None, {"min.insync.replicas": "-"}),
            "configs: Invalid value - for configuration min.insync.replicas",
        ),
    ],
)
def test_impossible_input_is_refused(wrong: Input, problem: str) -> None:
    found = problem_of(_SCENARIO, [wrong])
    assert found is not None
    assert found.startswith("inputs[0] (")
    assert problem in found


def test_request_to_the_controller_may_have_any_content() -> None:
    requests = (
        CreateTopic(5, "x", ((1, 1), ())),
        CreatePartitions(5, "absent", ((9,),)),
        AlterUserScramCredentials(5, (CredentialChange("", "SCRAM-SHA-256", "", iterations=0),)),
        UpdateFeatures(5, (FeatureChange("", -1),)),
    )
    assert problem_of(_SCENARIO, requests) is None


def test_saved_run_may_be_short_and_have_late_inputs() -> None:
    short = structs.replace(_SCENARIO, quiet_ms=0)
    late: tuple[Input, ...] = (CrashBroker(70_000, 1),)
    assert problem_of(short, late) is not None
    assert problem_of(short, late, is_saved=True) is None


@pytest.mark.parametrize(
    "inputs",
    [
        (),
        (ChangeBrokerConfig(1, None, {}), CrashBroker(1, 2, restart_after_ms=None)),
        (PauseProcess(1, "consumer 0", 5), HoldLink(1, "zookeeper", "stock 1", 5)),
        (KillController(1, "stock 1", "refold 100"), Delay(0, "zookeeper>admin", 3, 5)),
    ],
)
def test_possible_inputs_are_accepted(inputs: Sequence[Input]) -> None:
    assert problem_of(_SCENARIO, inputs) is None


def test_inputs_that_the_explorer_makes_are_accepted() -> None:
    for seed in range(20):
        assert problem_of(generic(), random_mix(generic(), RandomNumbers(seed))) is None


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"input": []}, "unknown field `input`: the fields are name, "),
        ({"load": {"record": 1}}, "unknown field `record` of load: the fields are acks, "),
        (
            {"controllers": [{"configuration": {"broker_id": 100, "kip236": True}}]},
            "unknown field `kip236` of controllers[0].configuration: the fields are broker_id, ",
        ),
        (
            {"inputs": [{"input": "crash_broker", "at_ms": 1, "broker": 1, "restart_ms": 5}]},
            "unknown field `restart_ms` of inputs[0]: the fields are input, at_ms, broker, ",
        ),
        (
            {"inputs": [{"input": "crash_brokr", "at_ms": 1, "broker": 1}]},
            "inputs[0]: unknown input 'crash_brokr': use one of crash_broker, stop_broker, ",
        ),
        (
            {"brokers": [{"id": -7}]},
            "is not a scenario: Expected `int` >= 0 - at `$.brokers[0].id`",
        ),
        (
            {"zookeeper_members": 0},
            "is not a scenario: Expected `int` >= 1 - at `$.zookeeper_members`",
        ),
        (
            {"inputs": [{"input": "allocate_producer_ids", "at_ms": 1, "broker": 1, "route": "a"}]},
            "inputs[0] (allocate_producer_ids): route 'a': use one of api, znode",
        ),
        (
            {"inputs": [{"input": "update_features", "at_ms": 1, "changes": [{"name": "a"}]}]},
            "is not a scenario: Object missing required field `feature`",
        ),
        (
            {"load": {"records_per_second": -5}},
            "is not a scenario: Expected `int` >= 1 - at `$.load.records_per_second`",
        ),
        (
            {"zookeeper_members": 100_000_000},
            "is not a scenario: Expected `int` <= 9 - at `$.zookeeper_members`",
        ),
        (
            {"load": {"records_per_second": 1_000_000_000}},
            "is not a scenario: Expected `int` <= 1000 - at `$.load.records_per_second`",
        ),
        (
            {"load": {"consumers": 100_000_000}},
            "is not a scenario: Expected `int` <= 10 - at `$.load.consumers`",
        ),
        ({"seed": -1}, "is not a scenario: Expected `int` >= 0 - at `$.seed`"),
        ({"controllers": []}, "controllers: one or more are needed"),
        ({"inputs": [{"at_ms": 1}]}, "inputs[0]: has no `input`: use one of crash_broker, "),
        (
            {"inputs": [{"input": "pause_process", "at_ms": 1, "process": "brokr 1", "ms": 5}]},
            "inputs[0] (pause_process): process 'brokr 1' is not one of broker 1, ",
        ),
    ],
)
def test_file_with_an_error_is_named(tmp_path: Path, changed: dict[str, Any], problem: str) -> None:
    given = {
        "brokers": [{"id": 1}],
        "controllers": [{"configuration": {"broker_id": 100}}],
    } | changed
    file = tmp_path / "race.json"
    file.write_bytes(msgspec.json.encode(given))
    with pytest.raises(ReplayError) as refused:
        read_scenario(file)
    assert str(refused.value).removeprefix(str(file)).lstrip(": ").startswith(problem)
    done = CliRunner().invoke(app, ["explore", "--scenario", str(file), "--runs", "1"])
    assert done.exit_code == 2
    assert done.stderr == f"refold explore: {refused.value}\n"


def test_misspelt_field_in_toml_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "race.toml"
    file.write_text(
        """
        brokers = [{id = 1}]
        controllers = [{configuration = {broker_id = 100}, run = false}]
        """
    )
    with pytest.raises(ReplayError, match="unknown field `run` of controllers\\[0\\]: the fields"):
        read_scenario(file)
