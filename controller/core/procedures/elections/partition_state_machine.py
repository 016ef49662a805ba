"""The partition state machine's transitions (ZkPartitionStateMachine.handleStateChanges, KB 4)."""

from collections.abc import Iterable, Sequence

from controller.core.controller import Controller
from controller.core.election import OFFLINE, Strategy
from controller.core.failures import Failures
from controller.core.procedures.elections.leadership import (
    Results,
    elect_leaders,
    initialize_leader_and_isr,
)
from controller.core.procedures.elections.unsent_batches import (
    PARTITIONS,
    report_unsent,
    unsent_kept,
)
from controller.core.state import Partition, sorted_partitions
from controller.core.state_machines import PREVIOUS_PARTITION_STATES, PartitionState


async def change_partitions(
    controller: Controller,
    partitions: list[Partition],
    target: PartitionState,
    rule: str,
    strategy: Strategy | None = None,
) -> Results:
    """Move partitions to `target`; one request batch covers them all (KB 4.1.2).

    When partitions go ONLINE, new ones get their first leader, and the others are elected by
    `strategy`. A transition that the table does not have is reported and skipped. Returns the
    results of the elections (KB 4.1.3).
    """
    name = strategy.name if strategy is not None else ""
    controller.observer.moves_partitions(partitions, target, rule, name)
    if not partitions or report_unsent(controller, PARTITIONS, target.name):
        return {}
    failures = Failures(controller, "partition_state_refused")
    valid = []
    for partition in partitions:
        if partition.state in PREVIOUS_PARTITION_STATES[target]:
            valid.append(partition)
        else:
            failures.add(partition, f"{partition.state.name} may not become {target.name}")
    failures.report()
    if target is PartitionState.ONLINE:
        assert strategy is not None, "going online needs an election strategy"
        return await _bring_online(controller, valid, rule, strategy)
    for partition in valid:
        partition.state = target
    return {}


async def _bring_online(
    controller: Controller, partitions: list[Partition], rule: str, strategy: Strategy
) -> Results:
    batch = controller.new_batch(rule)
    new = [one for one in partitions if one.state is PartitionState.NEW]
    others = [one for one in partitions if one.state is not PartitionState.NEW]
    with unsent_kept(controller, PARTITIONS, batch):
        if new:
            created = await initialize_leader_and_isr(controller, new, batch)
            for partition in created.led:
                partition.state = PartitionState.ONLINE
            others += created.existing
        results = await elect_leaders(controller, others, strategy, batch)
    for partition in results:
        partition.state = PartitionState.ONLINE
    controller.send(batch)
    return results


async def retry_offline_partitions(
    controller: Controller, rule: str, among: Iterable[Partition] | None = None
) -> Results:
    """Elect for all NEW and OFFLINE partitions, or those `among` some.

    triggerOnlinePartitionStateChange (KB 4.2.2).
    """
    waiting = (PartitionState.NEW, PartitionState.OFFLINE)
    context = controller.context
    partitions = [
        one
        for one in (context.partitions() if among is None else among)
        if one.state in waiting and not context.is_queued(one)
    ]
    return await change_partitions(
        controller, sorted_partitions(partitions), PartitionState.ONLINE, rule, OFFLINE
    )


async def start_partition_states(
    controller: Controller, partitions: Sequence[Partition], repaired: Iterable[Partition] = ()
) -> None:
    """Set the states at failover, then elect for partitions without a leader (KB 4.2.1). All other
    partitions are online.

    A leader accepts a repaired assignment or ISR only with a new leader epoch: such a partition is
    elected again, too.
    """
    context = controller.context
    changed = dict.fromkeys(repaired)
    for partition in partitions:
        leadership = partition.leadership
        if leadership is None:
            partition.state = PartitionState.NEW
        elif partition in changed:
            partition.state = PartitionState.OFFLINE
        elif context.is_online(leadership.leader, partition):
            partition.state = PartitionState.ONLINE
        else:
            partition.state = PartitionState.OFFLINE
    rule = "failover: elect for partitions without a leader"
    await retry_offline_partitions(controller, rule, among=partitions)
