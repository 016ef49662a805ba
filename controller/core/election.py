"""Leader election: every rule that chooses the leader of a partition, as pure functions (KB 4).

| when | rule |
|---|---|
| a partition is new | `first_leader` |
| its leader is offline, or unclean election is requested | `OFFLINE`, `UNCLEAN` |
| its preferred replica is to lead | `PREFERRED`, if `needs_election` or `imbalanced` says so |
| a reassignment ends, or drops the leader | `REASSIGNMENT`, `REMAINING` |
| a broker shuts down | `CONTROLLED_SHUTDOWN` |
| a reassignment is cancelled | `rollback_leader` |
| its ISR names the daemon, which holds no replicas (daemon-id-repaired) | `OFFLINE` |
| a failover finds that members of its ISR have restarted | `leader_after_restarts` |

A rule takes the first replica that is eligible, in the order of the assignment. For each replica
before it, the rule returns the reason why that replica cannot lead. Procedures read the state
znodes, call these rules and write the result (procedures/elections/leadership.py).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from controller.core.configuration import Configuration
from controller.core.deviations import ISR_WITHIN_REPLICAS
from controller.core.state import ControllerContext, Partition
from controller.core.values import NO_LEADER, RECOVERING, LeaderAndIsr

NOT_ONLINE: Final = "not online"
NOT_IN_SYNC: Final = "not in sync"
SHUTTING_DOWN: Final = "shutting down"
NOT_ORIGINAL: Final = "not an original replica of the cancelled reassignment"

FIRST_LEADER: Final = "create first leader"
"""The rule by which new partitions get their first leader."""
FIRST_LIVE: Final = "first live replica"
"""The code of that choice."""
ROLLBACK: Final = "rollback: leader among the originals"
"""The rule by which a cancelled reassignment moves the leader back."""
UNCLEAN_LEADER: Final = "unclean leader"
"""The code of a choice whose leader was not in sync."""

IsOnline = Callable[[int], bool]
Ineligible = tuple[tuple[int, str], ...]
"""Replicas that cannot lead, each with the reason: NOT_ONLINE, NOT_IN_SYNC, SHUTTING_DOWN or
NOT_ORIGINAL."""


class Elected(NamedTuple):
    """The result of an election. `leader` is NO_LEADER where no replica is eligible.

    `passed_over` pairs each replica that was considered before the leader with the reason why it
    cannot lead.
    """

    leader: int
    isr: tuple[int, ...]
    unclean: bool = False
    passed_over: Ineligible = ()


# The rules (Kafka's PartitionLeaderElectionAlgorithms) ------------------------------------------


def first_leader(replicas: tuple[int, ...], is_online: IsOnline) -> Elected:
    """The leader of a new partition: the first online replica. The ISR is all online replicas.

    initializeLeaderAndIsrForPartitions, KB 4.3.
    """
    leader, passed_over = _first_eligible(
        replicas, lambda one: "" if is_online(one) else NOT_ONLINE
    )
    return Elected(leader, tuple(filter(is_online, replicas)), passed_over=passed_over)


def offline_partition_leader(
    replicas: tuple[int, ...], isr: tuple[int, ...], is_online: IsOnline, allow_unclean: bool
) -> Elected:
    """The first replica that is online and in sync, else, if allowed, the first that is online.

    offlinePartitionLeaderElection and Election.leaderForOffline: the ISR keeps its online members;
    an unclean leader is the only member.
    """
    leader, passed_over = _first_in_sync(replicas, isr, is_online)
    if leader != NO_LEADER:
        in_sync = tuple(one for one in isr if is_online(one))
        return Elected(leader, in_sync, passed_over=passed_over)
    online = next(filter(is_online, replicas), NO_LEADER) if allow_unclean else NO_LEADER
    if online != NO_LEADER:
        return Elected(online, (online,), True, passed_over)
    return Elected(NO_LEADER, isr, passed_over=passed_over)


def preferred_leader(
    replicas: tuple[int, ...], isr: tuple[int, ...], is_online: IsOnline
) -> Elected:
    """The preferred replica, if it is online and in sync.

    preferredReplicaPartitionLeaderElection.
    """
    return reassignment_leader(replicas[:1], isr, is_online)


def reassignment_leader(
    target: tuple[int, ...], isr: tuple[int, ...], is_online: IsOnline
) -> Elected:
    """The first target replica that is online and in sync (reassignPartitionLeaderElection)."""
    leader, passed_over = _first_in_sync(target, isr, is_online)
    return Elected(leader, isr, passed_over=passed_over)


def controlled_shutdown_leader(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    is_online_or_shutting_down: IsOnline,
    is_shutting_down: IsOnline,
) -> Elected:
    """The first replica that is online, in sync and not shutting down.

    controlledShutdownPartitionLeaderElection: brokers that shut down leave the ISR.
    """

    def why_not(replica: int) -> str:
        if not is_online_or_shutting_down(replica):
            return NOT_ONLINE
        if replica not in isr:
            return NOT_IN_SYNC
        return SHUTTING_DOWN if is_shutting_down(replica) else ""

    leader, passed_over = _first_eligible(replicas, why_not)
    if leader == NO_LEADER:
        return Elected(NO_LEADER, isr, passed_over=passed_over)
    remaining = tuple(one for one in isr if not is_shutting_down(one))
    return Elected(leader, remaining, passed_over=passed_over)


def _first_in_sync(
    replicas: tuple[int, ...], isr: tuple[int, ...], is_online: IsOnline
) -> tuple[int, Ineligible]:
    def why_not(replica: int) -> str:
        if not is_online(replica):
            return NOT_ONLINE
        return "" if replica in isr else NOT_IN_SYNC

    return _first_eligible(replicas, why_not)


def _first_eligible(
    replicas: tuple[int, ...], why_not: Callable[[int], str]
) -> tuple[int, Ineligible]:
    passed_over: list[tuple[int, str]] = []
    for replica in replicas:
        reason = why_not(replica)
        if not reason:
            return replica, tuple(passed_over)
        passed_over.append((replica, reason))
    return NO_LEADER, tuple(passed_over)


def leader_after_restarts(
    replicas: tuple[int, ...],
    leader: int,
    isr: tuple[int, ...],
    restarted: Collection[int],
    is_online: IsOnline,
) -> Elected:
    """The leader of a partition when `restarted` members of its ISR may have lost records
    (RESTARTS_SEEN_AT_FAILOVER).

    They leave the ISR if another member is online. The leader stays if it may.
    """
    remaining = tuple(one for one in isr if one not in restarted)
    if not any(map(is_online, remaining)):
        return Elected(leader if is_online(leader) else NO_LEADER, isr)
    if leader in remaining and is_online(leader):
        return Elected(leader, remaining)
    elected, passed_over = _first_in_sync(replicas, remaining, is_online)
    return Elected(elected, remaining, passed_over=passed_over)


# The strategies (Kafka's PartitionLeaderElectionStrategy) ---------------------------------------


class ElectionInput(NamedTuple):
    """The input of an election: a partition that needs a leader, and its state in ZooKeeper.

    `allow_unclean`: a replica outside of the ISR may lead. `originals`: the original replicas of a
    reassignment that is cancelled, or replaced by an extra entry; empty for others.
    """

    partition: Partition
    current: LeaderAndIsr
    allow_unclean: bool
    originals: tuple[int, ...] = ()

    @property
    def replicas(self) -> tuple[int, ...]:
        """The replicas that may lead, the preferred one first.

        While a reassignment is cancelled these are the originals, then the other replicas in sync
        (KB 14.2.2, steps 1 and 2). No other replica becomes an unclean leader, nor a clean one
        while an original can lead.
        """
        if not self.originals:
            return self.partition.replicas
        in_sync = [one for one in self.current.isr if one in self.partition.replicas]
        return tuple(dict.fromkeys((*self.originals, *in_sync)))


class Unclean(Enum):
    """Whether a strategy may elect a replica outside of the ISR."""

    NEVER = auto()
    AS_CONFIGURED = auto()
    ALWAYS = auto()


class Strategy(NamedTuple):
    """How to elect.

    `name` is the rule in the command's reason, `kafka_name` the name of Kafka's strategy, `choose`
    the rule. `recipients` returns the brokers that are sent LeaderAndIsr. `is_rollback`: the
    election is a step of a rollback.
    """

    name: str
    kafka_name: str
    choose: Callable[[ControllerContext, ElectionInput], Elected]
    recipients: Callable[[ControllerContext, Partition], Iterable[int]]
    unclean: Unclean = Unclean.NEVER
    is_rollback: bool = False


def online_test(context: ControllerContext, partition: Partition) -> IsOnline:
    """A function that returns whether a broker's replica of this partition is online."""
    if not context.offline_dirs:
        return context.live_brokers.__contains__
    return lambda broker: context.is_online(broker, partition)


def online_replicas(context: ControllerContext, partition: Partition) -> list[int]:
    """The replicas that are online, in the order of the assignment."""
    is_online = online_test(context, partition)
    return [one for one in partition.assignment.replicas if is_online(one)]


def all_replicas(context: ControllerContext, partition: Partition) -> tuple[int, ...]:
    """Every replica, whether it is online or not."""
    return partition.replicas


def _target_replicas(context: ControllerContext, partition: Partition) -> tuple[int, ...]:
    return partition.assignment.target


def _replicas_not_offline(context: ControllerContext, partition: Partition) -> list[int]:
    return [
        one
        for one in partition.assignment.replicas
        if context.is_online_or_shutting_down(one, partition)
    ]


def _choose_offline(context: ControllerContext, given: ElectionInput) -> Elected:
    is_online = online_test(context, given.partition)
    isr, allow_unclean = given.current.isr, given.allow_unclean
    elected = offline_partition_leader(given.replicas, isr, is_online, allow_unclean)
    return _with_excluded(context, given, elected)


def _with_excluded(context: ControllerContext, given: ElectionInput, elected: Elected) -> Elected:
    """The election, which also passes over the live replicas that a cancellation excludes, where no
    replica in sync can lead. Without the cancellation they could become unclean leaders."""
    if elected.leader != NO_LEADER and not elected.unclean:
        return elected
    is_online, may_lead = online_test(context, given.partition), given.replicas
    reason = NOT_ORIGINAL if given.allow_unclean else NOT_IN_SYNC
    excluded = [one for one in given.partition.replicas if one not in may_lead]
    added = tuple((one, reason) for one in excluded if is_online(one))
    return elected._replace(passed_over=elected.passed_over + added)


def _choose_preferred(context: ControllerContext, given: ElectionInput) -> Elected:
    is_online = online_test(context, given.partition)
    return preferred_leader(given.replicas, given.current.isr, is_online)


def _choose_among_target(context: ControllerContext, given: ElectionInput) -> Elected:
    partition = given.partition
    is_online = online_test(context, partition)
    return reassignment_leader(partition.assignment.target, given.current.isr, is_online)


def _choose_among_replicas(context: ControllerContext, given: ElectionInput) -> Elected:
    partition = given.partition
    is_online = online_test(context, partition)
    return reassignment_leader(partition.replicas, given.current.isr, is_online)


def _choose_at_shutdown(context: ControllerContext, given: ElectionInput) -> Elected:
    partition = given.partition
    elected = controlled_shutdown_leader(
        given.replicas,
        given.current.isr,
        lambda broker: context.is_online_or_shutting_down(broker, partition),
        context.shutting_down.__contains__,
    )
    return _with_excluded(context, given, elected)


OFFLINE: Final = Strategy(
    "offline partition leader election",
    "OfflinePartitionLeaderElectionStrategy(false)",
    _choose_offline,
    online_replicas,
    Unclean.AS_CONFIGURED,
)
UNCLEAN: Final = Strategy(
    "unclean partition leader election",
    "OfflinePartitionLeaderElectionStrategy(true)",
    _choose_offline,
    online_replicas,
    Unclean.ALWAYS,
)
PREFERRED: Final = Strategy(
    "preferred replica leader election",
    "PreferredReplicaPartitionLeaderElectionStrategy",
    _choose_preferred,
    all_replicas,
)
REASSIGNMENT: Final = Strategy(
    "reassignment leader election",
    "ReassignPartitionLeaderElectionStrategy",
    _choose_among_target,
    _target_replicas,
)
REMAINING: Final = Strategy(
    "leader among the replicas that stay",
    REASSIGNMENT.kafka_name,
    _choose_among_replicas,
    all_replicas,
)
"""When replicas are dropped from a reassignment before it ends (LEADER_MOVED_FIRST)."""
CONTROLLED_SHUTDOWN: Final = Strategy(
    "controlled shutdown leader election",
    "ControlledShutdownPartitionLeaderElectionStrategy",
    _choose_at_shutdown,
    _replicas_not_offline,
)


# Rollback (KB 14.2.2, steps 2 and 3) -------------------------------------------------------------


class TooFewInSync(NamedTuple):
    """Why a rollback cannot proceed: `in_sync` are the originals that are live and in sync, of
    which `needed` are needed."""

    in_sync: tuple[int, ...]
    needed: int


class RollbackGoal(NamedTuple):
    """The replicas to which a rollback returns a partition: its originals. `others` are its other
    replicas, `needed` says how many originals have to be live and in sync before the others are
    removed.
    """

    originals: tuple[int, ...]
    others: tuple[int, ...]
    needed: int


def why_rollback_waits(
    context: ControllerContext, given: ElectionInput, goal: RollbackGoal
) -> TooFewInSync | None:
    """Why replicas other than the originals have to stay; None if they can be removed.

    They stay until enough originals are in sync, dead or not: a dead replica may return with the
    only copy (docs/kip-236-design.md#when-a-rollback-waits).
    """
    isr = given.current.isr
    is_online = online_test(context, given.partition)
    in_sync = tuple(one for one in goal.originals if one in isr and is_online(one))
    is_enough = len(in_sync) >= goal.needed or not goal.others
    return None if is_enough else TooFewInSync(in_sync, goal.needed)


def rollback_leader(
    context: ControllerContext, given: ElectionInput, goal: RollbackGoal
) -> tuple[Elected, TooFewInSync | None]:
    """The leader stays if it is an original, else another original is elected. The ISR keeps its
    originals. Second, why the partition has to wait: None if it has a leader, or is rolled back
    without one.
    """
    partition, current, originals = given.partition, given.current, goal.originals
    # The state in ZooKeeper may have changed since the rollback was found to be possible.
    if too_few := why_rollback_waits(context, given, goal):
        lagging = tuple((one, NOT_IN_SYNC) for one in originals if one not in current.isr)
        return Elected(NO_LEADER, current.isr, passed_over=lagging), too_few
    is_online = online_test(context, partition)
    in_sync = tuple(one for one in current.isr if one in originals)
    if current.leader in in_sync and is_online(current.leader):
        return Elected(current.leader, in_sync), None
    elected = offline_partition_leader(originals, in_sync, is_online, given.allow_unclean)
    return elected if elected.unclean else elected._replace(isr=in_sync), None


# Which partitions need an election --------------------------------------------------------------


def needs_election(context: ControllerContext, partition: Partition, election: str) -> bool:
    """Whether a request for a "preferred" or "unclean" election concerns a partition that has a
    leadership (KB 3.9 step 5).

    Raises ProcedureError for a listed partition without replicas, which has no preferred one.
    """
    if election == "preferred":
        return partition.leader != context.preferred_replica(partition)
    return partition.leader not in context.live_brokers


def by_preferred_replica(context: ControllerContext) -> dict[int, list[Partition]]:
    """The partitions by preferred replica, without the topics that are queued for deletion.

    Raises ProcedureError for a listed partition without replicas.
    """
    groups: dict[int, list[Partition]] = {}
    for partition in context.partitions():
        if not context.is_queued(partition):
            groups.setdefault(context.preferred_replica(partition), []).append(partition)
    return groups


def imbalanced(
    context: ControllerContext,
    configuration: Configuration,
    broker: int,
    partitions: Sequence[Partition],
) -> list[Partition] | None:
    """Of the partitions that prefer a broker, those that the automatic rebalance moves to it (KB
    10.3, 10.4). None if the imbalance is within leader.imbalance.per.broker.percentage."""
    wrong = [
        (one, state.isr)
        for one in partitions
        if (state := one.leadership) is not None and state.leader != broker
    ]
    percentage = configuration.leader_imbalance_per_broker_percentage
    if len(wrong) * 100 <= percentage * len(partitions):
        return None
    return [
        one
        for one, isr in wrong
        if preferred_leader((broker,), isr, online_test(context, one)).leader != NO_LEADER
    ]


# The new states ---------------------------------------------------------------------------------


def first_state(elected: Elected, controller_epoch: int) -> LeaderAndIsr:
    """The state znode of a new partition."""
    return LeaderAndIsr(elected.leader, 0, elected.isr, 0, controller_epoch)


def next_state(
    current: LeaderAndIsr, elected: Elected, controller_epoch: int, *, has_recovery_state: bool
) -> LeaderAndIsr:
    """The state after an election: the leader epoch is raised, an unclean leader is recovering (KB
    4.4.2) where the protocol `has_recovery_state`."""
    return LeaderAndIsr(
        elected.leader,
        current.leader_epoch + 1,
        elected.isr,
        current.partition_epoch,
        controller_epoch,
        RECOVERING if elected.unclean and has_recovery_state else current.recovery_state,
    )


def isr_within_replicas(
    configuration: Configuration, partition: Partition, isr: tuple[int, ...]
) -> tuple[int, ...]:
    """The ISR that is written with a new leader epoch: without brokers that hold no replica any
    more (ISR_WITHIN_REPLICAS)."""
    if not ISR_WITHIN_REPLICAS.applies(configuration):
        return isr
    return tuple(one for one in isr if one in partition.replicas) or isr
