"""The checks that must hold before a start. Pure: settings and facts in, findings out."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct

from controller.operator.status import BrokerStatus, ClusterStatus, ZooKeeperStatus
from controller.settings.settings import Settings
from controller.settings.table import POLICIES

Level = Literal["ok", "warning", "error"]


class CheckResult(Struct, frozen=True):
    """One thing that a check found; `advice` says what to do where not all is well."""

    check: str
    level: Level
    text: str
    advice: str = ""

    @property
    def line(self) -> str:
        """The finding in one line."""
        return f"{self.text}: {self.advice}" if self.advice else self.text


_WITHOUT_POLICY: Final = (
    "leave the role with a stock controller; or, if the cluster may do without, take it out of the "
    "brokers' files and restart them"
)

ClusterCheck = Callable[[Settings, ClusterStatus], Iterator[CheckResult]]


def check_start(settings: Settings, status: ZooKeeperStatus) -> list[CheckResult]:
    """All of them; without ZooKeeper or without the chroot nothing else can be said."""
    if status.cluster is None:
        advice = "look at zookeeper.connect, at the servers and at the network"
        return [CheckResult("ZooKeeper", "error", f"no ZooKeeper: {status.fault}", advice)]
    found = [CheckResult("ZooKeeper", "ok", "a session stands")]
    for check in CLUSTER_CHECKS:
        found += check(settings, status.cluster)
        if any(one.check == "chroot" and one.level == "error" for one in found):
            break
    return found


def may_be_last_run(settings: Settings, status: ZooKeeperStatus) -> bool:
    """Whether /controller may be what a killed run of this daemon left; its session goes away."""
    if status.cluster is None or _is_registered(settings, status.cluster):
        return False
    return _is_held_by_own_id(settings, status.cluster)


def check_chroot(settings: Settings, cluster: ClusterStatus) -> Iterator[CheckResult]:
    """The chroot exists and a Kafka cluster is below it."""
    chroot = settings.zookeeper.chroot or "/"
    advice = "is the chroot in zookeeper.connect the one that the brokers have?"
    if not cluster.chroot_exists:
        yield CheckResult("chroot", "error", f"{chroot} does not exist in ZooKeeper", advice)
    elif not cluster.is_kafka or cluster.cluster_id is None:
        lacking = "/cluster/id" if cluster.is_kafka else "/brokers/ids"
        text = f"there is no Kafka cluster below {chroot}: it has no readable {lacking}"
        yield CheckResult("chroot", "error", text, advice)
    else:
        yield CheckResult("chroot", "ok", f"{chroot} is cluster {cluster.cluster_id}")


def check_broker_id(settings: Settings, cluster: ClusterStatus) -> Iterator[CheckResult]:
    """Nobody else has the daemon's id."""
    own = settings.broker_id
    advice = "give the daemon an id of its own with --broker-id"
    if _is_registered(settings, cluster):
        text = f"the id {own} is a broker's: it is registered in /brokers/ids/{own}"
        yield CheckResult("broker id", "error", text, advice)
    elif _is_held_by_own_id(settings, cluster):
        text = f"the id {own} is in use: another daemon holds /controller with it"
        end = "end that one (the session of one that was killed ends by itself)"
        yield CheckResult("broker id", "error", text, f"{end}, or {advice}")
    else:
        yield CheckResult("broker id", "ok", f"nobody has the id {own}")


def check_controller(settings: Settings, cluster: ClusterStatus) -> Iterator[CheckResult]:
    """/controller is free, or held by somebody who may be followed."""
    holder = cluster.controller
    if holder is None:
        yield CheckResult("controller", "ok", "nobody is controller")
    elif holder.kraft_epoch > 0:
        text = (
            f"a KRaft controller holds /controller (kraftControllerEpoch {holder.kraft_epoch}): "
            "the cluster is migrating to KRaft"
        )
        yield CheckResult("controller", "error", text, "refold must not run in this cluster")
    elif not holder.is_ephemeral:
        text = "/controller is persistent: no session holds it"
        advice = "a KRaft migration makes it so; if there is none, remove the znode by hand"
        yield CheckResult("controller", "error", text, advice)
    else:
        who = "somebody unreadable" if holder.broker_id is None else f"broker {holder.broker_id}"
        then = "is replaced" if settings.take_over else "goes on, the daemon waits"
        yield CheckResult("controller", "ok", f"{who} is controller and {then}")


def check_migration(settings: Settings, cluster: ClusterStatus) -> Iterator[CheckResult]:
    """No migration to KRaft is under way."""
    if not cluster.migrating:
        yield CheckResult("migration", "ok", "no migration to KRaft")
        return
    text = f"/migration: {cluster.migrating}"
    advice = "refold must not run in it; if the migration was reverted, delete /migration"
    yield CheckResult("migration", "error", text, advice)


def check_protocol_version(settings: Settings, cluster: ClusterStatus) -> Iterator[CheckResult]:
    """The registrations do not contradict inter.broker.protocol.version.

    A controller of the wrong version leaves lasting marks: on old brokers topic ids in every topic
    and an enabled /feature, on new ones topics without ids. Where only some contradict, the
    version is being changed broker by broker, which Kafka's controllers live with too.
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
            advice = "give --inter-broker-protocol-version the one that the brokers have"
            yield CheckResult("protocol", "error", text, advice)
        else:
            advice = "the brokers differ: change all of them over, and the daemon with them"
            yield CheckResult("protocol", "warning", text, advice)
    elif cluster.registration_versions:
        text = f"no registration contradicts {protocol.name}"
        advice = "it tells only whether a broker has 2.7 or later: compare the rest by hand"
        yield CheckResult("protocol", "ok", text, advice)


def check_policies(brokers: Sequence[BrokerStatus]) -> Iterator[CheckResult]:
    """No broker has a policy: what refold does as controller, no policy would be asked about."""
    for one in brokers:
        for key, value in one.policies.items():
            text = f"broker {one.broker} has {key}={value}, a plugin that refold cannot ask"
            yield CheckResult("policies", "error", text, _WITHOUT_POLICY)
        fault = one.fault or one.policies_fault
        if fault:
            text = f"broker {one.broker} did not tell its policies: {fault}"
            advice = f"see that it has neither {' nor '.join(POLICIES)}"
            yield CheckResult("policies", "warning", text, advice)
    if brokers and not any(one.policies or one.fault or one.policies_fault for one in brokers):
        yield CheckResult("policies", "ok", "no broker has a policy")


def _is_registered(settings: Settings, cluster: ClusterStatus) -> bool:
    return settings.broker_id in cluster.registered


def _is_held_by_own_id(settings: Settings, cluster: ClusterStatus) -> bool:
    holder = cluster.controller
    return holder is not None and holder.is_ephemeral and holder.broker_id == settings.broker_id


CLUSTER_CHECKS: Final[tuple[ClusterCheck, ...]] = (
    check_chroot,
    check_broker_id,
    check_controller,
    check_migration,
    check_protocol_version,
)
