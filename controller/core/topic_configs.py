"""The configurations of topics: Kafka 3.9's LogConfig, and their defaults by a broker's settings
(ServerTopicConfigSynonyms, KafkaConfig.extractLogConfigMap).

`broker_settings` are the settings in a broker's configuration, under Kafka's keys; only those of
`BROKER_KEYS` matter.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Final, NamedTuple

from controller.core.config_types import (
    LONG_MAX,
    Check,
    InvalidConfiguration,
    Parse,
    Value,
    anything,
    at_least,
    between,
    boolean,
    double,
    each_of,
    full_version,
    gzip_level,
    int32,
    int64,
    metadata_version,
    one_of,
    parse_value,
    string,
    string_list,
    throttled_replicas,
    to_text,
)
from controller.core.protocol_versions import LATEST, ProtocolVersion
from controller.core.releases import LATEST as LATEST_RELEASE
from controller.core.releases import OLDEST, Release

OF_TOPIC: Final = 1
OF_CLUSTER: Final = 3
OF_BROKER: Final = 4
OF_KAFKA: Final = 5
"""The source of a value (DescribeConfigsResponse.ConfigSource): the topic's configuration, the
cluster's dynamic default, a broker's file, Kafka's default."""

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"

_HOUR_MS: Final = 3_600_000
_UNITS_MS: Final = {
    "log.roll.hours": _HOUR_MS,
    "log.roll.jitter.hours": _HOUR_MS,
    "log.retention.minutes": 60_000,
    "log.retention.hours": _HOUR_MS,
}
"""The keys of a broker whose unit is not that of the topic's configuration."""
_PROTOCOL_KEY: Final = "inter.broker.protocol.version"
_REMOTE_STORAGE_KEY: Final = "remote.log.storage.system.enable"
_FORMAT: Final = "message.format.version"
_RETENTION: Final = "retention.ms"
_REMOTE: Final = "remote.storage.enable"
_DIFFERENCE_MAX: Final = "message.timestamp.difference.max.ms"
_BEFORE_MAX: Final = "message.timestamp.before.max.ms"
_AFTER_MAX: Final = "message.timestamp.after.max.ms"
_FORMAT_IGNORED_SINCE: Final = "3.0-IV1"
_LOCAL_RETENTION_ALONE_SINCE: Final[Release] = (3, 6)
"""Before, local.retention.* must fit retention.* even without remote storage: a broker that reads
another value fails."""
_REMOTE_RETURNED_SINCE: Final[Release] = (3, 6)
"""Before, Kafka returned these configurations only if a topic has them, and as they were given
(ConfigDef.defineInternal)."""
_FORMAT_FIXED_SINCE: Final[Release] = (3, 0)
"""Before, the default of message.format.version was the release itself."""
_MESSAGE_BYTES: Final = "max.message.bytes"
_MESSAGE_BYTES_OF_OLDEST: Final = 1_000_012
"""The default before Kafka 2.5 (KAFKA-4203)."""
_DERIVED: Final = -2
"""The value of local.retention.*: as retention.*."""

Values = dict[str, Value]


class TopicConfig(NamedTuple):
    """One configuration. If the topic does not set it, the first given of a broker's `keys` counts,
    else Kafka's `default`. Brokers know it from the release `since` on, and return it from
    `returned_since` on."""

    name: str
    parse: Parse
    default: str
    check: Check
    keys: tuple[str, ...] = ()
    since: Release = OLDEST
    returned_since: Release = OLDEST


class ConfigEntry(NamedTuple):
    """The value of a configuration and its source (`OF_TOPIC`, `OF_CLUSTER`, `OF_BROKER`,
    `OF_KAFKA`). A topic's always has a value."""

    name: str
    value: str | None
    source: int


def _throttle_config(name: str) -> TopicConfig:
    return TopicConfig(name, string_list, "", throttled_replicas)


def _level(name: str, default: str, check: Check) -> TopicConfig:
    return TopicConfig(name, int32, default, check, (name,), since=(3, 8))


def _timestamp_limit(name: str, key: str) -> TopicConfig:
    return TopicConfig(name, int64, str(LONG_MAX), at_least(0), (key,), since=(3, 6))


def _local_retention(name: str, key: str) -> TopicConfig:
    return TopicConfig(
        name,
        int64,
        str(_DERIVED),
        at_least(_DERIVED),
        (key,),
        (3, 0),
        _REMOTE_RETURNED_SINCE,
    )


_LONG_MAX: Final = str(LONG_MAX)

TOPIC_CONFIGS: Final = (
    TopicConfig("segment.bytes", int32, "1073741824", at_least(14), ("log.segment.bytes",)),
    TopicConfig("segment.ms", int64, "604800000", at_least(1), ("log.roll.ms", "log.roll.hours")),
    TopicConfig(
        "segment.jitter.ms",
        int64,
        "0",
        at_least(0),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ),
    TopicConfig(
        "segment.index.bytes", int32, "10485760", at_least(4), ("log.index.size.max.bytes",)
    ),
    TopicConfig("flush.messages", int64, _LONG_MAX, at_least(1), ("log.flush.interval.messages",)),
    TopicConfig(
        "flush.ms",
        int64,
        _LONG_MAX,
        at_least(0),
        ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ),
    TopicConfig("retention.bytes", int64, "-1", anything, ("log.retention.bytes",)),
    TopicConfig(
        "retention.ms",
        int64,
        "604800000",
        at_least(-1),
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ),
    TopicConfig(_MESSAGE_BYTES, int32, "1048588", at_least(0), ("message.max.bytes",)),
    TopicConfig("index.interval.bytes", int32, "4096", at_least(0), ("log.index.interval.bytes",)),
    TopicConfig(
        "delete.retention.ms", int64, "86400000", at_least(0), ("log.cleaner.delete.retention.ms",)
    ),
    TopicConfig(
        "min.compaction.lag.ms", int64, "0", at_least(0), ("log.cleaner.min.compaction.lag.ms",)
    ),
    TopicConfig(
        "max.compaction.lag.ms",
        int64,
        _LONG_MAX,
        at_least(1),
        ("log.cleaner.max.compaction.lag.ms",),
    ),
    TopicConfig(
        "file.delete.delay.ms", int64, "60000", at_least(0), ("log.segment.delete.delay.ms",)
    ),
    TopicConfig(
        "min.cleanable.dirty.ratio",
        double,
        "0.5",
        between(0, 1),
        ("log.cleaner.min.cleanable.ratio",),
    ),
    TopicConfig(
        "cleanup.policy",
        string_list,
        "delete",
        each_of("compact", "delete"),
        ("log.cleanup.policy",),
    ),
    TopicConfig(
        UNCLEAN,
        boolean,
        "false",
        anything,
        (UNCLEAN,),
    ),
    TopicConfig(MIN_INSYNC_REPLICAS, int32, "1", at_least(1), (MIN_INSYNC_REPLICAS,)),
    TopicConfig(
        "compression.type",
        string,
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        ("compression.type",),
    ),
    _level("compression.gzip.level", "-1", gzip_level),
    _level("compression.lz4.level", "9", between(1, 17)),
    _level("compression.zstd.level", "3", between(-131072, 22)),
    TopicConfig("preallocate", boolean, "false", anything, ("log.preallocate",)),
    TopicConfig(
        _FORMAT,
        string,
        "3.0-IV1",
        metadata_version(LATEST_RELEASE),
        ("log.message.format.version",),
    ),
    TopicConfig(
        "message.timestamp.type",
        string,
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        ("log.message.timestamp.type",),
    ),
    TopicConfig(
        _DIFFERENCE_MAX,
        int64,
        _LONG_MAX,
        at_least(0),
        ("log.message.timestamp.difference.max.ms",),
    ),
    _timestamp_limit(_BEFORE_MAX, "log.message.timestamp.before.max.ms"),
    _timestamp_limit(_AFTER_MAX, "log.message.timestamp.after.max.ms"),
    _throttle_config("leader.replication.throttled.replicas"),
    _throttle_config("follower.replication.throttled.replicas"),
    TopicConfig(
        "message.downconversion.enable",
        boolean,
        "true",
        anything,
        ("log.message.downconversion.enable",),
    ),
    TopicConfig(
        _REMOTE,
        boolean,
        "false",
        anything,
        since=(3, 0),
        returned_since=_REMOTE_RETURNED_SINCE,
    ),
    _local_retention("local.retention.ms", "log.local.retention.ms"),
    _local_retention("local.retention.bytes", "log.local.retention.bytes"),
    TopicConfig("remote.log.copy.disable", boolean, "false", anything, since=(3, 9)),
    TopicConfig("remote.log.delete.on.disable", boolean, "false", anything, since=(3, 9)),
)
"""In the order of Kafka's checks: of several bad values the first is reported."""

_BY_NAME: Final = {one.name: one for one in TOPIC_CONFIGS}
_BY_KEY: Final = {key: one for one in TOPIC_CONFIGS for key in one.keys}

BROKER_KEYS: Final = (*_BY_KEY, _PROTOCOL_KEY, _REMOTE_STORAGE_KEY)
"""The settings of a broker that are defaults of topic configurations."""


def problem_with(key: str, text: str) -> str | None:
    """The error that a broker reports for a setting, one of `BROKER_KEYS`; None for a valid one."""
    try:
        if key == _REMOTE_STORAGE_KEY:
            parse_value(key, text, boolean, anything)
        elif key in _BY_KEY:
            config = _BY_KEY[key]
            parse_value(
                key, text, config.parse, anything if config.name == _RETENTION else config.check
            )
    except InvalidConfiguration as problem:
        return str(problem)
    return None


def least_in_sync(settings: Iterable[str | None]) -> int:
    """The first valid min.insync.replicas, else Kafka's default; invalid values are ignored."""
    config = _BY_NAME[MIN_INSYNC_REPLICAS]
    for text in settings:
        if text is not None:
            with suppress(InvalidConfiguration):
                return int(to_text(parse_value(config.name, text, config.parse, config.check)))
    return int(config.default)


def is_true(setting: str | None) -> bool:
    """Whether a setting is "true", as Kafka reads a boolean."""
    return setting is not None and setting.strip().lower() == "true"


def default_of(key: str) -> str | None:
    """The value of a broker's setting, one of `BROKER_KEYS`, that is not given. Of several keys for
    the same setting the last one has the default."""
    if key == _PROTOCOL_KEY:
        return LATEST
    if key == _REMOTE_STORAGE_KEY:
        return "false"
    config = _BY_KEY[key]
    if key != config.keys[-1]:
        return None
    return str(int(config.default) // _UNITS_MS[key]) if key in _UNITS_MS else config.default


def validate(
    overrides: Mapping[str, str],
    broker_settings: Mapping[str, str],
    oldest: Release = LATEST_RELEASE,
) -> str | None:
    """Kafka's error message for a topic's configuration, or None (LogConfig.validate). A
    configuration that brokers of the release `oldest` cannot read is also an error.
    """
    known = {one.name for one in TOPIC_CONFIGS if one.since <= oldest}
    unknown = [name for name in overrides if name not in known]
    if unknown:
        return f"Unknown topic config name: {unknown[0]}"
    values = _defaults(broker_settings)
    try:
        for config in TOPIC_CONFIGS:
            if config.name in overrides:
                text = overrides[config.name]
                check = metadata_version(oldest) if config.name == _FORMAT else config.check
                values[config.name] = parse_value(config.name, text, config.parse, check)
        _check_together(values, broker_settings)
        if oldest < _LOCAL_RETENTION_ALONE_SINCE:
            _check_local_retention_of_old(values)
    except InvalidConfiguration as problem:
        return str(problem)
    return None


def effective_configs(
    overrides: Mapping[str, str],
    broker_settings: Mapping[str, str],
    release: Release = LATEST_RELEASE,
) -> tuple[ConfigEntry, ...]:
    """The whole configuration of a topic with valid `overrides`, as a controller of that release
    returns it in the response to CreateTopics (ConfigHelper.createTopicConfigEntry)."""
    values = _defaults(broker_settings) | _defaults_of_old(release, broker_settings)
    entries = []
    for one in TOPIC_CONFIGS:
        if max(one.since, one.returned_since) <= release:
            entries.append(_entry(one, overrides, broker_settings, values[one.name]))
        elif one.since <= release and one.name in overrides:
            entries.append(ConfigEntry(one.name, overrides[one.name], OF_TOPIC))
    return tuple(entries)


def _defaults_of_old(release: Release, broker_settings: Mapping[str, str]) -> Values:
    """The defaults of an older release that differ from 3.9's."""
    old: Values = {}
    if release < _FORMAT_FIXED_SINCE:
        name = ".".join(map(str, release))
        given = broker_settings.get(_BY_NAME[_FORMAT].keys[0], name)
        old[_FORMAT] = full_version(given) or given
    if release == OLDEST and _BY_NAME[_MESSAGE_BYTES].keys[0] not in broker_settings:
        old[_MESSAGE_BYTES] = _MESSAGE_BYTES_OF_OLDEST
    return old


def _entry(
    config: TopicConfig,
    overrides: Mapping[str, str],
    broker_settings: Mapping[str, str],
    default: Value,
) -> ConfigEntry:
    if config.name in overrides:
        value = parse_value(config.name, overrides[config.name], config.parse, config.check)
        return ConfigEntry(config.name, to_text(value), OF_TOPIC)
    # A later key determines the value, but for Kafka it counts as not set.
    is_set = bool(config.keys) and config.keys[0] in broker_settings
    return ConfigEntry(config.name, to_text(default), OF_BROKER if is_set else OF_KAFKA)


def _defaults(broker_settings: Mapping[str, str]) -> Values:
    """The configuration of a topic without overrides (KafkaConfig.extractLogConfigMap)."""
    return dict(_defaults_by(tuple(broker_settings.items())))


@lru_cache(maxsize=1)
def _defaults_by(settings: tuple[tuple[str, str], ...]) -> Values:
    """The defaults, cached: one daemon has one set of broker settings, and a request many
    topics."""
    broker_settings = dict(settings)
    values = {one.name: _default(one, broker_settings) for one in TOPIC_CONFIGS}
    values[_RETENTION] = max(_number(values, _RETENTION), -1)
    protocol = ProtocolVersion(broker_settings.get(_PROTOCOL_KEY, LATEST))
    if protocol.at_least(_FORMAT_IGNORED_SINCE):
        values[_FORMAT] = _BY_NAME[_FORMAT].default
    else:
        values[_FORMAT] = full_version(str(values[_FORMAT])) or values[_FORMAT]
    for name in (_BEFORE_MAX, _AFTER_MAX):
        if values[name] == LONG_MAX:
            values[name] = values[_DIFFERENCE_MAX]
    return values


def _default(config: TopicConfig, broker_settings: Mapping[str, str]) -> Value:
    for key in config.keys:
        if key in broker_settings:
            value = parse_value(key, broker_settings[key], config.parse, anything)
            return value * _UNITS_MS[key] if key in _UNITS_MS else value
    return config.parse(config.default)


# Checks of several configurations ---------------------------------------------------------------


def _check_together(values: Values, broker_settings: Mapping[str, str]) -> None:
    """LogConfig.validateTopicLogConfigValues for ZooKeeper mode. Raises `InvalidConfiguration`."""
    least, most = _number(values, "min.compaction.lag.ms"), _number(values, "max.compaction.lag.ms")
    if least > most:
        raise InvalidConfiguration(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > "
            f"max.compaction.lag.ms ({most})"
        )
    if values["remote.log.delete.on.disable"] or values["remote.log.copy.disable"]:
        raise InvalidConfiguration(
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` "
            "under Zookeeper's mode."
        )
    if values[_REMOTE]:
        _check_remote(values, broker_settings)


def _check_remote(values: Values, broker_settings: Mapping[str, str]) -> None:
    if not boolean(broker_settings.get(_REMOTE_STORAGE_KEY, "false")):
        raise InvalidConfiguration(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    if "compact" in to_text(values["cleanup.policy"]):
        raise InvalidConfiguration("Remote log storage is unsupported for the compacted topics")
    _check_local_retention(
        values, "retention.bytes", has_limit=_number(values, "retention.bytes") > -1
    )
    _check_local_retention(values, _RETENTION, has_limit=values[_RETENTION] != -1)


def _check_local_retention_of_old(values: Values) -> None:
    """LogConfig.RemoteLogConfig of 3.0 to 3.5: an unlimited retention is less than any local
    one."""
    for name in ("retention.bytes", _RETENTION):
        whole, local = _number(values, name), _number(values, f"local.{name}")
        _check_local_retention(values, name, has_limit=(whole, local) != (-1, -1))


def _check_local_retention(values: Values, name: str, *, has_limit: bool) -> None:
    whole, local = _number(values, name), _number(values, f"local.{name}")
    if not has_limit or local == _DERIVED:
        return
    if local == -1:
        why = f"Value must not be -1 as {name} value is set as {whole}."
        raise InvalidConfiguration.of_value(f"local.{name}", local, why)
    if local > whole:
        why = f"Value must not be more than {name} property value: {whole}"
        raise InvalidConfiguration.of_value(f"local.{name}", local, why)


def _number(values: Values, name: str) -> int:
    value = values[name]
    assert isinstance(value, int), "it is parsed as one"
    return value
