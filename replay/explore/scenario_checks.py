"""Checks a scenario file before it is explored: an error in it is not a violation."""

from collections.abc import Iterator, Sequence
from typing import Final

from controller.core import topic_names
from controller.core.errors import ConfigurationError
from replay.world.cluster import Cluster
from replay.world.inputs import Input
from replay.world.scenario import Scenario

_DAY_MS: Final = 86_400_000


def problem_of(scenario: Scenario, inputs: Sequence[Input]) -> str | None:
    """The first error of a scenario with its inputs; None: it can be run."""
    problem = next(_problems(scenario, inputs), None)
    if problem is not None:
        return problem
    try:
        Cluster(scenario, inputs)
    except (ConfigurationError, ValueError, KeyError) as error:
        return str(error)
    return None


def _problems(scenario: Scenario, inputs: Sequence[Input]) -> Iterator[str]:
    brokers = [one.id for one in scenario.brokers]
    if not brokers or len(set(brokers)) < len(brokers):
        yield f"brokers: the ids {brokers} must be one or more, each once"
    if not 0 < scenario.active_ms <= _DAY_MS or not 0 <= scenario.quiet_ms <= _DAY_MS:
        yield f"active_ms must be 1 to {_DAY_MS}, and quiet_ms 0 to {_DAY_MS}"
    for topic in scenario.topics:
        illegal = topic_names.problem_of(topic.name)
        if illegal:
            yield f"topics: {illegal}"
        for number, replicas in enumerate(topic.assignment):
            is_legal = replicas and len(set(replicas)) == len(replicas)
            if not is_legal or any(one not in brokers for one in replicas):
                yield (
                    f"topics: {topic.name}-{number}: the replicas {list(replicas)} must be one or "
                    f"more of the brokers {brokers}, each once"
                )
    for spec in scenario.controllers:
        configuration = spec.configuration
        if configuration.is_broker != (configuration.broker_id in brokers):
            yield (
                f"controllers: broker_id {configuration.broker_id} must "
                f"{'' if configuration.is_broker else 'not '}be one of the brokers {brokers}"
            )
    for number, one in enumerate(inputs):
        if not 0 <= one.at_ms <= _DAY_MS:
            yield f"inputs[{number}]: at_ms must be 0 to {_DAY_MS}"
        broker = getattr(one, "broker", None)
        if broker is not None and broker not in brokers:
            yield f"inputs[{number}]: broker {broker} is not one of the brokers {brokers}"
