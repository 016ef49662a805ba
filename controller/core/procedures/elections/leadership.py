"""Giving partitions a leader: the first one (KB 4.3) and the next one (KB 4.4).

Both write through ZooKeeper, take what was written into the state and put the requests that tell
the brokers into the caller's batch.
"""

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import NamedTuple

from controller.core import znodes
from controller.core.batch import RequestBatch
from controller.core.commands import Choice, Reason
from controller.core.controller import Controller
from controller.core.deviations import ISR_WITHIN_REPLICAS, STATE_ADOPTED
from controller.core.election import (
    Elected,
    IsOnline,
    offline_partition_leader,
    preferred_leader,
    reassignment_leader,
)
from controller.core.errors import ZnodeError
from controller.core.operations import (
    BAD_VERSION,
    NO_NODE,
    NODE_EXISTS,
    OK,
    Create,
    SetData,
    WriteOperation,
)
from controller.core.outcomes import SLICE, suspend
from controller.core.procedures.failures import Failures, some
from controller.core.procedures.reassignment.cancel_znode import (
    is_cancelled,
    retry_waiting_rollbacks,
)
from controller.core.state import ControllerContext, Partition
from controller.core.values import NO_LEADER, RECOVERING, LeaderAndIsr
from controller.core.zookeeper_io import read_znodes, write

SLICE_SIZE = 5_000
"""Items that long work handles before it gives the shell a moment."""

Results = dict[Partition, LeaderAndIsr | None]
"""What came of each election: the new leadership, or None where it failed."""

_NO_CHILD = b""


class Candidate(NamedTuple):
    """A partition that needs a leader and what its state znode says now. `originals`: those of its
    reassignment that is cancelled; empty: none is."""

    partition: Partition
    current: LeaderAndIsr
    allow_unclean: bool
    originals: tuple[int, ...] = ()

    @property
    def replicas(self) -> tuple[int, ...]:
        """Who may lead, the preferred one first: RS. Of a reassignment that is cancelled the
        originals, then others that are in sync; so no other becomes an unclean leader, nor a clean
        one while an original can lead (KB 14.2.2, steps 1 and 2)."""
        if not self.originals:
            return self.partition.replicas
        in_sync = [one for one in self.current.isr if one in self.partition.replicas]
        return tuple(dict.fromkeys((*self.originals, *in_sync)))


class Created(NamedTuple):
    """New partitions that have their first leader now, and those that had a state before."""

    led: list[Partition]
    existing: list[Partition]


class Unclean(Enum):
    """Whether a replica outside the ISR may be elected."""

    NEVER = auto()
    AS_CONFIGURED = auto()
    ALWAYS = auto()


class Strategy(NamedTuple):
    """How to elect: the rule's name and Kafka's name for it, whom it chooses, who is sent
    LeaderAndIsr, and whether a reassignment is rolled back by it."""

    name: str
    kafka_name: str
    choose: Callable[[ControllerContext, Candidate], Elected]
    recipients: Callable[[ControllerContext, Partition], Iterable[int]]
    unclean: Unclean = Unclean.NEVER
    is_rollback: bool = False


def online_test(context: ControllerContext, partition: Partition) -> IsOnline:
    """Whether a broker's replica of this partition is online, as a function."""
    if not context.offline_dirs:
        return context.live_brokers.__contains__
    return lambda broker: context.is_online(broker, partition)


def _choose_offline(context: ControllerContext, candidate: Candidate) -> Elected:
    partition = candidate.partition
    return offline_partition_leader(
        candidate.replicas,
        candidate.current.isr,
        online_test(context, partition),
        candidate.allow_unclean,
    )


def _online_replicas(context: ControllerContext, partition: Partition) -> list[int]:
    is_online = online_test(context, partition)
    return [one for one in partition.assignment.replicas if is_online(one)]


def _choose_preferred(context: ControllerContext, candidate: Candidate) -> Elected:
    partition = candidate.partition
    return preferred_leader(
        candidate.replicas, candidate.current.isr, online_test(context, partition)
    )


def _choose_for_reassignment(context: ControllerContext, candidate: Candidate) -> Elected:
    partition = candidate.partition
    return reassignment_leader(
        partition.assignment.target, candidate.current.isr, online_test(context, partition)
    )


def _all_replicas(context: ControllerContext, partition: Partition) -> tuple[int, ...]:
    return partition.replicas


def _target_replicas(context: ControllerContext, partition: Partition) -> tuple[int, ...]:
    return partition.assignment.target


OFFLINE = Strategy(
    "offline partition leader election",
    "OfflinePartitionLeaderElectionStrategy(false)",
    _choose_offline,
    _online_replicas,
    Unclean.AS_CONFIGURED,
)
UNCLEAN = Strategy(
    "unclean partition leader election",
    "OfflinePartitionLeaderElectionStrategy(true)",
    _choose_offline,
    _online_replicas,
    Unclean.ALWAYS,
)
PREFERRED = Strategy(
    "preferred replica leader election",
    "PreferredReplicaPartitionLeaderElectionStrategy",
    _choose_preferred,
    _all_replicas,
)
REASSIGNMENT = Strategy(
    "reassignment leader election",
    "ReassignPartitionLeaderElectionStrategy",
    _choose_for_reassignment,
    _target_replicas,
)


async def create_leadership(
    controller: Controller, partitions: list[Partition], batch: RequestBatch
) -> Created:
    """The first leader and ISR of new partitions (initializeLeaderAndIsrForPartitions, KB 4.3).

    The leader is the first live replica, the ISR all live ones. Those that get none stay as they
    are, and the operator is told; but for those that have a state already, with STATE_ADOPTED.
    """
    context = controller.context
    failures = Failures(controller, "no_leader_created", context.leaderless)
    states: dict[Partition, LeaderAndIsr] = {}
    for partition in partitions:
        live = _online_replicas(context, partition)
        if live:
            states[partition] = LeaderAndIsr(live[0], 0, tuple(live), 0, context.epoch)
        else:
            failures.add(partition, "no replica is online")
    choices = tuple(
        Choice(
            partition.topic.name,
            partition.number,
            state.leader,
            "first live replica",
            _before(partition, state.leader),
        )
        for partition, state in states.items()
    )
    creates = _creates(states)
    writes = await write(controller, creates, Reason("create first leader", choices))
    created = Created([], [])
    adopts = STATE_ADOPTED.applies(controller.configuration)
    for (partition, state), error in zip(
        states.items(), writes.errors[len(creates) - len(states) :], strict=True
    ):
        if error == OK:
            partition.leadership = state
            failures.mended(partition)
            batch.add_leader_and_isr(state.isr, partition, is_new=True)
            created.led.append(partition)
        elif error == NODE_EXISTS and adopts:
            created.existing.append(partition)
        else:
            failures.add(partition, f"its state znode cannot be created (ZooKeeper code {error})")
    failures.tell()
    return created


def _before(partition: Partition, leader: int) -> tuple[tuple[int, str], ...]:
    replicas = partition.assignment.replicas
    return tuple((one, "not online") for one in replicas[: replicas.index(leader)])


def _creates(states: dict[Partition, LeaderAndIsr]) -> list[WriteOperation]:
    """Parents first; they may be there already, their results do not matter (KB 4.3.3)."""
    topics = dict.fromkeys(partition.topic.name for partition in states)
    creates: list[WriteOperation] = []
    creates += [Create(znodes.partitions_path(name), _NO_CHILD) for name in topics]
    creates += [
        Create(znodes.partition_path(one.topic.name, one.number), _NO_CHILD) for one in states
    ]
    creates += [
        Create(znodes.state_path(one.topic.name, one.number), znodes.write_state(state))
        for one, state in states.items()
    ]
    return creates


async def elect_leaders(
    controller: Controller, partitions: list[Partition], strategy: Strategy, batch: RequestBatch
) -> Results:
    """Elect anew (electLeaderForPartitions, KB 4.4), until each succeeded or failed for good.

    A write that meets another version goes round again with what stands in ZooKeeper then.
    """
    results: Results = {}
    failures = Failures(controller, "no_leader_elected", controller.context.leaderless)
    unclean: dict[Partition, None] = {}
    remaining = partitions
    while remaining:
        remaining = await _elect_once(
            controller, remaining, strategy, batch, results, failures, unclean
        )
    failures.tell()
    elected = [one for one in results if results[one] is not None]
    if elected:
        controller.notice("info", "leaders_elected", some(elected), strategy.name)
    if any(one in controller.context.rollback_waiting for one in elected):
        retry_waiting_rollbacks(controller)
    if lost := [one for one in elected if one in unclean]:
        text = f"{strategy.name}: the new leader was not in sync: records may be lost"
        controller.notice("warning", "unclean_leader", some(lost), text)
    return results


async def _elect_once(
    controller: Controller,
    partitions: list[Partition],
    strategy: Strategy,
    batch: RequestBatch,
    results: Results,
    failures: Failures,
    unclean: dict[Partition, None],
) -> list[Partition]:
    """One round; gives the partitions whose version did not fit. `unclean` takes those that a
    cancellation has left a leader that was not in sync."""
    results.update(dict.fromkeys(partitions))
    states = await read_states(controller, partitions, strategy.name, failures)
    originals = await _cancelled(controller, partitions)
    permitted = await _with_unclean_permission(controller, states, strategy, failures)
    candidates = [one._replace(originals=originals.get(one.partition, ())) for one in permitted]
    chosen: list[tuple[Partition, LeaderAndIsr]] = []
    choices: list[Choice] = []
    for place, candidate in enumerate(candidates):
        partition, elected = candidate.partition, strategy.choose(controller.context, candidate)
        controller.follower.elects(partition, strategy.name, candidate.current, elected)
        if elected.leader == NO_LEADER:
            if not strategy.is_rollback:
                failures.add(partition, f"no replica can lead: {_spelt(elected)}")
            continue
        isr = isr_within_replicas(controller, partition, elected.isr)
        elected = elected._replace(isr=isr)
        chosen.append((partition, _next_state(controller, candidate.current, elected)))
        code = "unclean leader" if elected.unclean else strategy.name
        choices.append(
            Choice(
                partition.topic.name, partition.number, elected.leader, code, elected.passed_over
            )
        )
        unclean.pop(partition, None)
        if elected.unclean and (candidate.originals or strategy.is_rollback):
            unclean[partition] = None
        if place % SLICE_SIZE == SLICE_SIZE - 1:
            await suspend(SLICE)
    reason = Reason(strategy.name, tuple(choices))
    again = []
    for partition, state, error in await write_states(controller, chosen, reason):
        if error == OK:
            partition.leadership = results[partition] = state
            failures.mended(partition)
            recipients = strategy.recipients(controller.context, partition)
            batch.add_leader_and_isr(recipients, partition, is_new=False)
        elif error == BAD_VERSION:
            again.append(partition)
        else:
            failures.add(partition, f"its state cannot be written (ZooKeeper code {error})")
    return again


def isr_within_replicas(
    controller: Controller, partition: Partition, isr: tuple[int, ...]
) -> tuple[int, ...]:
    """The ISR that is written with a new leader epoch (ISR_WITHIN_REPLICAS)."""
    configuration = controller.configuration
    if not (configuration.has_kip_236 and ISR_WITHIN_REPLICAS.applies(configuration)):
        return isr
    return tuple(one for one in isr if one in partition.replicas) or isr


async def _cancelled(
    controller: Controller, partitions: list[Partition]
) -> dict[Partition, tuple[int, ...]]:
    """The originals of those whose reassignment /admin/reassign_cancel takes back."""
    records = controller.context.reassignments
    legacy = [one for one in partitions if one in records and records[one].legacy]
    if not legacy or not await is_cancelled(controller):
        return {}
    return {one: records[one].original_replicas for one in legacy}


def _spelt(elected: Elected) -> str:
    return ", ".join(f"{replica} {why}" for replica, why in elected.passed_over) or "it has none"


def _next_state(controller: Controller, current: LeaderAndIsr, elected: Elected) -> LeaderAndIsr:
    recovery = current.recovery_state
    if elected.unclean and controller.protocol.has_leader_recovery_state:
        recovery = RECOVERING
    return LeaderAndIsr(
        elected.leader,
        current.leader_epoch + 1,
        elected.isr,
        current.partition_epoch,
        controller.context.epoch,
        recovery,
    )


async def read_states(
    controller: Controller,
    partitions: list[Partition],
    rule: str,
    failures: Failures,
    stateless: list[Partition] | None = None,
) -> list[tuple[Partition, LeaderAndIsr]]:
    """The state znodes of partitions, those that this controller may change.

    Left out, and told as failures: missing or unreadable ones, which `stateless` takes, and those
    that a later controller has written (KB 4.4).
    """
    stateless = [] if stateless is None else stateless
    epoch = controller.context.epoch
    paths = [znodes.state_path(one.topic.name, one.number) for one in partitions]
    found = await read_znodes(controller, paths, rule)
    states = []
    for place, partition in enumerate(partitions):
        error = found.errors[place]
        if error == NO_NODE:
            failures.add(partition, "it has no state znode")
            stateless.append(partition)
            continue
        if error != OK:
            failures.add(partition, f"its state cannot be read (ZooKeeper code {error})")
            continue
        try:
            state = znodes.read_state(paths[place], found.data[place], found.versions[place])
        except ZnodeError as unreadable:
            failures.add_unreadable(paths[place], str(unreadable))
            stateless.append(partition)
            continue
        if state.controller_epoch > epoch:
            failures.add(
                partition,
                f"controller epoch {state.controller_epoch} wrote it, ours is {epoch}",
            )
            continue
        states.append((partition, state))
        if place % SLICE_SIZE == SLICE_SIZE - 1:
            await suspend(SLICE)
    return states


async def write_states(
    controller: Controller, states: list[tuple[Partition, LeaderAndIsr]], reason: Reason
) -> list[tuple[Partition, LeaderAndIsr, int]]:
    """Write state znodes, each at the version that its value carries.

    Gives each with its new version and ZooKeeper's code.
    """
    writes = await write(
        controller,
        [
            SetData(
                znodes.state_path(partition.topic.name, partition.number),
                znodes.write_state(state),
                state.partition_epoch,
            )
            for partition, state in states
        ],
        reason,
    )
    return [
        (
            partition,
            LeaderAndIsr(
                state.leader,
                state.leader_epoch,
                state.isr,
                version,
                state.controller_epoch,
                state.recovery_state,
            ),
            error,
        )
        for (partition, state), error, version in zip(
            states, writes.errors, writes.versions, strict=True
        )
    ]


async def _with_unclean_permission(
    controller: Controller,
    states: list[tuple[Partition, LeaderAndIsr]],
    strategy: Strategy,
    failures: Failures,
) -> list[Candidate]:
    """Which of them may get an unclean leader (collectUncleanLeaderElectionState, KB 4.4.1).

    Only those without an online ISR member can need it; for them the topic's configuration is
    read, else the controller's own setting counts.
    """
    if strategy.unclean is Unclean.NEVER:
        return [Candidate(partition, state, False) for partition, state in states]
    context = controller.context
    needing = [
        partition
        for partition, state in states
        if not any(map(online_test(context, partition), state.isr))
    ]
    topics = sorted({partition.topic.name for partition in needing})
    if strategy.unclean is Unclean.ALWAYS:
        allowed = dict.fromkeys(topics, True)
    else:
        allowed = await _unclean_topics(controller, topics, failures)
    permitted = {partition for partition in needing if allowed.get(partition.topic.name) is True}
    refused = {partition for partition in needing if partition.topic.name not in allowed}
    for partition, _ in states:
        if partition in refused:
            failures.add(partition, "the configuration of its topic cannot be read")
    states = [(one, state) for one, state in states if one not in refused]
    return [Candidate(partition, state, partition in permitted) for partition, state in states]


async def _unclean_topics(
    controller: Controller, topics: list[str], failures: Failures
) -> dict[str, bool]:
    """Whether each topic allows unclean leaders; those whose configuration is bad are left out."""
    paths = [znodes.topic_config_path(topic) for topic in topics]
    found = await read_znodes(controller, paths, "unclean leader election of the topics")
    allowed: dict[str, bool] = {}
    for topic, path, error, data in zip(topics, paths, found.errors, found.data, strict=True):
        if error not in (OK, NO_NODE):
            continue
        try:
            overrides = znodes.read_config(path, data)
        except ZnodeError as unreadable:
            failures.add_unreadable(path, str(unreadable))
            continue
        setting = overrides.get("unclean.leader.election.enable")
        default = controller.context.unclean_default
        allowed[topic] = default if setting is None else setting.strip().lower() == "true"
    return allowed
