"""Rules about the settings and releases of running brokers."""

from collections.abc import Callable, Iterator
from typing import Final

from controller.core.errors import ConfigurationError
from controller.core.protocol_versions import ProtocolVersion
from controller.core.releases import LATEST, Release, release_named
from replay.migration.findings import (
    MigratingBroker,
    MigratingCluster,
    MigrationFinding,
    brokers_named,
)

ENABLED: Final = "zookeeper.metadata.migration.enable"
PROTOCOL: Final = "inter.broker.protocol.version"
_VOTERS: Final = "controller.quorum.voters"
_BOOTSTRAP: Final = "controller.quorum.bootstrap.servers"
_CONTROL_PLANE: Final = "control.plane.listener.name"
_GENERATES_ID: Final = "broker.id.generation.enable"
_RESERVED_ID: Final = "reserved.broker.max.id"
_LOG_DIRS: Final = "log.dirs"

KEYS: Final = (
    ENABLED,
    PROTOCOL,
    _VOTERS,
    _BOOTSTRAP,
    _CONTROL_PLANE,
    _GENERATES_ID,
    _RESERVED_ID,
    _LOG_DIRS,
)
"""The settings of brokers that the rules judge."""

_FIRST_WITH_MIGRATION: Final[Release] = (3, 4)
_BEGINS_SINCE: Final = "3.6-IV1"
"""A KRaft controller begins a migration only with transactions of metadata
(MetadataVersion.isMetadataTransactionSupported)."""
_LOG_DIRS_SINCE: Final = "3.7-IV2"
"""A broker in migration mode may have several log directories (KafkaConfig.validateValues)."""


def check_answers(subject: MigratingCluster) -> Iterator[MigrationFinding]:
    """The settings of all brokers are known."""
    if subject.brokers is None:
        text = "the brokers' settings and releases are unknown: they are only in running brokers"
        advice = "run refold check --migration --zookeeper HOST:PORT,.../CHROOT"
        yield MigrationFinding(check="settings", level="warning", text=text, advice=advice)
    for one in subject.brokers or ():
        if one.fault:
            text = f"settings and release are unknown: {one.fault}"
            advice = f"compare {ENABLED} and {PROTOCOL} with those of the other brokers"
            where = brokers_named([one.broker])
            yield MigrationFinding(
                check="settings", level="warning", text=text, where=where, advice=advice
            )


def check_mode(subject: MigratingCluster) -> Iterator[MigrationFinding]:
    """All brokers are in migration mode, or none is, as /controller and /migration need it."""
    able = [one for one in subject.answering if one.release >= _FIRST_WITH_MIGRATION]
    on = [one.broker for one in able if _is_on(one, ENABLED)]
    off = [one.broker for one in subject.answering if one.broker not in on]
    if on and off:
        text = f"only a part of the brokers has {ENABLED}: a KRaft controller waits for the others"
        advice = "to migrate, set it on these brokers; after a rollback, remove it from the others"
        where = brokers_named(off)
        yield MigrationFinding(
            check="settings", level="warning", text=text, where=where, advice=advice
        )
    elif on and not subject.is_kraft:
        text = f"all brokers have {ENABLED}, and no KRaft controller has the role"
        advice = (
            "to migrate, start the KRaft controllers; after a rollback, remove it and the "
            "controller.* settings, and restart the brokers one by one"
        )
        where = brokers_named(on)
        yield MigrationFinding(
            check="settings", level="warning", text=text, where=where, advice=advice
        )
    elif off and subject.is_kraft:
        text = f"a KRaft controller has the role, and no broker has {ENABLED}"
        advice = "stop the KRaft controllers and delete /controller: a broker takes the role"
        where = brokers_named(off)
        yield MigrationFinding(
            check="settings", level="error", text=text, where=where, advice=advice
        )
    elif on or off:
        text = f"all brokers have {ENABLED}" if on else f"no broker has {ENABLED}"
        yield MigrationFinding(check="settings", level="ok", text=text)


def check_quorum(subject: MigratingCluster) -> Iterator[MigrationFinding]:
    """All brokers name the same KRaft controllers, whose ids are no broker's."""
    for key in (_VOTERS, _BOOTSTRAP):
        named = {one.settings[key] for one in subject.answering if key in one.settings}
        if len(named) > 1:
            having = [one.broker for one in subject.answering if key in one.settings]
            text = f"the brokers have different {key}: {' and '.join(sorted(named))}"
            advice = "give all brokers the same value, and restart them"
            where = brokers_named(having)
            yield MigrationFinding(
                check="settings", level="error", text=text, where=where, advice=advice
            )
    ids = {one.id for one in subject.cluster.brokers}
    voters = {
        voter
        for one in subject.answering
        for voter in _voter_ids(one.settings.get(_VOTERS, ""))
        if voter in ids
    }
    if voters:
        text = "a KRaft controller has the id of a broker: brokers and controllers share the ids"
        where = brokers_named(sorted(voters))
        advice = f"give the KRaft controllers other ids, in node.id and in {_VOTERS}"
        yield MigrationFinding(
            check="settings", level="error", text=text, where=where, advice=advice
        )


def check_obstacles(subject: MigratingCluster) -> Iterator[MigrationFinding]:
    """No setting keeps a broker from entering migration mode or, later, KRaft mode
    (KafkaConfig.validateValues)."""
    generated = _brokers_with(subject, _has_generated_id)
    if generated:
        text = f"the broker id is above {_RESERVED_ID}: a broker in migration mode does not start"
        advice = f"set broker.id and a {_RESERVED_ID} that is not below it"
        where = brokers_named(generated)
        yield MigrationFinding(
            check="settings", level="error", text=text, where=where, advice=advice
        )
    several = _brokers_with(subject, _has_too_many_log_dirs)
    if several:
        text = (
            f"several log directories need {PROTOCOL} {_LOG_DIRS_SINCE} or later: a broker in "
            "migration mode does not start"
        )
        advice = f"raise {PROTOCOL} first"
        where = brokers_named(several)
        yield MigrationFinding(
            check="settings", level="error", text=text, where=where, advice=advice
        )
    control_plane = _brokers_with(subject, lambda one: _CONTROL_PLANE in one.settings)
    if control_plane:
        text = f"{_CONTROL_PLANE} is set, which a broker in KRaft mode does not accept"
        advice = "remove it before process.roles=broker is set"
        where = brokers_named(control_plane)
        yield MigrationFinding(
            check="settings", level="warning", text=text, where=where, advice=advice
        )


def check_releases(subject: MigratingCluster) -> Iterator[MigrationFinding]:
    """All brokers run one release, the last one with ZooKeeper."""
    releases = {one.broker: one.release for one in subject.answering}
    if not releases:
        return
    lowest, highest = min(releases.values()), max(releases.values())
    where = brokers_named([one for one, release in releases.items() if release == lowest])
    advice = f"upgrade all brokers to Kafka {_spelt(LATEST)}, for which the migration is documented"
    if lowest < _FIRST_WITH_MIGRATION:
        text = f"brokers run Kafka {_spelt(lowest)}, which cannot migrate"
        yield MigrationFinding(
            check="release", level="error", text=text, where=where, advice=advice
        )
    elif lowest != highest:
        text = f"brokers run Kafka {_spelt(lowest)}, others {_spelt(highest)}"
        yield MigrationFinding(
            check="release", level="error", text=text, where=where, advice=advice
        )
    elif lowest < LATEST:
        text = f"all brokers run Kafka {_spelt(lowest)}"
        yield MigrationFinding(
            check="release", level="warning", text=text, where=where, advice=advice
        )
    else:
        yield MigrationFinding(
            check="release", level="ok", text=f"all brokers run Kafka {_spelt(lowest)}"
        )


def check_protocol(subject: MigratingCluster) -> Iterator[MigrationFinding]:
    """All brokers have one inter.broker.protocol.version, that of their release.

    The KRaft controllers have one metadata.version, and refuse brokers in migration mode whose
    inter.broker.protocol.version is another (KafkaServer, ClusterControlManager).
    """
    versions = {one.broker: found for one in subject.answering if (found := _protocol(one))}
    names = sorted({one.name for one in versions.values()})
    if len(names) > 1:
        text = f"the brokers have different {PROTOCOL}: {', '.join(names)}"
        advice = "give all brokers the same value, and restart them one by one"
        where = brokers_named(list(versions))
        yield MigrationFinding(
            check="protocol", level="error", text=text, where=where, advice=advice
        )
    for name in names:
        having = [broker for broker, one in versions.items() if one.name == name]
        releases = {one.release for one in subject.answering if one.broker in having}
        latest = _spelt(max(releases))
        advice = f"set it to {latest} and restart the brokers one by one, before the migration"
        if not ProtocolVersion(name).at_least(_BEGINS_SINCE):
            text = f"{PROTOCOL} is {name}: a migration begins from {_BEGINS_SINCE} on"
            yield MigrationFinding(
                check="protocol",
                level="error",
                text=text,
                where=brokers_named(having),
                advice=advice,
            )
        elif release_named(name) < max(releases):
            text = (
                f"{PROTOCOL} is {name}, and brokers run {latest}: KRaft controllers with "
                f"metadata.version {latest} refuse them"
            )
            yield MigrationFinding(
                check="protocol",
                level="warning",
                text=text,
                where=brokers_named(having),
                advice=f"{advice}; or format the controllers with --release-version",
            )
        elif len(names) == 1:
            yield MigrationFinding(
                check="protocol", level="ok", text=f"all brokers have {PROTOCOL} {name}"
            )


def _spelt(release: Release) -> str:
    return ".".join(map(str, release))


def _brokers_with(subject: MigratingCluster, test: Callable[[MigratingBroker], bool]) -> list[int]:
    return [one.broker for one in subject.answering if test(one)]


def _is_on(broker: MigratingBroker, key: str) -> bool:
    return broker.settings.get(key, "").strip().lower() == "true"


def _has_generated_id(broker: MigratingBroker) -> bool:
    limit = broker.settings.get(_RESERVED_ID, "").strip()
    return limit.isdecimal() and _is_on(broker, _GENERATES_ID) and broker.broker > int(limit)


def _has_too_many_log_dirs(broker: MigratingBroker) -> bool:
    folders = [one for one in broker.settings.get(_LOG_DIRS, "").split(",") if one.strip()]
    version = _protocol(broker)
    return len(folders) > 1 and version is not None and not version.at_least(_LOG_DIRS_SINCE)


def _protocol(broker: MigratingBroker) -> ProtocolVersion | None:
    try:
        return ProtocolVersion(broker.settings.get(PROTOCOL, ""))
    except ConfigurationError:
        return None


def _voter_ids(voters: str) -> list[int]:
    """The ids in 3000@host:9093,3001@host:9093."""
    ids = [one.partition("@")[0].strip() for one in voters.split(",")]
    return [int(one) for one in ids if one.isdecimal()]
