"""Who shall lead: the leader election rules as pure functions (KB 4.4).

Each rule looks at the replicas in order, takes the first that fits and says of every one before
it why it was passed over. `replicas` is RS, or TRS for a reassignment.
"""

from collections.abc import Callable
from typing import NamedTuple

from controller.core.values import NO_LEADER

IsOnline = Callable[[int], bool]


class Elected(NamedTuple):
    """What an election came to: `leader` is -1 where no replica fits.

    `passed_over` pairs each replica that was looked at before with the reason.
    """

    leader: int
    isr: tuple[int, ...]
    unclean: bool = False
    passed_over: tuple[tuple[int, str], ...] = ()


def offline_partition_leader(
    replicas: tuple[int, ...], isr: tuple[int, ...], is_online: IsOnline, allow_unclean: bool
) -> Elected:
    """First of RS that is online and in sync, else, if allowed, first that is online.

    Election.leaderForOffline and PartitionLeaderElectionAlgorithms.offlinePartitionLeaderElection:
    the ISR keeps its online members; an unclean leader is the only member.
    """
    passed_over: list[tuple[int, str]] = []
    for replica in replicas:
        if not is_online(replica):
            passed_over.append((replica, "not online"))
        elif replica not in isr:
            passed_over.append((replica, "not in sync"))
        else:
            in_sync = tuple(one for one in isr if is_online(one))
            return Elected(replica, in_sync, passed_over=tuple(passed_over))
    if allow_unclean:
        for replica in replicas:
            if is_online(replica):
                return Elected(replica, (replica,), True, tuple(passed_over))
    return Elected(NO_LEADER, isr, passed_over=tuple(passed_over))


def preferred_leader(
    replicas: tuple[int, ...], isr: tuple[int, ...], is_online: IsOnline
) -> Elected:
    """The first of RS, if it is online and in sync (preferredReplicaPartitionLeaderElection)."""
    return reassignment_leader(replicas[:1], isr, is_online)


def reassignment_leader(
    target: tuple[int, ...], isr: tuple[int, ...], is_online: IsOnline
) -> Elected:
    """First of TRS that is online and in sync (reassignPartitionLeaderElection)."""
    passed_over: list[tuple[int, str]] = []
    for replica in target:
        if not is_online(replica):
            passed_over.append((replica, "not online"))
        elif replica not in isr:
            passed_over.append((replica, "not in sync"))
        else:
            return Elected(replica, isr, passed_over=tuple(passed_over))
    return Elected(NO_LEADER, isr, passed_over=tuple(passed_over))


def controlled_shutdown_leader(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    is_online_or_shutting_down: IsOnline,
    is_shutting_down: IsOnline,
) -> Elected:
    """First of RS that is online, in sync and not shutting down; the ISR loses all that are.

    controlledShutdownPartitionLeaderElection.
    """
    passed_over: list[tuple[int, str]] = []
    for replica in replicas:
        if not is_online_or_shutting_down(replica):
            passed_over.append((replica, "not online"))
        elif replica not in isr:
            passed_over.append((replica, "not in sync"))
        elif is_shutting_down(replica):
            passed_over.append((replica, "shutting down"))
        else:
            staying = tuple(one for one in isr if not is_shutting_down(one))
            return Elected(replica, staying, passed_over=tuple(passed_over))
    return Elected(NO_LEADER, isr, passed_over=tuple(passed_over))
