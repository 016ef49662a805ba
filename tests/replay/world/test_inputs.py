"""Inputs and scenarios as files."""

from typing import get_args

import msgspec
import pytest

from controller.core.configuration import Configuration
from replay.world.inputs import (
    AllocateProducerIds,
    AlterUserScramCredentials,
    CrashBroker,
    CredentialChange,
    Delay,
    FeatureChange,
    Input,
    LagZooKeeper,
    Reassign,
    Target,
    UpdateFeatures,
)
from replay.world.scenario import BrokerSpec, ControllerSpec, Scenario, TopicSpec


class Inputs(msgspec.Struct):
    """A file of inputs."""

    inputs: tuple[Input, ...]


SOME: tuple[Input, ...] = (
    CrashBroker(12_000, 2, restart_after_ms=None),
    Reassign(5, (Target("t", 0, (1, 2)),), route="extra"),
    LagZooKeeper(1, "broker 1", 3, 4_000),
    Delay(0, "broker 1>zookeeper", 17, 40),
    AllocateProducerIds(6, 1, route="znode"),
    AlterUserScramCredentials(7, (CredentialChange("alice", "SCRAM-SHA-256", None),)),
    UpdateFeatures(8, (FeatureChange("group.version", 0, "safe_downgrade"),), validate_only=True),
)


def test_input_is_named_by_its_kind_in_a_file() -> None:
    text = '[[inputs]]\ninput = "crash_broker"\nat_ms = 12000\nbroker = 2\n'
    assert msgspec.toml.decode(text, type=Inputs).inputs == (CrashBroker(12_000, 2),)


def test_inputs_are_the_same_after_they_were_saved() -> None:
    saved = msgspec.json.encode(Inputs(SOME))
    assert msgspec.json.decode(saved, type=Inputs).inputs == SOME


@pytest.mark.parametrize("kind", get_args(Input), ids=lambda kind: str(kind.__name__))
def test_each_input_has_a_time_and_a_text(kind: type[msgspec.Struct]) -> None:
    assert msgspec.structs.fields(kind)[0].name == "at_ms"
    assert kind.__doc__


def test_scenario_is_the_same_after_it_was_saved() -> None:
    scenario = Scenario(
        brokers=(BrokerSpec(1, "a"), BrokerSpec(2)),
        topics=(TopicSpec("t", ((1, 2),), {"min.insync.replicas": "2"}),),
        controllers=(ControllerSpec(Configuration(broker_id=100, kip_236_enable=True)),),
        znodes={"/admin/delete_topics/t": ""},
    )
    assert msgspec.json.decode(msgspec.json.encode(scenario), type=Scenario) == scenario
    assert scenario.controllers[0].process == "refold 100"
