"""All checks of `refold check`. Pure: settings and system status in, results out."""

from collections.abc import Callable, Iterator
from typing import Final

from controller.api.errors import CannotListen
from controller.core.values import Broker
from controller.operator import start_checks
from controller.operator.start_checks import CheckResult, check_start
from controller.operator.status import SystemStatus
from controller.settings.settings import Settings

CLOCK_MS_MAX: Final = 5_000
SYNC_MS_SLOW: Final = 100.0
FREE_BYTES_MIN: Final = 64 * 1024 * 1024
BULK_SINCE: Final = (3, 6)
"""The first ZooKeeper version with multiRead and persistent watches."""

Check = Callable[[Settings, SystemStatus], Iterator[CheckResult]]


def check_all(settings: Settings, status: SystemStatus) -> list[CheckResult]:
    """Run all checks that the status allows, in the order in which a cluster is set up."""
    found = check_start(settings, status.zookeeper)
    for check in CHECKS:
        found += check(settings, status)
    return found


def check_servers(settings: Settings, status: SystemStatus) -> Iterator[CheckResult]:
    """Each ZooKeeper server answers, and its version has the features that make refold fast."""
    for one in status.servers:
        if one.fault:
            advice = "start it, or remove it from zookeeper.connect"
            yield CheckResult("ZooKeeper", "warning", f"{one.server}: {one.fault}", advice)
        elif one.version is None:
            text = f"{one.server}: version unknown, it does not answer srvr"
            yield CheckResult(
                "ZooKeeper", "warning", text, "refold requires 3.5 and is faster from 3.6"
            )
        elif _numbers(one.version) < BULK_SINCE:
            text = f"{one.server} is {one.version}: without multiRead and persistent watches"
            yield CheckResult(
                "ZooKeeper", "warning", text, "works, but slowly; refold is faster from 3.6"
            )
        else:
            text = f"{one.server} is {one.version}, with multiRead and persistent watches"
            yield CheckResult("ZooKeeper", "ok", text)


def check_brokers(settings: Settings, status: SystemStatus) -> Iterator[CheckResult]:
    """Each broker answers on the listener for controller requests."""
    listener = settings.configuration().controller_listener
    cluster = status.zookeeper.cluster
    if cluster is None or not cluster.is_kafka:
        return
    for text in cluster.unreadable:
        yield CheckResult("brokers", "error", text, "fix or delete the registration")
    if not status.brokers:
        yield CheckResult("brokers", "warning", "no broker is registered", "start the brokers")
    for one in status.brokers:
        if one.fault:
            advice = "check the broker, inter.broker.listener.name and control.plane.listener.name"
            yield CheckResult("brokers", "error", f"broker {one.broker}: {one.fault}", advice)
        else:
            yield CheckResult("brokers", "ok", f"broker {one.broker} answers on {listener}")


def check_protocol(settings: Settings, status: SystemStatus) -> Iterator[CheckResult]:
    """Each broker supports the requests of inter.broker.protocol.version."""
    version = settings.inter_broker_protocol_version
    answering = [one for one in status.brokers if one.versions]
    lacking = [
        (one.broker, api, wanted, offered)
        for one in answering
        for api, wanted, offered in one.versions
        if offered < wanted
    ]
    for broker, api, wanted, offered in lacking:
        text = f"broker {broker} supports {api} up to {offered}, {version} requires {wanted}"
        advice = "set inter.broker.protocol.version to the version of the brokers"
        yield CheckResult("protocol", "error", text, advice)
    if answering and not lacking:
        yield CheckResult("protocol", "ok", f"all brokers support the requests of {version}")


def check_policies(settings: Settings, status: SystemStatus) -> Iterator[CheckResult]:
    """The checks of policies that the start makes. `check_brokers` reports a broker that does not
    answer.
    """
    return start_checks.check_policies([one for one in status.brokers if not one.fault])


def check_authorizer(settings: Settings, status: SystemStatus) -> Iterator[CheckResult]:
    """The authorizers that the start compares."""
    return start_checks.check_authorizer(settings, status.brokers)


def check_broker_settings(settings: Settings, status: SystemStatus) -> Iterator[CheckResult]:
    """The settings that the start compares."""
    return start_checks.check_broker_settings(settings, status.brokers)


def check_racks(settings: Settings, status: SystemStatus) -> Iterator[CheckResult]:
    """If brokers have racks, the daemon's rack is one of them, since clients see the daemon as a
    node."""
    brokers = _registered_brokers(status)
    racks = sorted({one.rack for one in brokers if one.rack})
    if racks and settings.rack not in racks:
        own = f"the rack {settings.rack}" if settings.rack else "none"
        text = f"brokers have racks ({', '.join(racks)}), the daemon has {own}"
        yield CheckResult("racks", "warning", text, "set broker.rack to one of them")
    elif settings.rack and not racks:
        text = f"the daemon has the rack {settings.rack}, no broker has a rack"
        yield CheckResult("racks", "warning", text, "remove broker.rack")
    without = [str(one.id) for one in brokers if not one.rack]
    if racks and without:
        text = f"brokers without a rack: {', '.join(without)}; the others have one"
        yield CheckResult(
            "racks", "warning", text, "rack-aware assignment fails until all have one"
        )
    if brokers and not racks and not settings.rack:
        yield CheckResult("racks", "ok", "no racks")
    elif racks and settings.rack in racks and not without:
        yield CheckResult("racks", "ok", f"all brokers have racks, the daemon has {settings.rack}")


def check_listeners(settings: Settings, status: SystemStatus) -> Iterator[CheckResult]:
    """The daemon can listen, has all listener names of the brokers, and does not use a broker's
    address."""
    brokers = _registered_brokers(status)
    if status.listening_fault:
        yield CheckResult("listeners", "error", status.listening_fault, CannotListen.ADVICE)
    own = {one.listener for one in settings.advertised_listeners}
    theirs = {one.listener for broker in brokers for one in broker.endpoints}
    control_plane = {settings.control_plane_listener}
    lacking = sorted(theirs - own - control_plane)
    if lacking:
        text = (
            f"brokers have the listeners {', '.join(sorted(theirs))}, the daemon lacks "
            f"{', '.join(lacking)}"
        )
        advice = "add them to --listeners: clients of these listeners cannot reach the daemon"
        yield CheckResult("listeners", "warning", text, advice)
    shared = {(one.host, one.port) for one in settings.advertised_listeners if one.host}
    for broker in brokers:
        for one in broker.endpoints:
            if (one.host, one.port) in shared:
                text = f"broker {broker.id} listens on {one.host}:{one.port}"
                advice = "set other addresses with --listeners"
                yield CheckResult("listeners", "warning", text, advice)
    if brokers and not lacking:
        yield CheckResult(
            "listeners", "ok", f"all listener names of the brokers: {', '.join(sorted(theirs))}"
        )


def check_clock(settings: Settings, status: SystemStatus) -> Iterator[CheckResult]:
    """The daemon's clock agrees with ZooKeeper's, so that log times are comparable with the
    brokers'."""
    ahead_ms = status.clock_ahead_ms
    if status.zookeeper.cluster is None or not status.zookeeper.cluster.chroot_exists:
        return
    if ahead_ms is None:
        text = "cannot read ZooKeeper's clock"
        yield CheckResult("clock", "warning", text, "compare the clocks manually")
    elif abs(ahead_ms) > CLOCK_MS_MAX:
        side = "ahead of" if ahead_ms > 0 else "behind"
        text = f"this clock is {abs(ahead_ms) / 1000:.1f} s {side} ZooKeeper's"
        yield CheckResult("clock", "warning", text, "synchronise the clocks (NTP)")
    else:
        yield CheckResult("clock", "ok", f"within {CLOCK_MS_MAX // 1000} s of ZooKeeper's")


def check_disk(settings: Settings, status: SystemStatus) -> Iterator[CheckResult]:
    """The log directory is writable, fast enough and has free space."""
    disk = status.disk
    limit_ms = settings.session_timeout_ms / 3
    if disk.fault:
        text = f"cannot use the log directory {disk.folder}: {disk.fault}"
        yield CheckResult(
            "disk", "error", text, "check owner, mode and mount, or use another directory"
        )
        return
    free = f"{disk.free_bytes / 1024**3:.1f} GiB free for {disk.folder}"
    if disk.free_bytes < FREE_BYTES_MIN:
        yield CheckResult(
            "disk", "error", free, "free some space: a daemon that cannot write its log gives up"
        )
    elif disk.free_bytes < settings.segment_bytes:
        advice = "less than one log segment: free some space, or set refold.log.retention.bytes"
        yield CheckResult("disk", "warning", free, advice)
    else:
        yield CheckResult("disk", "ok", free)
    sync = f"fsync takes up to {disk.sync_ms:.1f} ms"
    if disk.sync_ms >= limit_ms:
        advice = f"above {limit_ms:.0f} ms the daemon gives up the role: use a faster disk"
        yield CheckResult("disk", "error", sync, advice)
    elif disk.sync_ms > SYNC_MS_SLOW:
        yield CheckResult(
            "disk", "warning", sync, "every decision waits for an fsync: use a faster disk"
        )
    else:
        yield CheckResult("disk", "ok", sync)


CHECKS: Final[tuple[Check, ...]] = (
    check_servers,
    check_brokers,
    check_protocol,
    check_policies,
    check_authorizer,
    check_broker_settings,
    check_racks,
    check_listeners,
    check_clock,
    check_disk,
)


def _registered_brokers(status: SystemStatus) -> tuple[Broker, ...]:
    return status.zookeeper.cluster.brokers if status.zookeeper.cluster else ()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))
