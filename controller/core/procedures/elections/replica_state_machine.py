"""The replica state machine's transitions (ZkReplicaStateMachine.handleStateChanges, KB 5)."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from controller.core.batch import RequestBatch
from controller.core.commands import Choice, Reason
from controller.core.controller import Controller
from controller.core.deviations import DAEMON_ID_REPAIRED, DELETION_NEEDS_NO_STATE
from controller.core.election import online_test
from controller.core.failures import Failures
from controller.core.operations import BAD_VERSION, OK
from controller.core.outcomes import SLICE, suspend
from controller.core.pauses import SLICE_SIZE, send_in_slices
from controller.core.prepared_topics import PreparedTopic
from controller.core.procedures.elections.leadership import (
    read_states,
    write_states,
)
from controller.core.procedures.elections.unsent_batches import REPLICAS, report_unsent, unsent_kept
from controller.core.state import ControllerContext, Partition
from controller.core.state_machines import PREVIOUS_REPLICA_STATES, ReplicaState
from controller.core.values import NO_LEADER, Assignment, LeaderAndIsr

Replicas = dict[int, list[Partition]]
"""Replicas by broker, as their partitions."""

Prepared = Mapping[str, PreparedTopic]
"""Topics whose requests are prepared, by name."""

_NONE: Prepared = {}
_SHRUNK: Final = "isr shrunk"
_LAST_MEMBER: Final = "last member of the isr stays"


async def change_replicas(
    controller: Controller,
    replicas: Replicas,
    target: ReplicaState,
    rule: str,
    *,
    notifies_unchanged: bool = True,
    prepared: Prepared = _NONE,
) -> None:
    """Move replicas to `target`, broker after broker, in one request batch (KB 5.1.1). Those of
    `prepared` topics are online already.

    A transition that the table does not have is reported and skipped. When replicas go offline, the
    others are sent LeaderAndIsr; without `notifies_unchanged` only if the ISR changes.
    """
    if not any(replicas.values()) or report_unsent(controller, REPLICAS, target.name):
        return
    batch = controller.new_batch(rule)
    batch.add_prepared(prepared)
    failures = Failures(controller, "replica_state_refused")
    with unsent_kept(controller, REPLICAS, batch):
        for broker in controller.order.brokers(replicas):
            controller.observer.moves_replicas(broker, replicas[broker], target, rule)
            others = _unprepared_partitions(broker, replicas[broker], prepared)
            valid = await _valid(broker, others, target, failures)
            if target is ReplicaState.ONLINE:
                await _bring_online(broker, valid, batch)
            elif target is ReplicaState.OFFLINE:
                await _take_offline(
                    controller, broker, valid, batch, rule, notifies_unchanged=notifies_unchanged
                )
            else:
                await _change_on(broker, valid, target, batch, failures)
    failures.report()
    await send_in_slices(controller, batch)


def _unprepared_partitions(
    broker: int, partitions: list[Partition], prepared: Prepared
) -> list[Partition]:
    known = sum(len(one.online.get(broker, ())) for one in prepared.values())
    if known == len(partitions):
        return []
    return [one for one in partitions if one.topic.name not in prepared]


async def _valid(
    broker: int, partitions: list[Partition], target: ReplicaState, failures: Failures
) -> list[Partition]:
    valid = []
    allowed = PREVIOUS_REPLICA_STATES[target]
    for place, partition in enumerate(partitions):
        state = partition.replica_states.get(broker, ReplicaState.NON_EXISTENT)
        # A replica that has been removed must not get a state again.
        if state in allowed or broker in partition.replicas:
            partition.set_replica_state(broker, state)
        if state in allowed:
            valid.append(partition)
        else:
            failures.add(
                partition, f"its replica on {broker}: {state.name} may not become {target.name}"
            )
        if place % SLICE_SIZE == SLICE_SIZE - 1:
            await suspend(SLICE)
    return valid


async def _change_on(
    broker: int,
    partitions: list[Partition],
    target: ReplicaState,
    batch: RequestBatch,
    failures: Failures,
) -> None:
    """The transitions that do not use ZooKeeper."""
    for place, partition in enumerate(partitions):
        if target is ReplicaState.NEW:
            _make_new(broker, partition, batch, failures)
        elif target is ReplicaState.NON_EXISTENT:
            _forget(broker, partition)
        else:
            partition.set_replica_state(broker, target)
            if target is ReplicaState.DELETION_STARTED:
                batch.add_stop_replica((broker,), partition, delete=True)
        if place % SLICE_SIZE == SLICE_SIZE - 1:
            await suspend(SLICE)


async def _bring_online(broker: int, partitions: list[Partition], batch: RequestBatch) -> None:
    for start in range(0, len(partitions), SLICE_SIZE):
        informed = []
        for partition in partitions[start : start + SLICE_SIZE]:
            if partition.replica_states[broker] is ReplicaState.NEW:
                _assign(broker, partition)
            elif partition.leadership is not None:
                informed.append(partition)
            partition.set_replica_state(broker, ReplicaState.ONLINE)
        batch.add_leader_and_isr_to(broker, informed, is_new=False)
        await suspend(SLICE)


def _assign(broker: int, partition: Partition) -> None:
    assignment = partition.assignment
    if broker not in assignment.replicas:
        partition.assignment = Assignment(
            (*assignment.replicas, broker), assignment.adding, assignment.removing
        )


def _make_new(broker: int, partition: Partition, batch: RequestBatch, failures: Failures) -> None:
    leadership = partition.leadership
    if leadership is not None:
        if leadership.leader == broker:
            failures.add(partition, f"its replica on {broker} leads and cannot be new")
            return
        batch.add_leader_and_isr((broker,), partition, is_new=True)
    partition.set_replica_state(broker, ReplicaState.NEW)


def _forget(broker: int, partition: Partition) -> None:
    def without(replicas: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(one for one in replicas if one != broker)

    assignment = partition.assignment
    partition.assignment = Assignment(
        without(assignment.replicas), without(assignment.adding), without(assignment.removing)
    )
    others = partition.replica_states.items()
    partition.replica_states = {one: state for one, state in others if one != broker}


async def _take_offline(
    controller: Controller,
    broker: int,
    partitions: list[Partition],
    batch: RequestBatch,
    rule: str,
    *,
    notifies_unchanged: bool,
) -> None:
    """Stop the replicas, remove them from the ISR, notify the others (KB 5.1, 5.2)."""
    context = controller.context
    led = []
    for partition in partitions:
        # Its leader epoch is the one before the ISR shrinks (KB 5.2.6).
        batch.add_stop_replica((broker,), partition, delete=False)
        if partition.leadership is not None:
            led.append(partition)
        else:
            batch.add_update_metadata(context.brokers, (partition,))
            partition.set_replica_state(broker, ReplicaState.OFFLINE)
    before = {one: one.leadership for one in led}
    for place, partition in enumerate(await _remove_from_isr(controller, broker, led, rule)):
        is_notified = notifies_unchanged or partition.leadership != before[partition]
        if is_notified and not context.is_queued(partition):
            batch.add_leader_and_isr(
                _remaining_replicas(partition, broker), partition, is_new=False
            )
        partition.set_replica_state(broker, ReplicaState.OFFLINE)
        if place % SLICE_SIZE == SLICE_SIZE - 1:
            await suspend(SLICE)


def _remaining_replicas(partition: Partition, broker: int) -> list[int]:
    return [one for one in partition.assignment.replicas if one != broker]


async def _remove_from_isr(
    controller: Controller, broker: int, partitions: list[Partition], rule: str
) -> list[Partition]:
    """Remove a broker from the ISR of partitions (removeReplicasFromIsr, KB 5.2).

    Returns those whose state is now correct in ZooKeeper and in the context. To delete a topic, no
    state is needed (DELETION_NEEDS_NO_STATE).
    """
    context, own = controller.context, controller.configuration.id_without_replicas
    done: list[Partition] = []
    failures = Failures(controller, "isr_not_shrunk")
    remaining = partitions
    while remaining:
        stateless: list[Partition] = []
        states = await read_states(controller, remaining, rule, failures, stateless, stateless)
        if DELETION_NEEDS_NO_STATE.applies(controller.configuration):
            for partition in stateless:
                if context.is_queued(partition):
                    controller.observer.deviates(DELETION_NEEDS_NO_STATE, repr(partition))
                    done.append(partition)
        remaining = []
        shrunk: list[tuple[Partition, LeaderAndIsr]] = []
        choices = []
        for partition, state in states:
            if broker not in state.isr:
                partition.leadership = _with_epoch(state, context.epoch)
                done.append(partition)
                continue
            new = _state_without(state, broker, context.epoch, own)
            if own in state.isr:
                controller.observer.deviates(DAEMON_ID_REPAIRED, repr(partition))
            shrunk.append((partition, new))
            why = _LAST_MEMBER if broker in new.isr else _SHRUNK
            choices.append(Choice(partition.topic.name, partition.number, new.leader, why))
        for partition, written, error in await write_states(
            controller, shrunk, Reason(f"remove {broker} from ISR", tuple(choices))
        ):
            if error == OK:
                partition.leadership = written
                done.append(partition)
            elif error == BAD_VERSION:
                remaining.append(partition)
            else:
                failures.add(partition, f"its state cannot be written (ZooKeeper code {error})")
    failures.report()
    return done


def _with_epoch(state: LeaderAndIsr, epoch: int) -> LeaderAndIsr:
    """The state that was read, with this controller's epoch (KB 5.2.2)."""
    return LeaderAndIsr(
        state.leader,
        state.leader_epoch,
        state.isr,
        state.partition_epoch,
        epoch,
        state.recovery_state,
    )


def _state_without(state: LeaderAndIsr, broker: int, epoch: int, own: int) -> LeaderAndIsr:
    """The state without the broker, which is in the ISR; the last member stays in it (KB 5.2.3).

    The daemon's id `own` does not count as a member, because no replica could lead if it were the
    last one (DAEMON_ID_REPAIRED).
    """
    members = state.isr
    if own in members:
        members = tuple(one for one in members if one != own)
    return LeaderAndIsr(
        NO_LEADER if state.leader == broker else state.leader,
        state.leader_epoch + 1,
        members if len(members) == 1 else tuple(one for one in members if one != broker),
        state.partition_epoch,
        epoch,
        state.recovery_state,
    )


async def start_replica_states(controller: Controller, prepared: Prepared = _NONE) -> None:
    """Set the states at failover, and send brokers their requests (ReplicaStateMachine.startup, KB
    5.3)."""
    context = controller.context
    online: Replicas = defaultdict(list)
    offline: Replicas = defaultdict(list)
    handled = 0
    for topic in context.topics.values():
        if topic.name in prepared:
            for broker, partitions in prepared[topic.name].online.items():
                online[broker] += partitions
            continue
        for partition in topic.assigned():
            _start_replicas(context, partition, online, offline)
            handled += 1
            if handled % SLICE_SIZE == 0:
                await suspend(SLICE)
    await suspend(SLICE)
    rule = "failover: replicas online"
    await change_replicas(controller, online, ReplicaState.ONLINE, rule, prepared=prepared)
    await change_replicas(controller, offline, ReplicaState.OFFLINE, "failover: replicas offline")


def _start_replicas(
    context: ControllerContext, partition: Partition, online: Replicas, offline: Replicas
) -> None:
    is_online = online_test(context, partition)
    for broker in partition.assignment.replicas:
        if is_online(broker):
            partition.set_replica_state(broker, ReplicaState.ONLINE)
            online[broker].append(partition)
        else:
            partition.set_replica_state(broker, ReplicaState.DELETION_INELIGIBLE)
            offline[broker].append(partition)
