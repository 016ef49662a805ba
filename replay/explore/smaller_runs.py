"""The reducible parts of a run that breaks an invariant: its cluster, except for the parts that
inputs need, and the values in its inputs."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import structs

from replay.names import broker_name
from replay.world.inputs import TimedInput
from replay.world.scenario import BrokerSpec, Load, Scenario, TopicSpec

Input = TypeVar("Input", bound=TimedInput)
SmallerRun = tuple[Scenario, list[Input]]

_AFTER_MS: Final = 100
"""How long the active part of a run continues at least after the last input."""

_TIMES: Final = (
    "ms",
    "restart_after_ms",
    "closes_after_ms",
    "lasts_ms",
    "latency_ms",
    "lag_ms",
    "delay_ms",
    "transactions",
)
_LISTS: Final = ("targets", "partitions", "changes")
_PLAIN: Final[dict[str, Any]] = {
    "loses_unflushed": False,
    "force": False,
    "validate_only": False,
    "configs": {},
    "successor": "same",
    "closes_after_ms": 0,
    "lasts_ms": 0,
    "survives_restart": False,
}


def smaller_clusters(scenario: Scenario, inputs: Sequence[Input]) -> Iterator[SmallerRun[Input]]:
    """Scenarios that are smaller in one respect, the largest steps first."""
    given = list(inputs)
    for smaller in _scenarios(scenario, inputs):
        yield smaller, given
    yield from _without_brokers(scenario, given)


def _scenarios(scenario: Scenario, inputs: Sequence[TimedInput]) -> Iterator[Scenario]:
    if scenario.load is not None:
        yield structs.replace(scenario, load=None)
        yield from (structs.replace(scenario, load=load) for load in _lighter(scenario.load))
    named = _names(inputs)
    for place, topic in enumerate(scenario.topics):
        if topic.name not in named:
            yield structs.replace(scenario, topics=_remove_item(scenario.topics, place))
        elif len(topic.assignment) > 1:
            shorter = TopicSpec(topic.name, topic.assignment[:-1], topic.configs)
            yield structs.replace(scenario, topics=_replace_item(scenario.topics, place, shorter))
        for partition, replicas in enumerate(topic.assignment):
            if len(replicas) > 1:
                shrunk = _replace_item(topic.assignment, partition, replicas[:-1])
                thinner = TopicSpec(topic.name, shrunk, topic.configs)
                yield structs.replace(
                    scenario, topics=_replace_item(scenario.topics, place, thinner)
                )
    for path in scenario.znodes:
        fewer = {one: data for one, data in scenario.znodes.items() if one != path}
        yield structs.replace(scenario, znodes=fewer)
    if len(scenario.controllers) > 1:
        for place, controller in enumerate(scenario.controllers):
            if controller.process not in named:
                fewer_controllers = _remove_item(scenario.controllers, place)
                yield structs.replace(scenario, controllers=fewer_controllers)
    last_ms = max((one.at_ms for one in inputs), default=0) + _AFTER_MS
    for active_ms in (last_ms, (last_ms + scenario.active_ms) // 2):
        if active_ms < scenario.active_ms:
            yield structs.replace(scenario, active_ms=active_ms)
    if scenario.zookeeper_members > 1 and not any(hasattr(one, "member") for one in inputs):
        yield structs.replace(scenario, zookeeper_members=1)


def _lighter(load: Load) -> Iterator[Load]:
    if load.consumers:
        yield structs.replace(load, consumers=0)
    if len(load.acks) > 1:
        yield from (structs.replace(load, acks=(one,)) for one in load.acks)
    if load.records_per_second > 1:
        yield structs.replace(load, records_per_second=load.records_per_second // 4 or 1)


def _without_brokers(scenario: Scenario, inputs: list[Input]) -> Iterator[SmallerRun[Input]]:
    """Without the last broker, which leaves all assignments, if no input is about it."""
    if len(scenario.brokers) < 2:
        return
    for gone in reversed(scenario.brokers):
        if _is_about_broker(scenario, inputs, gone):
            continue
        topics = tuple(
            TopicSpec(
                topic.name,
                tuple(
                    tuple(one for one in replicas if one != gone.id)
                    for replicas in topic.assignment
                ),
                topic.configs,
            )
            for topic in scenario.topics
        )
        if all(replicas for topic in topics for replicas in topic.assignment):
            brokers = tuple(one for one in scenario.brokers if one != gone)
            yield structs.replace(scenario, brokers=brokers, topics=topics), inputs


def _is_about_broker(scenario: Scenario, inputs: Sequence[TimedInput], broker: BrokerSpec) -> bool:
    if any(
        one.configuration.is_broker and one.configuration.broker_id == broker.id
        for one in scenario.controllers
    ):
        return True
    return broker.id in _numbers(inputs) or broker_name(broker.id) in _names(inputs)


def _names(inputs: Sequence[TimedInput]) -> dict[str, None]:
    """All texts in the inputs; both ends of links as well."""
    found: dict[str, None] = {}
    for value in _values(msgspec.to_builtins(list(inputs))):
        if isinstance(value, str):
            found.update(dict.fromkeys((value, *value.split(">"))))
    return found


def _numbers(inputs: Sequence[TimedInput]) -> dict[int, None]:
    """All numbers in the inputs that may be brokers."""
    return {
        value: None
        for one in msgspec.to_builtins(list(inputs))
        for name, field in one.items()
        if not name.endswith("_ms") and name not in ("ms", "number", "act", "changes")
        for value in _values(field)
        if isinstance(value, int)
    }


def _values(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from _values(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _values(one)
    else:
        yield value


def _remove_item(items: tuple[Any, ...], place: int) -> tuple[Any, ...]:
    return items[:place] + items[place + 1 :]


def _replace_item(items: tuple[Any, ...], place: int, item: Any) -> tuple[Any, ...]:
    return (*items[:place], item, *items[place + 1 :])


def simpler_inputs(inputs: Sequence[Input]) -> Iterator[list[Input]]:
    """The inputs with one value simpler."""
    for place, one in enumerate(inputs):
        for simpler in _simpler(one):
            yield [*inputs[:place], simpler, *inputs[place + 1 :]]


def _simpler(one: Input) -> Iterator[Input]:
    fields = structs.asdict(one)
    for name, plain in _PLAIN.items():
        if name in fields and fields[name] != plain:
            yield structs.replace(one, **{name: plain})
    for name in _LISTS:
        items = fields.get(name, ())
        if len(items) > 1:
            for place in range(len(items)):
                yield structs.replace(one, **{name: items[:place] + items[place + 1 :]})
    for name in _TIMES:
        value = fields.get(name)
        if isinstance(value, int) and value > 1:
            yield structs.replace(one, **{name: value // 2})
