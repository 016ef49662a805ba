"""Configurations of topics, validated and described as by Kafka 3.9.

tests/controller/api/test_real_admin_responses.py sends the same requests to a stock controller, for
every configuration.
"""

import pytest

from controller.core.releases import OLDEST, Release
from controller.core.topic_configs import (
    BROKER_KEYS,
    OF_BROKER,
    OF_KAFKA,
    OF_TOPIC,
    TOPIC_CONFIGS,
    default_of,
    effective_configs,
    least_in_sync,
    problem_with,
    validate,
)
from tests.controller.core.offered_versions import OFFERED

RELEASES = list(OFFERED)
REPLICAS = "leader.replication.throttled.replicas"
ZOOKEEPER_MODE = (
    "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under "
    "Zookeeper's mode."
)


def described(name: str, overrides: dict[str, str], settings: dict[str, str]) -> tuple[str, int]:
    """Value and source."""
    found = {one.name: (one.value, one.source) for one in effective_configs(overrides, settings)}
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
            "segment.bytes",
            "1_000",
            "Invalid value 1_000 for configuration {}: Not a number of type INT",
        ),
        (
            "retention.bytes",
            "9223372036854775808",
            "Invalid value 9223372036854775808 for configuration {}: Not a number of type LONG",
        ),
        (
            "retention.bytes",
            "-9223372036854775809",
            "Invalid value -9223372036854775809 for configuration {}: Not a number of type LONG",
        ),
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
            "compression.gzip.level",
            "10",
            "Invalid value 10 for configuration {}: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "min.cleanable.dirty.ratio",
            "1e7",
            "Invalid value 1.0E7 for configuration {}: Value must be no more than 1",
        ),
        (
            "min.cleanable.dirty.ratio",
            "Infinity",
            "Invalid value Infinity for configuration {}: Value must be no more than 1",
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
def test_errors_have_kafkas_text(name: str, text: str, problem: str) -> None:
    assert validate({name: text}, {}) == problem.replace("{}", name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("segment.bytes", " +14 "),
        ("retention.bytes", "-9223372036854775808"),
        ("message.timestamp.before.max.ms", "0"),
        ("compression.gzip.level", "-1"),
        ("compression.gzip.level", "1"),
        ("compression.gzip.level", "9"),
        ("min.cleanable.dirty.ratio", "5e-1d"),
        ("min.cleanable.dirty.ratio", "NaN"),
        ("preallocate", "TRUE"),
        ("cleanup.policy", "compact , delete"),
        ("cleanup.policy", ""),
        ("message.format.version", "0.10.0"),
        ("message.format.version", "0.10.0.1"),
        ("message.format.version", "2.8.1"),
        (REPLICAS, "*"),
        (REPLICAS, "0:1,,2:3"),
    ],
)
def test_values_that_kafka_accepts_are_accepted(name: str, text: str) -> None:
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
def test_configuration_is_unknown_to_brokers_of_an_earlier_release(
    name: str, since: Release
) -> None:
    default = next(one.default for one in TOPIC_CONFIGS if one.name == name)
    earlier = RELEASES[RELEASES.index(since) - 1]
    assert validate({name: default}, {}, earlier) == f"Unknown topic config name: {name}"
    assert validate({name: default}, {}, since) is None


def test_local_retention_without_remote_storage_is_validated_from_3_0_to_3_5() -> None:
    """LogConfig.RemoteLogConfig of these releases reads it with every topic."""
    problem = (
        "Invalid value -1 for configuration local.retention.ms: "
        "Value must not be -1 as retention.ms value is set as 5."
    )
    overrides = {"retention.ms": "5", "local.retention.ms": "-1"}
    assert validate(overrides, {}, (3, 5)) == problem
    assert validate(overrides, {}, (3, 6)) is None
    assert "not be more than" in str(validate({"local.retention.bytes": "5"}, {}, (3, 5)))
    assert validate({"local.retention.bytes": "-1"}, {}, (3, 5)) is None
    assert validate({"retention.bytes": "-5"}, {}, (3, 5)) is None


def test_remaining_configurations_are_known_to_brokers_of_2_4() -> None:
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
        ("4.0", (3, 9), False),
    ],
)
def test_message_formats_of_later_releases_are_unknown_to_brokers(
    text: str, oldest: Release, is_known: bool
) -> None:
    described = f"Invalid value {text} for configuration message.format.version: "
    described += f"Version {text} is not a valid version"
    assert validate({"message.format.version": text}, {}, oldest) == (
        None if is_known else described
    )


def test_first_of_several_errors_in_kafkas_order_is_reported() -> None:
    overrides = {"retention.ms": "x", "segment.bytes": "y"}
    assert "segment.bytes" in str(validate(overrides, {}))


def test_brokers_settings_are_used_in_checks_of_two_settings() -> None:
    settings = {"log.cleaner.max.compaction.lag.ms": "1000"}
    assert validate({"min.compaction.lag.ms": "1001"}, settings) == (
        "conflict topic config setting min.compaction.lag.ms (1001) > max.compaction.lag.ms (1000)"
    )
    assert validate({"min.compaction.lag.ms": "1000"}, settings) is None
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
        (
            {
                "local.retention.ms": "6",
                "retention.ms": "5",
                "local.retention.bytes": "6",
                "retention.bytes": "5",
            },
            "Invalid value 6 for configuration local.retention.bytes: Value must not be more than "
            "retention.bytes property value: 5",
        ),
        ({"local.retention.bytes": "-1"}, None),
        ({"local.retention.ms": "5", "retention.ms": "-1"}, None),
    ],
)
def test_remote_storage_enabled_on_brokers_is_validated(
    overrides: dict[str, str], problem: str | None
) -> None:
    settings = {"remote.log.storage.system.enable": "true"}
    assert validate(overrides | REMOTE, settings) == problem


def test_value_is_that_of_the_topic_else_of_the_broker_else_kafkas_default() -> None:
    settings = {"min.insync.replicas": "2"}
    assert described("min.insync.replicas", {"min.insync.replicas": " 3"}, settings) == (
        "3",
        OF_TOPIC,
    )
    assert described("min.insync.replicas", {}, settings) == ("2", OF_BROKER)
    assert described("min.insync.replicas", {}, {}) == ("1", OF_KAFKA)
    assert len(effective_configs({}, {})) == len(TOPIC_CONFIGS)


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
def test_brokers_setting_in_the_finest_unit_is_used(
    settings: dict[str, str], value: str, source: int
) -> None:
    """Kafka names the broker as source only for the first of the keys."""
    assert described("retention.ms", {}, settings) == (value, source)


@pytest.mark.parametrize(
    ("protocol", "value"), [("2.6", "2.5-IV0"), ("3.0-IV1", "3.0-IV1"), (None, "3.0-IV1")]
)
def test_message_format_is_ignored_from_3_0_on(protocol: str | None, value: str) -> None:
    settings = {"log.message.format.version": "2.5"}
    if protocol:
        settings["inter.broker.protocol.version"] = protocol
    assert described("message.format.version", {}, settings) == (value, OF_BROKER)


REMOTE_STORAGE = {
    *("remote.storage.enable", "local.retention.ms", "local.retention.bytes"),
}
SINCE_3_6 = {"message.timestamp.before.max.ms", "message.timestamp.after.max.ms", *REMOTE_STORAGE}
SINCE_3_8 = {f"compression.{one}.level" for one in ("gzip", "lz4", "zstd")}
SINCE_3_9 = {"remote.log.copy.disable", "remote.log.delete.on.disable"}


@pytest.mark.parametrize(
    ("release", "undescribed"),
    [
        ((3, 9), set()),
        ((3, 8), SINCE_3_9),
        ((3, 6), SINCE_3_8 | SINCE_3_9),
        ((3, 5), SINCE_3_6 | SINCE_3_8 | SINCE_3_9),
        ((2, 4), SINCE_3_6 | SINCE_3_8 | SINCE_3_9),
    ],
)
def test_older_controller_describes_only_known_configurations(
    release: Release, undescribed: set[str]
) -> None:
    names = {one.name for one in effective_configs({}, {}, release)}
    assert names == {one.name for one in TOPIC_CONFIGS} - undescribed


@pytest.mark.parametrize(
    ("release", "values"), [((3, 0), ["+5"]), ((3, 5), ["+5"]), ((3, 6), ["5"]), ((2, 8), [])]
)
def test_remote_storage_is_described_if_given_before_3_6(
    release: Release, values: list[str]
) -> None:
    """Kafka does not describe these configurations, unless a topic has them."""
    entries = effective_configs({"local.retention.ms": "+5"}, {}, release)
    assert [one.value for one in entries if one.name == "local.retention.ms"] == values


@pytest.mark.parametrize(
    ("release", "settings", "value"),
    [
        ((2, 8), {}, "2.8-IV1"),
        ((2, 4), {"inter.broker.protocol.version": "2.4"}, "2.4-IV1"),
        ((2, 8), {"inter.broker.protocol.version": "2.4"}, "2.8-IV1"),
        ((2, 8), {"log.message.format.version": "2.3"}, "2.3-IV1"),
        ((3, 0), {"inter.broker.protocol.version": "3.0"}, "3.0-IV1"),
        ((3, 0), {"log.message.format.version": "2.3"}, "3.0-IV1"),
    ],
)
def test_before_3_0_the_default_message_format_is_that_of_the_release(
    release: Release, settings: dict[str, str], value: str
) -> None:
    found = {one.name: one.value for one in effective_configs({}, settings, release)}
    assert found["message.format.version"] == value


@pytest.mark.parametrize(
    ("release", "settings", "value"),
    [
        ((2, 4), {}, "1000012"),
        ((2, 5), {}, "1048588"),
        ((2, 4), {"message.max.bytes": "5"}, "5"),
    ],
)
def test_default_maximum_message_size_changed_with_2_5(
    release: Release, settings: dict[str, str], value: str
) -> None:
    found = {one.name: one.value for one in effective_configs({}, settings, release)}
    assert found["max.message.bytes"] == value


def test_timestamp_limits_default_to_the_older_configuration() -> None:
    settings = {
        "log.message.timestamp.difference.max.ms": "5",
        "log.message.timestamp.after.max.ms": "4",
    }
    assert described("message.timestamp.before.max.ms", {}, settings) == ("5", OF_KAFKA)
    assert described("message.timestamp.after.max.ms", {}, settings) == ("4", OF_BROKER)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("min.cleanable.dirty.ratio", "0", "0.0"),
        ("min.cleanable.dirty.ratio", "0.0005", "5.0E-4"),
        ("min.cleanable.dirty.ratio", "0.001", "0.001"),
        ("min.cleanable.dirty.ratio", ".5", "0.5"),
        ("min.cleanable.dirty.ratio", "NaN", "NaN"),
        ("cleanup.policy", "compact , delete", "compact,delete"),
        ("preallocate", "TRUE", "true"),
        ("preallocate", "False", "false"),
    ],
)
def test_values_are_written_as_by_kafka(name: str, text: str, value: str) -> None:
    assert described(name, {name: text}, {})[0] == value


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
def test_settings_of_a_broker_are_validated_as_by_the_broker(
    key: str, text: str, problem: str | None
) -> None:
    assert key in BROKER_KEYS
    found = problem_with(key, text)
    assert found is None if problem is None else problem in str(found)


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("log.segment.bytes", "1073741824"),
        ("log.retention.ms", None),
        ("log.retention.minutes", None),
        ("log.retention.hours", "168"),
        ("log.roll.jitter.hours", "0"),
        ("inter.broker.protocol.version", "3.9-IV0"),
        ("remote.log.storage.system.enable", "false"),
    ],
)
def test_default_of_a_setting_is_that_of_its_last_key_in_its_unit(
    key: str, default: str | None
) -> None:
    assert default_of(key) == default


@pytest.mark.parametrize(
    ("settings", "least"),
    [
        ([" 3 ", "2"], 3),
        ([None, "2"], 2),
        (["many", "2"], 2),
        (["0", "2"], 2),
        (["-1", "2"], 2),
        (["+3", "2"], 3),
        (["\u00b2", "2"], 2),
        (["\u0663", "2"], 3),
        (["2147483647"], 2147483647),
        (["2147483648", "2"], 2),
        ([None], 1),
    ],
)
def test_first_valid_min_insync_replicas_counts(settings: list[str | None], least: int) -> None:
    assert least_in_sync(settings) == least
