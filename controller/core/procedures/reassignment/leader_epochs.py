"""Raising the leader epochs of partitions whose leaders stay (updateLeaderEpoch, KB 7.7)."""

from controller.core import znodes
from controller.core.commands import Choice, Reason
from controller.core.controller import Controller
from controller.core.deviations import ISR_WITHIN_REPLICAS
from controller.core.election import isr_within_replicas
from controller.core.errors import ProcedureError
from controller.core.failures import Failures
from controller.core.operations import BAD_VERSION, OK
from controller.core.procedures.elections.leadership import read_states, write_states
from controller.core.procedures.reassignment.assignments import Errors
from controller.core.state import Partition
from controller.core.values import LeaderAndIsr

RAISE = "reassignment: raise the leader epoch"


async def raise_leader_epochs(controller: Controller, partitions: list[Partition]) -> Errors:
    """Write the same leaders and ISRs with new leader epochs (updateLeaderEpoch)."""
    failures = Failures(controller, "leader_epoch_not_raised")
    errors: Errors = {}
    remaining = partitions
    while remaining:
        states = dict(await read_states(controller, remaining, RAISE, failures))
        failures.report()
        for partition in remaining:
            if partition not in states:
                text = f"the leader epoch of {partition} cannot be raised"
                errors[partition] = ProcedureError(text)
        raised = [
            (one, _with_raised_epoch(controller, one, state)) for one, state in states.items()
        ]
        choices = tuple(Choice(*one.key, state.leader, "same leader") for one, state in raised)
        remaining = []
        for partition, written, error in await write_states(
            controller, raised, Reason(RAISE, choices)
        ):
            if error == OK:
                partition.leadership = written
            elif error == BAD_VERSION:
                remaining.append(partition)
            else:
                path = znodes.state_path(*partition.key)
                text = f"{path} cannot be written (ZooKeeper code {error})"
                errors[partition] = ProcedureError(text)
    return errors


async def raise_and_send(controller: Controller, partitions: list[Partition], rule: str) -> Errors:
    """Raise the leader epochs, and send all replicas the assignment that the context has."""
    errors = await raise_leader_epochs(controller, partitions)
    batch = controller.new_batch(rule)
    for partition in partitions:
        if partition not in errors:
            batch.add_leader_and_isr(partition.replicas, partition, is_new=False)
    controller.send(batch)
    return errors


def _with_raised_epoch(
    controller: Controller, partition: Partition, current: LeaderAndIsr
) -> LeaderAndIsr:
    isr = isr_within_replicas(controller.configuration, partition, current.isr)
    if isr != current.isr:
        controller.observer.deviates(ISR_WITHIN_REPLICAS, repr(partition))
    return LeaderAndIsr(
        current.leader,
        current.leader_epoch + 1,
        isr,
        current.partition_epoch,
        controller.context.epoch,
        current.recovery_state,
    )
