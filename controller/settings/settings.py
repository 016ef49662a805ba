"""The settings of one run, merged from all sources and validated."""

import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct, structs

from controller.api.limits import EndpointLimits
from controller.brokers.security import BrokerSecurity
from controller.core.configuration import Configuration, QuotaWindow
from controller.core.topic_configs import (
    BROKER_KEYS,
    OF_BROKER,
    OF_KAFKA,
    ConfigEntry,
    default_of,
    problem_with,
)
from controller.core.values import Endpoint
from controller.security.errors import SecurityError
from controller.settings.connection_quotas import limits_of
from controller.settings.endpoint_security import (
    read_authorization,
    unsigned_tokens_warnings,
    with_endpoint,
)
from controller.settings.errors import SettingsError
from controller.settings.keys import is_known, is_used, kafka_keys
from controller.settings.parsing import Address, HostAndPort
from controller.settings.security import (
    LOGIN_KEYS,
    Security,
    broker_listeners,
    read_security,
    refused_plugins,
    tokens_warnings,
    zookeeper_security,
)
from controller.settings.setting import OWN, Setting
from controller.settings.sources import (
    RawSetting,
    effective_setting,
    from_environment,
    from_file,
    is_toml,
)
from controller.settings.table import (
    BY_KEY,
    CLASSES,
    REFUSED,
    SETTINGS,
    TOPIC_KEYS,
)
from controller.structured_log import MessageForm
from controller.suggestions import did_you_mean
from controller.zookeeper.connection import ZooKeeperSecurity
from controller.zookeeper.servers import ConnectString

_EVERY_INTERFACE: Final = ("0.0.0.0", "::")
_KAFKAS: Final = tuple(one.key for one in SETTINGS if one.key in kafka_keys())
_ZOOKEEPER: Final = "zookeeper.connect"
_LISTENER_KEYS: Final = (
    "inter.broker.listener.name",
    "security.inter.broker.protocol",
    "control.plane.listener.name",
    "listener.security.protocol.map",
)
_WAIT: Final = OWN + "wait.for.zookeeper"
_SIMILAR_KEY: Final = 0.8
_SIMILAR_VARIABLE: Final = 0.85
"""How similar a name must be to be suggested, up to 1."""
_OF_SERVICES: Final = ("INVOCATION_ID", "KUBERNETES_SERVICE_HOST")
"""The environment variables that systemd and Kubernetes set for their services."""


class Settings(Struct, frozen=True, kw_only=True):
    """The settings of `refold run` and `refold check`. Fields are named as their keys
    (table.py); times are in milliseconds. `config_entries`: the daemon's configuration, as
    DescribeConfigs returns it."""

    zookeeper: ConnectString
    security: Security
    session_timeout_ms: int
    connection_timeout_ms: int
    flight_requests_max: int
    broker_id: int
    rack: str | None
    listeners: tuple[Endpoint, ...]
    advertised_listeners: tuple[Endpoint, ...]
    inter_broker_protocol_version: str
    inter_broker_listener: str
    control_plane_listener: str | None
    socket_timeout_ms: int
    limits: EndpointLimits
    mutation_quotas: QuotaWindow
    unclean_leader_election_enable: bool
    num_partitions: int
    default_replication_factor: int
    broker_settings: dict[str, str]
    config_entries: tuple[ConfigEntry, ...]
    delete_topic_enable: bool
    auto_leader_rebalance_enable: bool
    kip_236_enable: bool
    leader_imbalance_per_broker_percentage: int
    leader_imbalance_check_interval_seconds: int
    take_over: bool
    own_controller_znode: Literal["replace", "wait"]
    standby: bool
    waits_for_zookeeper: bool
    registration_check_ms: int
    rules: Literal["refold", "kafka"]
    log_dir: Path
    segment_bytes: int
    retention_bytes: int | None
    retention_ms: int | None
    status_socket: Path | None
    metrics_address: HostAndPort | None
    mirror_servers: str | None
    mirror_topic: str
    mirror_client_config: Path | None
    messages: MessageForm
    messages_level: Literal["info", "warning", "error"]
    messages_per_minute: int | None

    def configuration(self) -> Configuration:
        """The settings that affect decisions. They are part of the log's header."""
        return Configuration(
            broker_id=self.broker_id,
            inter_broker_protocol_version=self.inter_broker_protocol_version,
            inter_broker_listener=self.inter_broker_listener,
            control_plane_listener=self.control_plane_listener,
            rules=self.rules,
            take_over=self.take_over,
            waits_for_own_znode=self.own_controller_znode == "wait",
            standby=self.standby,
            unclean_leader_election_enable=self.unclean_leader_election_enable,
            delete_topic_enable=self.delete_topic_enable,
            auto_leader_rebalance_enable=self.auto_leader_rebalance_enable,
            leader_imbalance_per_broker_percentage=self.leader_imbalance_per_broker_percentage,
            leader_imbalance_check_interval_seconds=self.leader_imbalance_check_interval_seconds,
            endpoints=self.advertised_listeners,
            rack=self.rack,
            num_partitions=self.num_partitions,
            default_replication_factor=self.default_replication_factor,
            broker_settings=self.broker_settings,
            kip_236_enable=self.kip_236_enable,
            registration_check_ms=self.registration_check_ms,
            authorization=self.security.authorization,
            mutation_quotas=self.mutation_quotas,
        )


class LoadedSettings(NamedTuple):
    """Valid settings, and warnings for the operator."""

    settings: Settings
    warnings: tuple[str, ...]


def load(
    flags: Sequence[RawSetting],
    environment: Mapping[str, str],
    config: Path | None,
    fallbacks: Sequence[RawSetting] = (),
) -> LoadedSettings:
    """Merge settings: flags take precedence over the environment, the file, the fallbacks and the
    defaults. Raises SettingsError with all problems, those of the authorizer first."""
    file = [*fallbacks, *(from_file(config) if config else ())]
    layers = [list(flags), list(from_environment(environment)), file]
    unknown = list(_unknown(file))
    is_strict = config is not None and is_toml(config)
    # The most important ones: without its authorizer, the endpoint would allow everything.
    first: list[str] = []
    authorization = read_authorization(file, first)
    problems = [*(unknown if is_strict else ()), *_refused_settings(file), *refused_plugins(file)]
    warnings = [
        *(() if is_strict else unknown),
        *_misspelt_variables(environment),
        *tokens_warnings(file),
    ]
    if config and not is_strict:
        layers[-1] = _without_a_brokers_address(layers)
    values = _values(layers, problems)
    if problems:
        raise SettingsError([*first, *problems])
    problems = first
    if values[_WAIT] is None:
        values[_WAIT] = any(one in environment for one in _OF_SERVICES)
    endpoints, advertised = _endpoints(values, problems)
    listener = _inter_broker_listener(values, problems)
    limits = limits_of(values, file, listener, problems)
    reached = dict.fromkeys([values["control.plane.listener.name"] or listener])
    security = read_security(file, values, reached, problems)._replace(authorization=authorization)
    security = with_endpoint(security, file, values, listener, problems)
    warnings += unsigned_tokens_warnings(security)
    topics = _broker_settings(layers, problems)
    if problems:
        raise SettingsError(problems)
    settings = _settings(
        values, endpoints, advertised, listener, limits, topics, _config_entries(layers), security
    )
    return LoadedSettings(settings, tuple(warnings))


class SettingSources(NamedTuple):
    """Where the settings of a process are. They can be read again while it runs."""

    flags: Sequence[RawSetting]
    environment: Mapping[str, str]
    config: Path | None

    def load(self) -> LoadedSettings:
        """The settings now. Raises SettingsError with all problems."""
        return load(self.flags, self.environment, self.config)

    def texts(self) -> dict[str, str]:
        """The text of each key that is set and that the daemon uses. Some are passwords: compare
        them, never print them. Raises SettingsError if the file cannot be read."""
        file = from_file(self.config) if self.config else []
        layers = [list(self.flags), list(from_environment(self.environment)), file]
        found = {one.key: one.text for one in file if is_used(one.key)}
        for key in BY_KEY:
            # With the prefix, a key of Kafka means the same setting.
            found.pop(OWN + key, None)
            if given := effective_setting(key, layers):
                found[key] = given.text
        return found


class ZooKeeperAccess(NamedTuple):
    """Where ZooKeeper is, and how sessions are secured."""

    connect: ConnectString
    security: ZooKeeperSecurity


class ClusterAccess(NamedTuple):
    """Where ZooKeeper is, and how ZooKeeper and the brokers are connected to."""

    zookeeper: ZooKeeperAccess
    brokers: BrokerSecurity


def access_of(
    flags: Sequence[RawSetting], environment: Mapping[str, str], config: Path | None
) -> ClusterAccess:
    """Read only the access to ZooKeeper, and to the brokers at the inter-broker listener. Raises
    SettingsError."""
    zookeeper = zookeeper_of(flags, environment, config)
    file = from_file(config) if config else []
    layers = [list(flags), list(from_environment(environment)), file]
    problems: list[str] = []
    values = {key: _value(BY_KEY[key], layers, problems) for key in (*LOGIN_KEYS, *_LISTENER_KEYS)}
    listener = "" if problems else _inter_broker_listener(values, problems)
    brokers = {} if problems else broker_listeners(file, values, [listener], problems)
    if problems:
        raise SettingsError(problems)
    return ClusterAccess(zookeeper, BrokerSecurity(brokers))


def zookeeper_of(
    flags: Sequence[RawSetting],
    environment: Mapping[str, str],
    config: Path | None,
    option: str = "--config",
) -> ZooKeeperAccess:
    """Read only the access to ZooKeeper, for commands that need no other setting. Raises
    SettingsError, which names the option that named the file `config`."""
    file = from_file(config, option) if config else []
    layers = [list(flags), list(from_environment(environment)), file]
    problems: list[str] = []
    values = {key: _value(BY_KEY[key], layers, problems) for key in (_ZOOKEEPER, *LOGIN_KEYS)}
    if problems:
        raise SettingsError(problems)
    try:
        return ZooKeeperAccess(values[_ZOOKEEPER], zookeeper_security(file, values))
    except SecurityError as error:
        raise SettingsError([str(error)]) from None


def _broker_settings(layers: list[list[RawSetting]], problems: list[str]) -> dict[str, str]:
    """The given settings that determine topic configurations."""
    *_, file = layers
    found = {one.key: one for one in file if one.text and one.key in TOPIC_KEYS}
    for one in found.values():
        if problem := problem_with(one.key, one.text):
            given = f"{one.key}={one.given} ({one.source})"
            problems.append(f"{given}: a broker would not start with it: {problem}")
    settings = {key: effective_setting(key, layers) for key in BROKER_KEYS if key in BY_KEY}
    return {key: one.text for key, one in (found | settings).items() if one}


def _config_entries(layers: list[list[RawSetting]]) -> tuple[ConfigEntry, ...]:
    """All settings with a Kafka key, with their source: set, or a default, which may differ from
    Kafka's. There are no passwords among them, because refold has none."""
    *_, file = layers
    settings = {
        key: _entry(key, effective_setting(key, layers), BY_KEY[key].default) for key in _KAFKAS
    }
    of_topics = {one.key: one for one in file if one.text and one.key in TOPIC_KEYS}
    topic_defaults = {key: _entry(key, of_topics.get(key), default_of(key)) for key in TOPIC_KEYS}
    return tuple(one for _, one in sorted((settings | topic_defaults).items()))


def _entry(key: str, given: RawSetting | None, default: str | None) -> ConfigEntry:
    if given is not None:
        return ConfigEntry(key, given.text, OF_BROKER)
    return ConfigEntry(key, default, OF_KAFKA)


def _unknown(file: list[RawSetting]) -> Iterator[str]:
    for key, _, source, _ in file:
        if not is_known(key):
            question = did_you_mean(key, [*BY_KEY, *sorted(kafka_keys())], 1, _SIMILAR_KEY)
            hint = f"; {question}" if question else ""
            yield f"{key} ({source}) is not a setting of refold or of a Kafka broker{hint}"


def _refused_settings(file: list[RawSetting]) -> list[str]:
    return [
        f"{key}={given.given} ({given.source}) is not allowed: {why}"
        for key, why in REFUSED.items()
        if (given := effective_setting(key, [file])) and given.text.lower() != "false"
    ] + [
        f"{key}= ({source}): a broker would not start with it: a class must have a name"
        for key, text, source, _ in {one.key: one for one in file}.values()
        if key in CLASSES and not text
    ]


def _without_a_brokers_address(layers: list[list[RawSetting]]) -> list[RawSetting]:
    """The file without advertised.listeners, if the daemon has separate listeners: it would
    advertise the broker's address."""
    *_, file = layers
    listeners = effective_setting("listeners", layers)
    if listeners is None or (listeners in file and listeners.key == "listeners"):
        return file
    return [one for one in file if one.key != "advertised.listeners"]


def _misspelt_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """Other programs may use variables that begin with REFOLD_, so only near misses are
    reported."""
    variables = [setting.variable for setting in SETTINGS]
    for name in sorted(environment):
        if name.startswith("REFOLD_") and name not in variables:
            question = did_you_mean(name, variables, 1, _SIMILAR_VARIABLE)
            if question:
                yield f"the environment variable {name} is unknown; {question}"


def _values(layers: list[list[RawSetting]], problems: list[str]) -> dict[str, Any]:
    """The value of every setting by its key."""
    return {one.key: _value(one, layers, problems) for one in SETTINGS}


def _value(setting: Setting, layers: list[list[RawSetting]], problems: list[str]) -> Any:
    """The value of a setting; None if it is unset or invalid."""
    given = effective_setting(setting.key, layers)
    text = given.text if given else setting.default
    if text is None:
        if setting.required:
            ways = f"{setting.flag}, {setting.variable} or a file with --config"
            problems.append(f"{setting.key} is not set: use {ways}")
        return None
    try:
        return setting.parse(text)
    except ValueError as error:
        shown, source = (given.given, given.source) if given else (text, "the default")
        problems.append(f"{setting.key}={shown} ({source}): must be {error}")
        return None


def _endpoints(
    values: Mapping[str, Any], problems: list[str]
) -> tuple[tuple[Endpoint, ...], tuple[Endpoint, ...]]:
    """Listeners and advertised listeners with their security protocols."""
    protocols: dict[str, str] = values["listener.security.protocol.map"]
    listeners: tuple[Address, ...] = values["listeners"]
    advertised: tuple[Address, ...] = values["advertised.listeners"] or listeners
    for one in (*listeners, *advertised):
        if one.listener not in protocols:
            problem = f"listener.security.protocol.map does not contain the listener {one.listener}"
            if problem not in problems:
                problems.append(problem)
    for one in advertised:
        if one.host in _EVERY_INTERFACE:
            problems.append(
                f"clients cannot connect to {one.host}: omit the host of listeners for every "
                "interface, or give advertised.listeners a host name"
            )
        if not one.port:
            problems.append(
                f"the port of the listener {one.listener} is 0 and cannot be advertised"
            )
    listening, reachable = (
        tuple(
            Endpoint(one.listener, protocols.get(one.listener, ""), one.host, one.port)
            for one in addresses
        )
        for addresses in (listeners, advertised)
    )
    return listening, tuple(_with_host(one) for one in reachable)


def _with_host(endpoint: Endpoint) -> Endpoint:
    """A listener on every interface is advertised with this machine's name, as in Kafka."""
    return endpoint if endpoint.host else structs.replace(endpoint, host=socket.getfqdn())


def _inter_broker_listener(values: Mapping[str, Any], problems: list[str]) -> str:
    """The name of the inter-broker listener (KB 12.1.6)."""
    name, protocol = values["inter.broker.listener.name"], values["security.inter.broker.protocol"]
    if name and protocol:
        problems.append(
            "inter.broker.listener.name and security.inter.broker.protocol are both "
            "set: remove one of them"
        )
    listener = name or protocol or "PLAINTEXT"
    if values["control.plane.listener.name"] == listener:
        problems.append(
            f"control.plane.listener.name={listener}: must not be the inter-broker listener"
        )
    return str(listener)


def _settings(
    values: Mapping[str, Any],
    listeners: tuple[Endpoint, ...],
    advertised: tuple[Endpoint, ...],
    inter_broker_listener: str,
    limits: EndpointLimits,
    broker_settings: dict[str, str],
    config_entries: tuple[ConfigEntry, ...],
    security: Security,
) -> Settings:
    session_timeout_ms = values["zookeeper.session.timeout.ms"]
    return Settings(
        zookeeper=values["zookeeper.connect"],
        security=security,
        session_timeout_ms=session_timeout_ms,
        connection_timeout_ms=values["zookeeper.connection.timeout.ms"] or session_timeout_ms,
        flight_requests_max=values["zookeeper.max.in.flight.requests"],
        broker_id=values["broker.id"],
        rack=values["broker.rack"],
        listeners=listeners,
        advertised_listeners=advertised,
        inter_broker_protocol_version=values["inter.broker.protocol.version"],
        inter_broker_listener=inter_broker_listener,
        control_plane_listener=values["control.plane.listener.name"],
        socket_timeout_ms=values["controller.socket.timeout.ms"],
        limits=limits,
        mutation_quotas=QuotaWindow(
            samples=values["controller.quota.window.num"],
            seconds=values["controller.quota.window.size.seconds"],
        ),
        unclean_leader_election_enable=values["unclean.leader.election.enable"],
        num_partitions=values["num.partitions"],
        default_replication_factor=values["default.replication.factor"],
        broker_settings=broker_settings,
        config_entries=config_entries,
        delete_topic_enable=values["delete.topic.enable"],
        auto_leader_rebalance_enable=values["auto.leader.rebalance.enable"],
        kip_236_enable=values["kip-236.enable"],
        leader_imbalance_per_broker_percentage=values["leader.imbalance.per.broker.percentage"],
        leader_imbalance_check_interval_seconds=values["leader.imbalance.check.interval.seconds"],
        take_over=values[OWN + "take.over"],
        own_controller_znode=values[OWN + "own.controller.znode"],
        standby=values[OWN + "standby"],
        waits_for_zookeeper=values[_WAIT],
        registration_check_ms=values[OWN + "registration.check.ms"] or 0,
        rules=values[OWN + "rules"],
        log_dir=values[OWN + "log.dir"],
        segment_bytes=values[OWN + "log.segment.bytes"],
        retention_bytes=values[OWN + "log.retention.bytes"],
        retention_ms=values[OWN + "log.retention.ms"],
        status_socket=values[OWN + "status.socket"],
        metrics_address=values[OWN + "metrics.address"],
        mirror_servers=values[OWN + "mirror.bootstrap.servers"],
        mirror_topic=values[OWN + "mirror.topic"],
        mirror_client_config=values[OWN + "mirror.client.config"],
        messages=values[OWN + "messages"],
        messages_level=values[OWN + "messages.level"],
        messages_per_minute=values[OWN + "messages.per.minute"],
    )
