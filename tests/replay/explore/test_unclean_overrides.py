"""Unclean elections of topics that do not allow them, in a cluster that does by default."""

import pytest

from controller.core.configuration import Configuration
from controller.core.procedures.elections import leadership
from replay.explore.invariants.invariant import Violation
from replay.explore.run import run
from replay.world.inputs import ChangeBrokerConfig, ChangeTopicConfig, CrashBroker, Input
from replay.world.scenario import BrokerSpec, ControllerSpec, Scenario, TopicSpec

_UNCLEAN = "unclean.leader.election.enable"

# Broker 2 leaves the ISR before broker 1 fails, and returns.
_FAILURES: tuple[Input, ...] = (
    CrashBroker(6_000, 2, restart_after_ms=14_000),
    CrashBroker(19_000, 1, restart_after_ms=None),
)


def _violation(configs: dict[str, str], *inputs: Input, is_default: bool) -> Violation | None:
    configuration = Configuration(
        broker_id=100, kip_236_enable=True, unclean_leader_election_enable=is_default
    )
    scenario = Scenario(
        brokers=(BrokerSpec(1), BrokerSpec(2)),
        topics=(TopicSpec("orders", ((1, 2),), configs),),
        controllers=(ControllerSpec(configuration),),
        active_ms=30_000,
    )
    return run(scenario, (*inputs, *_FAILURES)).violation


@pytest.fixture
def _without_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller takes each topic for one without an override."""
    monkeypatch.setattr(leadership, "UNCLEAN", "no such setting")


@pytest.mark.usefixtures("_without_overrides")
def test_unclean_leader_of_a_topic_whose_override_forbids_it_is_reported() -> None:
    found = _violation({_UNCLEAN: "false"}, is_default=True)
    assert found is not None
    assert found.invariant == "unclean-is-allowed"


@pytest.mark.usefixtures("_without_overrides")
def test_override_that_a_client_sets_before_the_default_counts() -> None:
    found = _violation(
        {},
        ChangeTopicConfig(4_000, "orders", {_UNCLEAN: "false"}),
        ChangeBrokerConfig(4_500, None, {_UNCLEAN: "true"}),
        is_default=False,
    )
    assert found is not None
    assert found.invariant == "unclean-is-allowed"


@pytest.mark.usefixtures("_without_overrides")
def test_unclean_leader_of_a_topic_without_an_override_is_accepted() -> None:
    assert _violation({}, is_default=True) is None


def test_controller_that_reads_the_override_elects_no_unclean_leader() -> None:
    assert _violation({_UNCLEAN: "false"}, is_default=True) is None
