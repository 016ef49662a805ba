"""The settings that `--set` can change, by Kafka's names."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import structs

from controller.core.config_types import InvalidConfiguration, parse_value
from controller.core.configuration import Configuration
from controller.core.topic_configs import BROKER_KEYS, TOPIC_CONFIGS, problem_with
from controller.settings import parsing
from replay.errors import ReplayError
from replay.what_if.starting import SettingOverrides
from replay.world.broker.settings import KAFKA_NAMES, settings_of
from replay.world.scenario import protocol_of

_COUNT: Final = parsing.whole_number(1)
_OF_CONTROLLER: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "unclean.leader.election.enable": ("unclean_leader_election_enable", parsing.boolean),
    "delete.topic.enable": ("delete_topic_enable", parsing.boolean),
    "auto.leader.rebalance.enable": ("auto_leader_rebalance_enable", parsing.boolean),
    "leader.imbalance.per.broker.percentage": (
        "leader_imbalance_per_broker_percentage",
        parsing.whole_number(0),
    ),
    "leader.imbalance.check.interval.seconds": (
        "leader_imbalance_check_interval_seconds",
        _COUNT,
    ),
    "num.partitions": ("num_partitions", _COUNT),
    "default.replication.factor": ("default_replication_factor", _COUNT),
    "kip-236.enable": ("kip_236_enable", parsing.boolean),
    "refold.rules": ("rules", parsing.one_of("refold", "kafka")),
}
"""Settings of the controller: the fields of its configuration, and how they are parsed."""
_OF_TOPICS: Final = ("min.insync.replicas", "unclean.leader.election.enable")


def with_setting(settings: SettingOverrides, topic: str, key: str, value: str) -> SettingOverrides:
    """The settings with another value; `topic` is empty for a setting of controller and brokers.
    Raises ReplayError for an unknown key, or a value that the key cannot have."""
    if topic:
        return _with_topic_setting(settings, topic, key, value)
    known = {*_OF_CONTROLLER, *KAFKA_NAMES}
    if key not in known:
        raise ReplayError(
            f"--set {key}={value}: {key} is not a setting that changes a continuation; use one of: "
            f"{', '.join(sorted(known))}, or TOPIC:KEY=VALUE"
        )
    configuration, brokers = settings.configuration, settings.brokers
    if key in _OF_CONTROLLER:
        field, parse = _OF_CONTROLLER[key]
        configuration = structs.replace(configuration, **{field: _parsed(key, value, parse)})
    if key in BROKER_KEYS:
        problem = problem_with(key, value)
        if problem is not None:
            raise ReplayError(f"--set {key}={value}: {problem}")
        given = {**configuration.broker_settings, key: value}
        configuration = structs.replace(configuration, broker_settings=given)
    if key in KAFKA_NAMES:
        brokers = {**brokers, key: value}
        try:
            settings_of(protocol_of(configuration), brokers)
        except ValueError as error:
            text = str(error).removeprefix("broker_settings: ")
            raise ReplayError(f"--set {key}={value}: {text}") from None
    return SettingOverrides(configuration, brokers, settings.topics)


def _parsed(key: str, value: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(value)
    except ValueError as error:
        raise ReplayError(f"--set {key}={value}: the value must be {error}") from None


def _with_topic_setting(
    settings: SettingOverrides, topic: str, key: str, value: str
) -> SettingOverrides:
    if key not in _OF_TOPICS:
        raise ReplayError(
            f"--set {topic}:{key}={value}: {key} is not a configuration of topics that changes a "
            f"continuation; use {' or '.join(_OF_TOPICS)}"
        )
    [config] = [one for one in TOPIC_CONFIGS if one.name == key]
    try:
        parse_value(key, value, config.parse, config.check)
    except InvalidConfiguration as error:
        raise ReplayError(f"--set {topic}:{key}={value}: {error}") from None
    topics = {**settings.topics, topic: {**settings.topics.get(topic, {}), key: value}}
    return SettingOverrides(settings.configuration, settings.brokers, topics)


def first_settings(configuration: Configuration, *, rebalances: bool) -> SettingOverrides:
    """The settings of an incident. Without `rebalances` no controller moves leaders by itself: the
    log shows when it did."""
    if rebalances:
        return SettingOverrides(configuration)
    return SettingOverrides(structs.replace(configuration, auto_leader_rebalance_enable=False))
