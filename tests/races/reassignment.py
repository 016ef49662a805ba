"""Races of reassignments: R19, R23, R24, R25."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from controller.core.configuration import Configuration
from controller.core.controller import Controller
from controller.core.deviations import LEADER_MOVED_FIRST, Deviation
from controller.core.procedures.reassignment.assignments import Errors, NewAssignment
from controller.core.procedures.reassignment.partition_reassignment import carry_out
from controller.core.procedures.reassignment.reassign_partitions import LegacyZnode, read_legacy
from controller.core.procedures.reassignment_znodes.entries import remove_entries
from controller.core.state import ControllerContext, Partition
from replay.world.inputs import (
    CrashBroker,
    DeleteControllerZnode,
    DeleteTopic,
    Input,
    Reassign,
    StopBroker,
    Target,
)
from replay.world.scenario import Scenario
from tests.races.clusters import cluster
from tests.races.defect import Defect
from tests.races.planting import Replacement, reach

_REASSIGNMENT: Final = "controller.core.procedures.reassignment"
_MOVING: Final = f"{_REASSIGNMENT}.partition_reassignment"
_DELETION: Final = "controller.core.procedures.topics.deletion"

Start = tuple[Scenario, tuple[Input, ...]]


def _gives_up_dead_targets(original: Any) -> Callable[..., Awaitable[None]]:
    async def resume_reassignments(controller: Controller, legacy: LegacyZnode | None) -> None:
        context = controller.context
        dead = [
            one
            for one in context.reassigning
            if any(broker not in context.live_brokers for broker in one.assignment.target)
        ]
        if dead and not context.cancel:
            reach()
            back = [
                NewAssignment(one, one.assignment.reassign_to(one.assignment.origin))
                for one in dead
            ]
            names = {one.key for one in dead}
            await remove_entries(controller, lambda name, target: name in names)
            await carry_out(controller, back)
            legacy = await read_legacy(controller)
        await original(controller, legacy)

    return resume_reassignments


def _ends_no_reassignment(original: Any) -> Callable[[Controller], list[Partition]]:
    def end_reassignments(controller: Controller) -> list[Partition]:
        context = controller.context
        if any(context.is_queued(one) for one in context.reassigning):
            reach()
        return []

    return end_reassignments


def _waits_for_no_reassignment(original: Any) -> Callable[[ControllerContext, str], bool]:
    return lambda context, topic: False


class _NeverApplies(Deviation, frozen=True, kw_only=True):
    """A deviation that is not implemented: the code follows Kafka."""

    def applies(self, configuration: Configuration) -> bool:
        return False


def _without(original: Deviation) -> Deviation:
    return _NeverApplies(
        name=original.name, defect=original.defect, rule=original.rule, source=original.source
    )


def _notes_dropped_in_sync(original: Any) -> Callable[[NewAssignment], tuple[int, ...]]:
    def unwanted(move: NewAssignment) -> tuple[int, ...]:
        found: tuple[int, ...] = original(move)
        state = move.partition.leadership
        if state is not None and any(one in state.isr for one in found):
            reach()
        return found

    return unwanted


def _forgets_leader_epochs(original: Any) -> Callable[..., Awaitable[Errors]]:
    async def start_replicas(controller: Controller, partitions: list[Partition]) -> Errors:
        before = {one: one.leadership for one in partitions}
        errors: Errors = await original(controller, partitions)
        for partition, leadership in before.items():
            if partition.leadership != leadership:
                reach()
                partition.leadership = leadership
        return errors

    return start_replicas


def _target_and_controller_restart() -> Start:
    return cluster(), (
        StopBroker(5_000, 4, restart_after_ms=12_000),
        Reassign(7_000, (Target("orders", 0, (1, 2, 4)),), "znode"),
        DeleteControllerZnode(9_000),
    )


def _topic_is_deleted_while_it_moves() -> Start:
    return cluster(), (
        CrashBroker(5_000, 4, restart_after_ms=9_000),
        Reassign(5_100, (Target("orders", 0, (1, 2, 4)),), "znode"),
        DeleteTopic(9_000, "orders"),
    )


def _leading_target_is_replaced() -> Start:
    """Broker 4 joins the ISR and leads; broker 3, also a target, is down."""
    return cluster(), (
        CrashBroker(5_000, 3, restart_after_ms=None),
        Reassign(6_000, (Target("payments", 0, (4, 3)),)),
        StopBroker(9_000, 1),
        Reassign(16_000, (Target("payments", 0, (2,)),)),
    )


def _partition_moves() -> Start:
    return cluster(), (Reassign(5_000, (Target("orders", 0, (1, 2, 4)),)),)


DEFECTS: Final[tuple[Defect, ...]] = (
    Defect(
        id="R19",
        source="KAFKA-4214, KAFKA-990",
        planted="A new controller gives up the reassignments with a target that is not alive.",
        needs="A failover while a reassignment is under way and one of its targets is down.",
        invariants=("reassignment-not-given-up", "cancellation-restores", "assignment-not-smaller"),
        replacements=(
            Replacement(f"{_REASSIGNMENT}.initiation:resume_reassignments", _gives_up_dead_targets),
        ),
        directed=_target_and_controller_restart,
    ),
    Defect(
        id="R23",
        source="KAFKA-8249",
        planted="The deletion of a topic neither ends nor waits for the reassignments of its "
        "partitions.",
        needs="A topic is queued for deletion while one of its partitions is being reassigned.",
        invariants=(
            "reassignments-ended",
            "deletions-ended",
            "deletions-confirmed",
            "admin-znodes-gone",
            "partitions-led",
            "isrs-full",
            "no-exception",
        ),
        replacements=(
            Replacement(f"{_DELETION}:_end_reassignments", _ends_no_reassignment),
            Replacement(f"{_DELETION}:_is_being_reassigned", _waits_for_no_reassignment),
        ),
        directed=_topic_is_deleted_while_it_moves,
    ),
    Defect(
        id="R24",
        source="KAFKA-14808",
        planted=f"Kafka's rule, without the deviation {LEADER_MOVED_FIRST.name}.",
        needs="A replica that is being added leads or is in sync, and another target is requested.",
        invariants=(
            "partitions-led",
            "leader-in-isr",
            "isr-within-assignment",
            "acknowledged-records-kept",
            "assigned-replicas-kept",
        ),
        replacements=(
            Replacement("controller.core.deviations:LEADER_MOVED_FIRST", _without),
            Replacement(f"{_MOVING}:_dropped_replicas", _notes_dropped_in_sync),
        ),
        directed=_leading_target_is_replaced,
    ),
    Defect(
        id="R25",
        source="KAFKA-9212",
        planted="The leader epoch that begins a reassignment is stored and sent, but not kept in "
        "the context.",
        needs="A reassignment begins or continues.",
        invariants=(
            "sent-states-stored",
            "metadata-forward",
            "metadata-current",
            "reassignments-ended",
            "isrs-full",
            "partitions-led",
        ),
        replacements=(Replacement(f"{_MOVING}:_start_replicas", _forgets_leader_epochs),),
        directed=_partition_moves,
    ),
)
