"""Checks a scenario file before it is explored: an error in it is not a violation."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, get_args

from msgspec import inspect, structs

from controller.core import topic_configs, topic_names
from controller.core.errors import ConfigurationError
from controller.core.releases import release_named
from replay.explore.content_checks import bad_content, znode_problem
from replay.explore.monitor import RECOVERY_MS
from replay.names import broker_name
from replay.world.cluster import Cluster
from replay.world.inputs import (
    NONE,
    SAME,
    CrashController,
    CutConnection,
    Delay,
    DelayEphemeralDeletion,
    ExpireSession,
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
)
from replay.world.processes import ADMIN, ZOOKEEPER, consumer_name, producer_name
from replay.world.scenario import DAY_MS, MAX_ID, Scenario

_RELEASE: Final = re.compile(r"[0-9]+\.[0-9]+(\.[0-9]+)*")
_OLDEST: Final = (3, 4)
_POSITIVE: Final = ("act", "number")
_NOT_NEGATIVE: Final = ("transactions", "member")


def problem_of(
    scenario: Scenario, inputs: Sequence[Input], *, is_saved: bool = False
) -> str | None:
    """The first error of a scenario with its inputs; None: it can be run.

    `is_saved`: of a run that is run again as it is. Such a run may be too short for a recovery, and
    have inputs that it does not reach.
    """
    problem = next(_problems(scenario, inputs, is_saved=is_saved), None)
    if problem is not None:
        return problem
    try:
        Cluster(scenario, inputs)
    except (ConfigurationError, ValueError, KeyError) as error:
        return str(error)
    return None


def _problems(scenario: Scenario, inputs: Sequence[Input], *, is_saved: bool) -> Iterator[str]:
    brokers = [one.id for one in scenario.brokers]
    if not brokers or len(set(brokers)) < len(brokers):
        yield f"brokers: the ids {brokers} must be one or more, each once"
    if not (0 if is_saved else 1) <= scenario.active_ms <= DAY_MS:
        yield f"active_ms must be 1 to {DAY_MS}"
    if not (0 if is_saved else RECOVERY_MS) <= scenario.quiet_ms <= DAY_MS:
        yield f"quiet_ms must be {RECOVERY_MS} to {DAY_MS}: the cluster must recover in this time"
    if not _RELEASE.fullmatch(scenario.zookeeper) or release_named(scenario.zookeeper) < _OLDEST:
        yield f"zookeeper {scenario.zookeeper!r} must be a release from 3.4 on, such as 3.9"
    yield from _bad_topics(scenario, brokers)
    if not is_saved:
        yield from _unknown_slow_replicas(scenario)
    yield from _bad_znodes(scenario)
    yield from _bad_controllers(scenario, brokers)
    processes = _Processes(scenario)
    for number, one in enumerate(inputs):
        for problem in (*_bad_values(one), *bad_content(one), *processes.unknown(one)):
            yield f"inputs[{number}] ({type(one).__struct_config__.tag}): {problem}"
        if not (is_saved or isinstance(one, Delay) or one.at_ms < scenario.active_ms):
            yield (
                f"inputs[{number}] ({type(one).__struct_config__.tag}): at_ms {one.at_ms} must be"
                f" below active_ms {scenario.active_ms}: inputs happen in that part of a run"
            )
        if isinstance(one, StopZooKeeperMember) and one.member >= scenario.zookeeper_members:
            yield (
                f"inputs[{number}] (stop_zookeeper_member): member {one.member} must be below"
                f" zookeeper_members {scenario.zookeeper_members}"
            )


def _bad_topics(scenario: Scenario, brokers: Sequence[int]) -> Iterator[str]:
    yield from _repeated_names("topics", "name", [one.name for one in scenario.topics])
    for topic in scenario.topics:
        illegal = topic_names.problem_of(topic.name)
        if illegal:
            yield f"topics: {illegal}"
        if not topic.assignment:
            yield f"topics: {topic.name}: assignment must have one or more partitions"
        for number, replicas in enumerate(topic.assignment):
            is_legal = replicas and len(set(replicas)) == len(replicas)
            if not is_legal or any(one not in brokers for one in replicas):
                yield (
                    f"topics: {topic.name}-{number}: the replicas {list(replicas)} must be one or "
                    f"more of the brokers {brokers}, each once"
                )
        invalid = topic_configs.validate(topic.configs, {})
        if invalid:
            yield f"topics: {topic.name}: configs: {invalid}"
    for slow in scenario.slow_replicas:
        if slow.broker not in brokers:
            yield f"slow_replicas: broker {slow.broker} is not one of the brokers {brokers}"


def _unknown_slow_replicas(scenario: Scenario) -> Iterator[str]:
    """The slow replicas of partitions that do not exist at the start. A saved run of a what-if may
    have some of partitions that are created later."""
    partitions = {one.name: len(one.assignment) for one in scenario.topics}
    for slow in scenario.slow_replicas:
        if not 0 <= slow.partition < partitions.get(slow.topic, 0):
            yield f"slow_replicas: there is no partition {slow.topic}-{slow.partition}"


def _bad_znodes(scenario: Scenario) -> Iterator[str]:
    for path, data in scenario.znodes.items():
        problem = znode_problem(path, data)
        if problem is not None:
            yield f"znodes: {problem}"


def _bad_controllers(scenario: Scenario, brokers: Sequence[int]) -> Iterator[str]:
    if not scenario.controllers:
        yield "controllers: one or more are needed"
    yield from _repeated_names(
        "controllers", "process", [one.process for one in scenario.controllers]
    )
    for spec in scenario.controllers:
        configuration = spec.configuration
        if not 0 <= configuration.broker_id <= MAX_ID:
            yield f"controllers: broker_id {configuration.broker_id} must be 0 to {MAX_ID}"
        if configuration.is_broker != (configuration.broker_id in brokers):
            yield (
                f"controllers: broker_id {configuration.broker_id} must "
                f"{'' if configuration.is_broker else 'not '}be one of the brokers {brokers}"
            )


def _repeated_names(field: str, what: str, names: Sequence[str]) -> Iterator[str]:
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"{field}: {what} {name!r} is there {names.count(name)} times"


def _bad_values(one: Input) -> Iterator[str]:
    """The numbers that are out of range."""
    for field in structs.fields(one):
        value = getattr(one, field.name)
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        if field.name.endswith("ms") and not 0 <= value <= DAY_MS:
            yield f"{field.name} must be 0 to {DAY_MS}"
        elif field.name in _POSITIVE and value < 1:
            yield f"{field.name} must be 1 or more"
        elif field.name in _NOT_NEGATIVE and value < 0:
            yield f"{field.name} must be 0 or more"


class _Processes:
    """The processes of a scenario, by what can happen to them."""

    def __init__(self, scenario: Scenario) -> None:
        load = scenario.load
        self._brokers = [one.id for one in scenario.brokers]
        brokers = [broker_name(one) for one in self._brokers]
        self._controllers = [one.process for one in scenario.controllers]
        clients = [producer_name(one) for one in range(len(load.acks) if load is not None else 0)]
        clients += [consumer_name(one) for one in range(load.consumers if load is not None else 0)]
        self._with_disk = [*brokers, *self._controllers]
        self._with_session = [*self._with_disk, ADMIN]
        self._pausable = [*self._with_disk, *clients]
        self._all = [ZOOKEEPER, *self._with_session, *clients]

    def unknown(self, one: Input) -> Iterator[str]:
        """The names in an input of things that do not exist."""
        broker = getattr(one, "broker", None)
        if broker is not None and broker not in self._brokers:
            yield f"broker {broker} is not one of the brokers {self._brokers}"
        match one:
            case CrashController() | KillController():
                yield from self._unknown_value("process", one.process, self._controllers)
                successors = [SAME, NONE, *self._controllers]
                yield from self._unknown_value("successor", one.successor, successors)
            case StartController() | ShutDownController():
                yield from self._unknown_value("process", one.process, self._controllers)
            case PauseProcess():
                yield from self._unknown_value("process", one.process, self._pausable)
            case SlowDisk():
                yield from self._unknown_value("process", one.process, self._with_disk)
            case ExpireSession() | LoseReply() | LagZooKeeper() | DelayEphemeralDeletion():
                yield from self._unknown_value("process", one.process, self._with_session)
            case CutConnection():
                yield from self._unknown_value("one", one.one, self._all)
                yield from self._unknown_value("other", one.other, self._all)
            case HoldLink():
                yield from self._unknown_value("sender", one.sender, self._all)
                yield from self._unknown_value("receiver", one.receiver, self._all)
            case Delay():
                sender, _, receiver = one.link.partition(">")
                if sender not in self._all or receiver not in self._all or sender == receiver:
                    yield (
                        f'link {one.link!r} must be "sender>receiver", each one of '
                        f"{', '.join(self._all)}"
                    )

    @staticmethod
    def _unknown_value(field: str, value: str, known: Sequence[str]) -> Iterator[str]:
        if value not in known:
            yield f"{field} {value!r} is not one of {', '.join(known)}"


def _inputs_of(given: object) -> list[Any]:
    inputs = given.get("inputs") if isinstance(given, dict) else None
    return inputs if isinstance(inputs, list) else []


def unknown_kind(given: object) -> str | None:
    """The first input of a file, as plain values, whose kind does not exist."""
    kinds = [str(one.__struct_config__.tag) for one in get_args(Input)]
    for number, one in enumerate(_inputs_of(given)):
        kind = one.get("input") if isinstance(one, dict) else None
        if kind not in kinds:
            what = "has no `input`" if kind is None else f"unknown input {kind!r}"
            return f"inputs[{number}]: {what}: use one of {', '.join(kinds)}"
    return None


def unknown_value(given: object) -> str | None:
    """The first value in the inputs of a file, as plain values, that is none of the few that its
    field can have."""
    kinds = {one.__struct_config__.tag: one for one in get_args(Input)}
    for number, one in enumerate(_inputs_of(given)):
        form = inspect.type_info(kinds[one["input"]])
        assert isinstance(form, inspect.StructType)
        for field in form.fields:
            values = field.type.values if isinstance(field.type, inspect.LiteralType) else ()
            value = one.get(field.name, next(iter(values), None))
            if values and value not in values:
                allowed = ", ".join(map(str, values))
                place = f"inputs[{number}] ({one['input']})"
                return f"{place}: {field.name} {value!r}: use one of {allowed}"
    return None


def unknown_field(given: object, read: object, place: str = "") -> str | None:
    """The first field in a file, as plain values, that is in none of the classes it was read to.

    `read` is the result as plain values: it has all fields of the classes.
    """
    if isinstance(given, dict) and isinstance(read, dict):
        for name, value in given.items():
            if name not in read:
                where = f" of {place}" if place else ""
                return f"unknown field `{name}`{where}: the fields are {', '.join(read)}"
            found = unknown_field(value, read[name], f"{place}.{name}" if place else name)
            if found is not None:
                return found
    elif isinstance(given, list) and isinstance(read, list | tuple):
        for number, (one, other) in enumerate(zip(given, read, strict=False)):
            found = unknown_field(one, other, f"{place}[{number}]")
            if found is not None:
                return found
    return None
