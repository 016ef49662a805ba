"""The checks that must pass before the daemon starts. Pure: settings and status in, results out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct, structs

from controller.core import znodes
from controller.core.topic_configs import (
    MIN_INSYNC_REPLICAS,
    OF_BROKER,
    UNCLEAN,
    ConfigEntry,
    default_of,
)
from controller.operator.errors import StartRefused
from controller.operator.status import BrokerStatus, ClusterStatus, ZooKeeperStatus
from controller.settings.settings import Settings
from controller.settings.table import AUTHORIZER, POLICIES

Level = Literal["ok", "warning", "error"]


class CheckResult(Struct, frozen=True):
    """The result of one check; `advice` says what to do about a problem."""

    check: str
    level: Level
    text: str
    advice: str = ""

    @property
    def line(self) -> str:
        """The result in one line."""
        return f"{self.text}: {self.advice}" if self.advice else self.text


_WITHOUT_POLICY: Final = (
    "leave the role with a stock controller; or, if the cluster can do without the "
    "policy, remove it from the brokers' files and restart them"
)

_DYNAMIC: Final = (MIN_INSYNC_REPLICAS, UNCLEAN)
"""The `DECIDING` settings that Kafka can change at run time for the whole cluster."""

_OF_SECURITY: Final = ("listener.name.", "ssl.", "sasl.", "principal.builder.class")
"""How the dynamic settings of security begin (DynamicSecurityConfigs, DynamicListenerConfig)."""

ClusterCheck = Callable[[Settings, ClusterStatus], Iterator[CheckResult]]


def check_start(settings: Settings, status: ZooKeeperStatus) -> list[CheckResult]:
    """Run all checks. Without ZooKeeper or the chroot, the others are skipped."""
    return _run_checks(settings, status, CLUSTER_CHECKS)


def check_cluster_found(settings: Settings, status: ZooKeeperStatus) -> list[CheckResult]:
    """Check only that ZooKeeper answers and has a cluster."""
    return _run_checks(settings, status, (check_chroot,))


def require_no_error(results: Iterable[CheckResult]) -> None:
    """Raises StartRefused with the lines of the errors."""
    reasons = [one.line for one in results if one.level == "error"]
    if reasons:
        raise StartRefused(reasons)


def _run_checks(
    settings: Settings, status: ZooKeeperStatus, checks: Sequence[ClusterCheck]
) -> list[CheckResult]:
    if status.cluster is None:
        advice = "check zookeeper.connect, the servers and the network"
        return [
            CheckResult(
                "ZooKeeper", "error", f"cannot connect to ZooKeeper: {status.fault}", advice
            )
        ]
    found = [CheckResult("ZooKeeper", "ok", "a session was established")]
    for check in checks:
        found += check(settings, status.cluster)
        if any(one.check == "chroot" and one.level == "error" for one in found):
            break
    return found


def may_be_last_run(settings: Settings, status: ZooKeeperStatus) -> bool:
    """Whether /controller may belong to a killed run of this daemon, whose session will expire. A
    standby waits for that after its start."""
    if status.cluster is None or _is_registered(settings, status.cluster) or settings.standby:
        return False
    return _is_held_by_daemon_id(settings, status.cluster)


def check_chroot(settings: Settings, cluster: ClusterStatus) -> Iterator[CheckResult]:
    """The chroot exists and contains a Kafka cluster."""
    chroot = settings.zookeeper.chroot or "/"
    advice = "does zookeeper.connect have the chroot of the brokers?"
    if not cluster.chroot_exists:
        yield CheckResult("chroot", "error", f"{chroot} does not exist in ZooKeeper", advice)
    elif not cluster.is_kafka or cluster.cluster_id is None:
        lacking = znodes.CLUSTER_ID if cluster.is_kafka else znodes.BROKER_IDS
        text = f"there is no Kafka cluster below {chroot}: it has no readable {lacking}"
        yield CheckResult("chroot", "error", text, advice)
    else:
        yield CheckResult("chroot", "ok", f"{chroot} is cluster {cluster.cluster_id}")


def check_broker_id(settings: Settings, cluster: ClusterStatus) -> Iterator[CheckResult]:
    """No broker or other daemon has the daemon's id."""
    own = settings.broker_id
    advice = "give the daemon a unique id with --broker-id"
    if _is_registered(settings, cluster):
        text = f"the id {own} belongs to a broker: it is registered in /brokers/ids/{own}"
        yield CheckResult("broker id", "error", text, advice)
    elif _is_held_by_daemon_id(settings, cluster) and settings.standby:
        text = f"another daemon with the id {own} is controller; this one is its standby"
        yield CheckResult("broker id", "ok", text)
    elif _is_held_by_daemon_id(settings, cluster):
        text = f"the id {own} is in use: another daemon holds /controller with it"
        end = "stop that daemon (if it was killed, its session expires)"
        yield CheckResult("broker id", "error", text, f"{end}, or {advice}")
    else:
        yield CheckResult("broker id", "ok", f"the id {own} is unused")


def check_controller(settings: Settings, cluster: ClusterStatus) -> Iterator[CheckResult]:
    """/controller is free, or its holder may be succeeded."""
    holder = cluster.controller
    if holder is None:
        yield CheckResult("controller", "ok", "there is no controller")
    elif holder.kraft_epoch > 0:
        text = (
            f"a KRaft controller holds /controller (kraftControllerEpoch {holder.kraft_epoch}): "
            "the cluster is migrating to KRaft"
        )
        yield CheckResult("controller", "error", text, "refold must not run in this cluster")
    elif not holder.is_ephemeral:
        text = "/controller is persistent: no session holds it"
        advice = "a KRaft migration does this; if there is none, delete the znode manually"
        yield CheckResult("controller", "error", text, advice)
    else:
        is_known = holder.broker_id is not None
        who = f"broker {holder.broker_id}" if is_known else "a node with an unreadable id"
        then = "is replaced" if settings.take_over else "continues, the daemon waits"
        yield CheckResult("controller", "ok", f"{who} is controller and {then}")


def check_migration(settings: Settings, cluster: ClusterStatus) -> Iterator[CheckResult]:
    """No migration to KRaft is in progress."""
    if not cluster.migrating:
        yield CheckResult("migration", "ok", "no migration to KRaft")
        return
    text = f"/migration: {cluster.migrating}"
    advice = "refold must not run during a migration; if it was reverted, delete /migration"
    yield CheckResult("migration", "error", text, advice)


def check_protocol_version(settings: Settings, cluster: ClusterStatus) -> Iterator[CheckResult]:
    """The registrations agree with inter.broker.protocol.version.

    A controller of the wrong version leaves permanent traces: on old brokers topic ids in every
    topic and an enabled /feature, on new ones topics without ids. If only some registrations
    disagree, the version is being changed broker by broker, which is normal in Kafka.
    """
    protocol = settings.configuration().protocol
    sides = {
        broker: side
        for broker, version in cluster.registration_versions.items()
        if (side := protocol.contradicted_by(version))
    }
    if sides:
        side, ids = next(iter(sides.values())), ", ".join(map(str, sides))
        text = (
            f"brokers with an inter.broker.protocol.version {side}: {ids}; "
            f"the daemon has {protocol.name}"
        )
        if len(sides) == len(cluster.registration_versions):
            advice = "set --inter-broker-protocol-version to the version of the brokers"
            yield CheckResult("protocol", "error", text, advice)
        else:
            advice = "the brokers differ: finish changing them, and change the daemon too"
            yield CheckResult("protocol", "warning", text, advice)
    elif cluster.registration_versions:
        text = f"no registration contradicts {protocol.name}"
        advice = (
            "registrations only show whether a broker has 2.7 or later: compare the rest manually"
        )
        yield CheckResult("protocol", "ok", text, advice)


def check_dynamic_settings(settings: Settings, cluster: ClusterStatus) -> Iterator[CheckResult]:
    """The daemon has no security settings in ZooKeeper. A broker would prefer them to its file, and
    decrypt passwords in them with password.encoder.secret (DynamicBrokerConfig)."""
    found = [one for one in cluster.dynamic_keys if one.startswith(_OF_SECURITY)]
    if found:
        own = settings.broker_id
        path = znodes.broker_config_path(own)
        text = f"{path} has {', '.join(found)}: the daemon reads these from its file"
        advice = (
            "set them in the file of --config, and delete them: kafka-configs --entity-type "
            f"brokers --entity-name {own} --alter --delete-config {','.join(found)}"
        )
        yield CheckResult("dynamic settings", "error", text, advice)


def check_policies(brokers: Sequence[BrokerStatus]) -> Iterator[CheckResult]:
    """No broker has a policy, since refold as controller cannot apply policies."""
    for one in brokers:
        for key, value in one.policies.items():
            text = f"broker {one.broker} has {key}={value}, a plugin that refold cannot apply"
            yield CheckResult("policies", "error", text, _WITHOUT_POLICY)
        fault = one.fault or one.settings_fault
        if fault:
            text = f"the policies of broker {one.broker} are unknown: {fault}"
            advice = (
                f"check that it has neither {' nor '.join(POLICIES)}, and that the daemon's "
                "min.insync.replicas and unclean.leader.election.enable are the broker's"
            )
            yield CheckResult("policies", "warning", text, advice)
    if brokers and not any(one.policies or one.fault or one.settings_fault for one in brokers):
        yield CheckResult("policies", "ok", "no broker has a policy")


def check_authorizer(settings: Settings, brokers: Sequence[BrokerStatus]) -> Iterator[CheckResult]:
    """If brokers have an authorizer, the endpoint has one: otherwise a client that no ACL allows
    anything could change the cluster there."""
    found = [one for one in brokers if one.authorizer]
    if not found:
        return
    if settings.security.authorization is not None:
        text = "the brokers and the daemon have an authorizer"
        yield CheckResult("authorizer", "ok", text)
        return
    ids = ", ".join(str(one.broker) for one in found)
    who = f"broker {ids} has" if len(found) == 1 else f"brokers {ids} have"
    text = (
        f"{who} {AUTHORIZER}={found[0].authorizer}, and the daemon allows everything at its "
        "listeners"
    )
    advice = (
        f"set {AUTHORIZER} and super.users in the file of --config as in the brokers' "
        "(docs/security.md#authorization)"
    )
    yield CheckResult("authorizer", "warning", text, advice)


def check_own_login(settings: Settings, cluster: ClusterStatus) -> Iterator[CheckResult]:
    """With an authorizer, brokers refuse a controller without ClusterAction: no partition would
    get a leader. The file has super.users as brokers have it (AclAuthorizer)."""
    security, acls = settings.security, cluster.cluster_acls
    listener = security.brokers.listeners.get(settings.inter_broker_listener)
    rules = security.authorization
    if rules is None or listener is None or listener.login is None or acls is None:
        return
    who = listener.login.principal
    # Denials and hosts are left to the brokers, which know from where refold connects.
    is_allowed = any(
        one.permission == "Allow"
        and one.principal in (who, "User:*")
        and one.operation in ("ClusterAction", "All")
        for one in acls
    )
    if who in rules.super_users or is_allowed or (rules.allows_without_acl and not acls):
        yield CheckResult("login", "ok", f"{who}, the login to brokers, may be controller")
        return
    yield CheckResult(
        "login",
        "error",
        f"{who}, the login to brokers, is not in super.users, and no ACL allows it ClusterAction "
        "on the cluster: brokers would refuse all requests of the daemon",
        f"add {who} to super.users, here and in the files of the brokers",
    )


def check_broker_settings(
    settings: Settings, brokers: Sequence[BrokerStatus]
) -> Iterator[CheckResult]:
    """The daemon has the brokers' values of the settings by which a controller decides, since it
    cannot see them in ZooKeeper. It sees the cluster's dynamic default."""
    used = with_brokers_min_insync_replicas(settings, brokers)
    if used is not settings:
        value = used.broker_settings[MIN_INSYNC_REPLICAS]
        text = f"{MIN_INSYNC_REPLICAS}={value} is taken from the brokers, the daemon has no value"
        yield CheckResult("broker settings", "ok", text)
    own = {one.name: one.value or "" for one in used.config_entries}
    differing: dict[tuple[str, str], list[int]] = {}
    for one in brokers:
        for key, value in one.deciding.items():
            if not _is_same(value, own[key]):
                differing.setdefault((key, value), []).append(one.broker)
    for (key, value), ids in differing.items():
        text = (
            f"{key} is {value} on {'broker' if len(ids) == 1 else 'brokers'} "
            f"{', '.join(map(str, ids))} and {own[key]} for the daemon, which decides by its own"
        )
        advice = f"set {key}={value} in the file of --config"
        if key == MIN_INSYNC_REPLICAS and used is not settings:
            advice = "give all brokers the same value"
        elif key in _DYNAMIC:
            advice += (
                ", or as the cluster's dynamic default (kafka-configs --entity-type brokers "
                f"--entity-default --alter --add-config {key}={value})"
            )
        yield CheckResult("broker settings", "warning", text, advice)
    if not differing and any(one.deciding for one in brokers):
        text = "the brokers and the daemon agree in the settings by which a controller decides"
        yield CheckResult("broker settings", "ok", text)


def with_brokers_min_insync_replicas(
    settings: Settings, brokers: Sequence[BrokerStatus]
) -> Settings:
    """The settings with the largest min.insync.replicas of the brokers, if the daemon's own
    configuration has no value.

    A rollback keeps that many replicas in sync (docs/kip-236-design.md#when-a-rollback-waits).
    """
    found = [one.deciding.get(MIN_INSYNC_REPLICAS, "").strip() for one in brokers]
    values = [int(one) for one in found if one.isdecimal()]
    default = int(default_of(MIN_INSYNC_REPLICAS) or 1)
    if MIN_INSYNC_REPLICAS in settings.broker_settings or max(values, default=1) <= default:
        return settings
    value = str(max(values))
    entries = [one for one in settings.config_entries if one.name != MIN_INSYNC_REPLICAS]
    entries.append(ConfigEntry(MIN_INSYNC_REPLICAS, value, OF_BROKER))
    return structs.replace(
        settings,
        broker_settings={**settings.broker_settings, MIN_INSYNC_REPLICAS: value},
        config_entries=tuple(sorted(entries)),
    )


def _is_same(value: str, own: str) -> bool:
    return value.strip().lower() == own.strip().lower()


def _is_registered(settings: Settings, cluster: ClusterStatus) -> bool:
    return settings.broker_id in cluster.registered


def _is_held_by_daemon_id(settings: Settings, cluster: ClusterStatus) -> bool:
    holder = cluster.controller
    return holder is not None and holder.is_ephemeral and holder.broker_id == settings.broker_id


CLUSTER_CHECKS: Final[tuple[ClusterCheck, ...]] = (
    check_chroot,
    check_broker_id,
    check_controller,
    check_migration,
    check_protocol_version,
    check_dynamic_settings,
    check_own_login,
)
