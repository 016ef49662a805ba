"""Configurations of topics, as Kafka 3.9 judges and tells them.

tests/controller/api/test_real_admin_answers.py asks a stock controller for the same, for every
configuration.
"""

import pytest

from controller.core.releases import OLDEST, Release
from controller.core.topic_configs import (
    BROKER_KEYS,
    OF_BROKER,
    OF_KAFKA,
    OF_TOPIC,
    TOPIC_CONFIGS,
    effective,
    problem_with,
    validate,
)
from tests.controller.core.test_releases import OFFERED

RELEASES = list(OFFERED)
REPLICAS = "leader.replication.throttled.replicas"
ZOOKEEPER_MODE = (
    "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under "
    "Zookeeper's mode."
)


def told(name: str, overrides: dict[str, str], settings: dict[str, str]) -> tuple[str, int]:
    """Value and source."""
    found = {one.name: (one.value, one.source) for one in effective(overrides, settings)}
    return found[name]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("segment.bytes", "13", "Invalid value 13 for configuration {}: Value must be at least 14"),
        (
            "segment.bytes",
            " x ",
            "Invalid value  x  for configuration {}: Not a number of type INT",
        ),
        (
            "segment.bytes",
            "2147483648",
            "Invalid value 2147483648 for configuration {}: Not a number of type INT",
        ),
        ("segment.bytes", "", "Invalid value  for configuration {}: Not a number of type INT"),
        (
            "retention.ms",
            "1.0",
            "Invalid value 1.0 for configuration {}: Not a number of type LONG",
        ),
        (
            "retention.ms",
            "9" * 5000,
            f"Invalid value {'9' * 5000} for configuration {{}}: Not a number of type LONG",
        ),
        (
            "compression.lz4.level",
            "18",
            "Invalid value 18 for configuration {}: Value must be no more than 17",
        ),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration {}: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "min.cleanable.dirty.ratio",
            "12345678",
            "Invalid value 1.2345678E7 for configuration {}: Value must be no more than 1",
        ),
        (
            "min.cleanable.dirty.ratio",
            "-Infinity",
            "Invalid value -Infinity for configuration {}: Value must be at least 0",
        ),
        (
            "preallocate",
            "yes",
            "Invalid value yes for configuration {}: Expected value to be either true or false",
        ),
        (
            "cleanup.policy",
            "compact,deleted",
            "Invalid value deleted for configuration {}: String must be one of: compact, delete",
        ),
        (
            "message.format.version",
            "2.8-IV2",
            "Invalid value 2.8-IV2 for configuration {}: Version 2.8-IV2 is not a valid version",
        ),
        (
            REPLICAS,
            "0:1 ,x",
            "Invalid value [0:1, x] for configuration {}: {} must be the literal '*' or a list "
            "of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId]"
            ",...",
        ),
        ("remote.log.copy.disable", "true", ZOOKEEPER_MODE),
        ("remote.log.delete.on.disable", "true", ZOOKEEPER_MODE),
        (
            "remote.storage.enable",
            "true",
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured "
            "with remote log storage.",
        ),
        ("no.such.name", "1", "Unknown topic config name: {}"),
    ],
)
def test_what_is_wrong_is_told_in_kafkas_words(name: str, text: str, problem: str) -> None:
    assert validate({name: text}, {}) == problem.replace("{}", name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("segment.bytes", " +14 "),
        ("min.cleanable.dirty.ratio", "5e-1d"),
        ("min.cleanable.dirty.ratio", "NaN"),
        ("preallocate", "TRUE"),
        ("cleanup.policy", "compact , delete"),
        ("cleanup.policy", ""),
        ("message.format.version", "0.10.0"),
        ("message.format.version", "2.8.1"),
        (REPLICAS, "*"),
        (REPLICAS, "0:1,,2:3"),
    ],
)
def test_what_kafka_takes_is_taken(name: str, text: str) -> None:
    assert validate({name: text}, {}) is None


@pytest.mark.parametrize(
    ("name", "since"),
    [
        ("remote.storage.enable", (3, 0)),
        ("local.retention.ms", (3, 0)),
        ("local.retention.bytes", (3, 0)),
        ("message.timestamp.before.max.ms", (3, 6)),
        ("message.timestamp.after.max.ms", (3, 6)),
        ("compression.gzip.level", (3, 8)),
        ("compression.lz4.level", (3, 8)),
        ("compression.zstd.level", (3, 8)),
        ("remote.log.copy.disable", (3, 9)),
        ("remote.log.delete.on.disable", (3, 9)),
    ],
)
def test_brokers_of_an_earlier_release_do_not_know_a_configuration(
    name: str, since: Release
) -> None:
    default = next(one.default for one in TOPIC_CONFIGS if one.name == name)
    earlier = RELEASES[RELEASES.index(since) - 1]
    assert validate({name: default}, {}, earlier) == f"Unknown topic config name: {name}"
    assert validate({name: default}, {}, since) is None


def test_local_retention_without_remote_storage() -> None:
    """LogConfig.RemoteLogConfig of 3.0 to 3.5 looks at it whenever a topic is read."""
    problem = (
        "Invalid value -1 for configuration local.retention.ms: "
        "Value must not be -1 as retention.ms value is set as 5."
    )
    overrides = {"retention.ms": "5", "local.retention.ms": "-1"}
    assert validate(overrides, {}, (3, 5)) == problem
    assert validate(overrides, {}, (3, 6)) is None
    assert "not be more than" in str(validate({"local.retention.bytes": "5"}, {}, (3, 5)))
    assert validate({"local.retention.bytes": "-1"}, {}, (3, 5)) is None


def test_brokers_of_2_4_know_all_others() -> None:
    kept = {one.name: one.default for one in TOPIC_CONFIGS if one.since == OLDEST}
    assert len(kept) == 26
    assert validate(kept | {"message.format.version": "2.4"}, {}, OLDEST) is None


@pytest.mark.parametrize(
    ("text", "oldest", "is_known"),
    [
        ("2.8", (2, 8), True),
        ("2.8-IV1", (2, 8), True),
        ("0.10.0-IV1", (2, 4), True),
        ("3.0-IV0", (2, 8), False),
        ("3.5", (2, 8), False),
        ("3.5", (3, 4), False),
        ("3.5", (3, 5), True),
        ("4.0-IV1", (3, 8), False),
        ("4.0-IV1", (3, 9), True),
    ],
)
def test_brokers_do_not_know_message_formats_of_later_releases(
    text: str, oldest: Release, is_known: bool
) -> None:
    told = f"Invalid value {text} for configuration message.format.version: "
    told += f"Version {text} is not a valid version"
    assert validate({"message.format.version": text}, {}, oldest) == (None if is_known else told)


def test_of_several_bad_values_the_first_of_kafkas_order_is_told() -> None:
    overrides = {"retention.ms": "x", "segment.bytes": "y"}
    assert "segment.bytes" in str(validate(overrides, {}))


def test_the_brokers_settings_count_for_what_must_go_together() -> None:
    settings = {"log.cleaner.max.compaction.lag.ms": "1000"}
    assert validate({"min.compaction.lag.ms": "1001"}, settings) == (
        "conflict topic config setting min.compaction.lag.ms (1001) > max.compaction.lag.ms (1000)"
    )
    assert validate({"min.compaction.lag.ms": "1001"}, {}) is None


REMOTE = {"remote.storage.enable": "true"}


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({}, None),
        (
            {"cleanup.policy": "compact"},
            "Remote log storage is unsupported for the compacted topics",
        ),
        ({"local.retention.ms": "5", "retention.ms": "5"}, None),
        (
            {"local.retention.ms": "6", "retention.ms": "5"},
            "Invalid value 6 for configuration local.retention.ms: Value must not be more than "
            "retention.ms property value: 5",
        ),
        (
            {"local.retention.bytes": "-1", "retention.bytes": "5"},
            "Invalid value -1 for configuration local.retention.bytes: Value must not be -1 as "
            "retention.bytes value is set as 5.",
        ),
        ({"local.retention.bytes": "-1"}, None),
    ],
)
def test_remote_storage_where_the_brokers_have_it(
    overrides: dict[str, str], problem: str | None
) -> None:
    settings = {"remote.log.storage.system.enable": "true"}
    assert validate(overrides | REMOTE, settings) == problem


def test_a_value_is_the_topics_or_the_brokers_or_kafkas() -> None:
    settings = {"min.insync.replicas": "2"}
    assert told("min.insync.replicas", {"min.insync.replicas": " 3"}, settings) == ("3", OF_TOPIC)
    assert told("min.insync.replicas", {}, settings) == ("2", OF_BROKER)
    assert told("min.insync.replicas", {}, {}) == ("1", OF_KAFKA)
    assert len(effective({}, {})) == len(TOPIC_CONFIGS)


@pytest.mark.parametrize(
    ("settings", "value", "source"),
    [
        ({}, "604800000", OF_KAFKA),
        ({"log.retention.hours": "24"}, "86400000", OF_KAFKA),
        ({"log.retention.hours": "24", "log.retention.minutes": "2"}, "120000", OF_KAFKA),
        ({"log.retention.minutes": "2", "log.retention.ms": "7"}, "7", OF_BROKER),
        ({"log.retention.ms": "-5"}, "-1", OF_BROKER),
    ],
)
def test_the_finest_of_the_brokers_units_counts(
    settings: dict[str, str], value: str, source: int
) -> None:
    """Kafka names the broker as source for the first of the keys only."""
    assert told("retention.ms", {}, settings) == (value, source)


@pytest.mark.parametrize(
    ("protocol", "value"), [("2.6", "2.5-IV0"), ("3.0-IV1", "3.0-IV1"), (None, "3.0-IV1")]
)
def test_the_message_format_is_ignored_from_3_0_on(protocol: str | None, value: str) -> None:
    settings = {"log.message.format.version": "2.5"}
    if protocol:
        settings["inter.broker.protocol.version"] = protocol
    assert told("message.format.version", {}, settings) == (value, OF_BROKER)


REMOTE_STORAGE = {
    *("remote.storage.enable", "local.retention.ms", "local.retention.bytes"),
}
SINCE_3_6 = {"message.timestamp.before.max.ms", "message.timestamp.after.max.ms", *REMOTE_STORAGE}
SINCE_3_8 = {f"compression.{one}.level" for one in ("gzip", "lz4", "zstd")}
SINCE_3_9 = {"remote.log.copy.disable", "remote.log.delete.on.disable"}


@pytest.mark.parametrize(
    ("release", "untold"),
    [
        ((3, 9), set()),
        ((3, 8), SINCE_3_9),
        ((3, 6), SINCE_3_8 | SINCE_3_9),
        ((3, 5), SINCE_3_6 | SINCE_3_8 | SINCE_3_9),
        ((2, 4), SINCE_3_6 | SINCE_3_8 | SINCE_3_9),
    ],
)
def test_an_older_controller_tells_of_what_it_has(release: Release, untold: set[str]) -> None:
    names = {one.name for one in effective({}, {}, release)}
    assert names == {one.name for one in TOPIC_CONFIGS} - untold


@pytest.mark.parametrize(("release", "told"), [((3, 5), ["+5"]), ((3, 6), ["5"]), ((2, 8), [])])
def test_remote_storage_is_told_as_given_before_3_6(release: Release, told: list[str]) -> None:
    """Kafka kept these for itself, unless a topic has them."""
    entries = effective({"local.retention.ms": "+5"}, {}, release)
    assert [one.value for one in entries if one.name == "local.retention.ms"] == told


@pytest.mark.parametrize(
    ("release", "settings", "value"),
    [
        ((2, 8), {}, "2.8-IV1"),
        ((2, 4), {"inter.broker.protocol.version": "2.4"}, "2.4-IV1"),
        ((2, 8), {"inter.broker.protocol.version": "2.4"}, "2.8-IV1"),
        ((2, 8), {"log.message.format.version": "2.3"}, "2.3-IV1"),
        ((3, 0), {"inter.broker.protocol.version": "3.0"}, "3.0-IV1"),
    ],
)
def test_before_3_0_the_message_format_is_by_default_that_of_the_release(
    release: Release, settings: dict[str, str], value: str
) -> None:
    found = {one.name: one.value for one in effective({}, settings, release)}
    assert found["message.format.version"] == value


@pytest.mark.parametrize(
    ("release", "settings", "value"),
    [
        ((2, 4), {}, "1000012"),
        ((2, 5), {}, "1048588"),
        ((2, 4), {"message.max.bytes": "5"}, "5"),
    ],
)
def test_the_default_size_of_a_message_grew_with_2_5(
    release: Release, settings: dict[str, str], value: str
) -> None:
    found = {one.name: one.value for one in effective({}, settings, release)}
    assert found["max.message.bytes"] == value


def test_limits_of_timestamps_fall_back_to_the_older_one() -> None:
    settings = {
        "log.message.timestamp.difference.max.ms": "5",
        "log.message.timestamp.after.max.ms": "4",
    }
    assert told("message.timestamp.before.max.ms", {}, settings) == ("5", OF_KAFKA)
    assert told("message.timestamp.after.max.ms", {}, settings) == ("4", OF_BROKER)


def test_values_are_told_as_kafka_writes_them() -> None:
    overrides = {"min.cleanable.dirty.ratio": "0.0005", "cleanup.policy": "compact , delete"}
    assert told("min.cleanable.dirty.ratio", overrides, {})[0] == "5.0E-4"
    assert told("cleanup.policy", overrides, {})[0] == "compact,delete"


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        ("log.segment.bytes", "13", "Value must be at least 14"),
        ("log.retention.ms", "-5", None),
        ("log.retention.hours", "x", "Not a number of type LONG"),
        ("remote.log.storage.system.enable", "on", "Expected value to be either true or false"),
        ("inter.broker.protocol.version", "2.6", None),
    ],
)
def test_settings_of_a_broker_are_judged_as_it_does(
    key: str, text: str, problem: str | None
) -> None:
    assert key in BROKER_KEYS
    found = problem_with(key, text)
    assert found is None if problem is None else problem in str(found)
