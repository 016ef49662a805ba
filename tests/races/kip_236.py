"""Races of KIP-236: cancellations, the steps of a rollback, extra entries and requests."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, Literal

import msgspec

from controller.core.batch import RequestBatch
from controller.core.commands import BrokerRequest, Reason, UpdateMetadataRequest
from controller.core.controller import Controller
from controller.core.election import ElectionInput, RollbackGoal, TooFewInSync
from controller.core.operations import OK, WriteOperation
from controller.core.procedures.reassignment import rollback
from controller.core.procedures.reassignment.assignments import Errors, NewAssignment
from controller.core.procedures.reassignment.partition_reassignment import carry_out
from controller.core.procedures.reassignment.reassign_partitions import LegacyZnode
from controller.core.procedures.reassignment.recovery import Sources
from controller.core.procedures.reassignment.rollback import Rollback, RollbackCause, Step
from controller.core.procedures.reassignment.submission import problem_with
from controller.core.procedures.reassignment_znodes.cancel_znode import is_cancelled
from controller.core.procedures.reassignment_znodes.records import remove_records
from controller.core.state import ControllerContext, EntrySeen, Partition
from controller.core.values import Assignment
from controller.core.znodes import Entry, Name
from replay.world.inputs import (
    CancelReassignment,
    CrashBroker,
    CrashController,
    EndCancellation,
    HoldLink,
    Input,
    KillController,
    Reassign,
    StopBroker,
    Target,
)
from replay.world.scenario import Scenario
from tests.races.clusters import cluster
from tests.races.defect import Defect
from tests.races.planting import Replacement, reach

_REASSIGNMENT: Final = "controller.core.procedures.reassignment"
_ZNODES: Final = "controller.core.procedures.reassignment_znodes"
_SOURCE: Final = "KIP-236"
_LONG_AFTER: Final = 1 << 60

Start = tuple[Scenario, tuple[Input, ...]]
Route = Literal["api", "znode", "extra", "request", "legacy_request"]
_TO_4: Final = (Target("orders", 0, (1, 2, 4)),)


# What is planted ----------------------------------------------------------------------------------


def _completes_anyway(original: Any) -> Callable[..., Awaitable[Errors]]:
    async def reassign(controller: Controller, moves: list[NewAssignment]) -> Errors:
        moving = any(one.assignment.is_being_reassigned for one in moves)
        if moving and await is_cancelled(controller):
            reach()
        return await carry_out(controller, moves)

    return reassign


def _never_waits(original: Any) -> Callable[..., TooFewInSync | None]:
    def why_rollback_waits(
        context: ControllerContext, given: ElectionInput, goal: RollbackGoal
    ) -> TooFewInSync | None:
        if original(context, given, goal) is not None:
            reach()
        return None

    return why_rollback_waits


class _StepOne:
    """Step 1 is in memory only, so a new controller has to take it again. This one does not.

    A controller that ends meanwhile never leaves its failover, so it is kept which one that is."""

    def __init__(self) -> None:
        self._in_failover: Controller | None = None

    def mark_failover(self, original: Any) -> Callable[..., Awaitable[None]]:
        async def cancel(controller: Controller, sources: Sources) -> None:
            self._in_failover = controller
            try:
                await original(controller, sources)
            finally:
                if self._in_failover is controller:
                    self._in_failover = None

        return cancel

    def skip(self, original: tuple[Step, ...]) -> tuple[Step, ...]:
        first, *others = original

        async def take_originals(controller: Controller, moves: Rollback) -> None:
            if self._in_failover is controller:
                reach()
            else:
                await first(controller, moves)

        return take_originals, *others


_STEP_ONE: Final = _StepOne()


def _resumes_no_rollback(original: Any) -> Callable[..., Awaitable[list[Partition]]]:
    async def recover(controller: Controller, legacy: LegacyZnode) -> list[Partition]:
        context = controller.context
        if not context.cancel:
            found: list[Partition] = await original(controller, legacy)
            return found
        if legacy.entries or any(one.legacy for one in context.reassignments.values()):
            reach()
        return []

    return recover


def _dates_entries_by_failover(original: Any) -> Callable[..., Awaitable[LegacyZnode]]:
    async def load_reassignments(controller: Controller, *, may_pause: bool) -> LegacyZnode:
        legacy: LegacyZnode = await original(controller, may_pause=may_pause)
        seen = controller.context.entries_seen
        for name, entry in list(seen.items()):
            if entry.mzxid < controller.context.cancel:
                reach()
            seen[name] = EntrySeen(entry.replicas, _LONG_AFTER, entry.is_requested)
        return legacy

    return load_reassignments


def _leaves_ended_entries(original: Any) -> Callable[..., Awaitable[None]]:
    async def forget_ended(controller: Controller, ended: list[Partition]) -> None:
        await remove_records(controller, ended)

    return forget_ended


def _takes_step_2_for_the_end(original: Any) -> Callable[..., Awaitable[list[Partition]]]:
    async def roll_back(
        controller: Controller, originals: dict[Partition, tuple[int, ...]], cause: RollbackCause
    ) -> list[Partition]:
        epoch = controller.context.epoch
        over = [
            one
            for one, replicas in originals.items()
            if one.leadership is not None
            and one.leadership.controller_epoch < epoch
            and one.leadership.leader in replicas
            and set(one.leadership.isr) <= set(replicas)
            and one.assignment != Assignment(replicas)
        ]
        if over:
            reach()
            await rollback._forget(controller, over, cause)
        rest = {one: originals[one] for one in originals if one not in over}
        done: list[Partition] = await original(controller, rest, cause)
        return over + done

    return roll_back


def _stores_no_deletion(original: Any) -> Callable[[Controller], Awaitable[None]]:
    async def store_deletions(controller: Controller) -> None:
        if any(one.names and not one.is_stored for one in controller.context.deletions.values()):
            reach()

    return store_deletions


def _forgets_before_storing(original: tuple[Step, ...]) -> tuple[Step, ...]:
    first, second, third, fourth, store, remove, last = original

    async def remove_first(controller: Controller, moves: Rollback) -> None:
        reach()
        await remove(controller, moves)

    return first, second, third, fourth, remove_first, store, last


def _spares_known_metadata(original: Any) -> Callable[[RequestBatch], Iterator[BrokerRequest]]:
    def requests(self: RequestBatch) -> Iterator[BrokerRequest]:
        epoch = self._context.epoch
        for one in original(self):
            if isinstance(one, UpdateMetadataRequest) and self.rule.startswith("failover"):
                reach()
                new = tuple(
                    each for each in one.partitions if each.leadership.controller_epoch == epoch
                )
                yield msgspec.structs.replace(one, partitions=new)
            else:
                yield one

    return requests


def _moves_in_two_writes(original: Any) -> Callable[..., Awaitable[list[int]]]:
    async def write_together(
        controller: Controller, operations: list[WriteOperation], reason: Reason
    ) -> list[int]:
        if (
            reason.rule != "extra reassignments: into /admin/reassign_partitions"
            or len(operations) != 2
        ):
            together: list[int] = await original(controller, operations, reason)
            return together
        reach()
        into, out = operations
        removed: list[int] = await original(controller, [out], reason)
        if any(removed):
            return [OK, *removed]
        added: list[int] = await original(controller, [into], reason)
        return [*added, *removed]

    return write_together


def _leaves_refused_entries(original: Any) -> Callable[..., Awaitable[None]]:
    async def remove_refused(controller: Controller, refused: dict[Name, tuple[int, ...]]) -> None:
        if refused:
            reach()

    return remove_refused


def _takes_entries_of_any_route(original: Any) -> Callable[..., bool]:
    def is_possible(controller: Controller, path: str, name: Name, entry: Entry) -> bool:
        if not problem_with(controller, name, entry.replicas):
            return True
        possible: bool = original(controller, path, name, entry)
        return possible

    return is_possible


# Directed runs ------------------------------------------------------------------------------------


def _slow_move(*inputs: Input, by: Route = "znode", ms: int = 10_000) -> Start:
    """orders-0 moves to broker 4, which cannot fetch for some time."""
    return cluster(), (
        HoldLink(4_900, "broker 4", "broker 1", ms),
        Reassign(5_000, _TO_4, by),
        *inputs,
    )


def _cancelled(*inputs: Input) -> Start:
    return _slow_move(CancelReassignment(6_000, (), "znode"), *inputs, EndCancellation(20_000))


def _move_by_api_is_held() -> Start:
    cancel, end = CancelReassignment(6_000, (), "znode"), EndCancellation(20_000)
    return _slow_move(cancel, end, by="api", ms=3_000)


def _target_has_the_only_copy() -> Start:
    return cluster(), (
        CrashBroker(5_000, 3, restart_after_ms=None),
        Reassign(6_000, (Target("payments", 0, (4, 3)),), "znode"),
        StopBroker(9_000, 1),
        StopBroker(9_500, 2),
        CancelReassignment(11_000, (), "znode"),
    )


def _fails_before_the_state() -> Start:
    return _cancelled(CrashController(6_000, "refold 100", 1, "before"))


def _fails_after_the_state() -> Start:
    return _cancelled(CrashController(6_000, "refold 100", 1, "after"))


def _fails_before_the_deletion_arrives() -> Start:
    return _cancelled(
        HoldLink(5_900, "refold 100", "broker 4", 3_000), KillController(6_100, "refold 100")
    )


def _fails_after_the_originals_are_stored() -> Start:
    return _cancelled(CrashController(6_000, "refold 100", 12, "after"))


def _fails_before_metadata() -> Start:
    """Broker 1 restarts. The preferred leaders are elected at 9 s, and the controller fails."""
    return cluster(), (
        StopBroker(5_000, 1, restart_after_ms=2_000),
        CrashController(9_040, "refold 100", 1, "after"),
    )


def _entry_by_extra() -> Start:
    return cluster(), (Reassign(5_000, _TO_4, "extra"),)


def _entry_and_request() -> Start:
    other = (Target("orders", 0, (4, 2, 3)),)
    return cluster(), (Reassign(5_000, _TO_4, "znode"), Reassign(5_004, other, "request"))


DEFECTS: Final[tuple[Defect, ...]] = (
    Defect(
        id="kip-236-cancel-completion",
        source=_SOURCE,
        planted="A reassignment completes although /admin/reassign_cancel exists.",
        needs="The targets of a reassignment catch up while /admin/reassign_cancel exists.",
        invariants=("nothing-completes-while-cancelled", "cancelled-rolled-back"),
        replacements=(
            Replacement(f"{_REASSIGNMENT}.partition_reassignment:reassign", _completes_anyway),
        ),
        directed=_move_by_api_is_held,
    ),
    Defect(
        id="kip-236-originals-gone",
        source=_SOURCE,
        planted="A rollback does not wait until originals are live and in sync.",
        needs="A cancellation when too few originals are live and in sync.",
        invariants=(
            "rollback-keeps-in-sync",
            "acknowledged-records-kept",
            "assigned-replicas-kept",
            "isr-within-assignment",
            "leader-in-isr",
            "partitions-led",
        ),
        replacements=(Replacement("controller.core.election:why_rollback_waits", _never_waits),),
        directed=_target_has_the_only_copy,
    ),
    Defect(
        id="kip-236-failover-1-2",
        source=_SOURCE,
        planted="A new controller does not take step 1, which an earlier one has taken in memory.",
        needs="A failover while the cancellation and its entries exist, before step 5 is stored.",
        invariants=(
            "records-outlive-moves",
            "cancellation-restores",
            "reassignments-ended",
            "assigned-replicas-kept",
            "isrs-full",
        ),
        replacements=(
            Replacement(f"{_REASSIGNMENT}.recovery:_cancel", _STEP_ONE.mark_failover),
            Replacement(f"{_REASSIGNMENT}.rollback:STEPS", _STEP_ONE.skip),
        ),
        directed=_fails_before_the_state,
    ),
    Defect(
        id="kip-236-failover-2-3",
        source=_SOURCE,
        planted="A rollback whose step 2 an earlier controller has done counts as done.",
        needs="A failover after step 2 or before, while the originals are the ISR.",
        invariants=("records-outlive-moves", "cancelled-rolled-back"),
        replacements=(
            Replacement(f"{_REASSIGNMENT}.rollback:roll_back", _takes_step_2_for_the_end),
        ),
        directed=_fails_after_the_state,
    ),
    Defect(
        id="kip-236-failover-3-4",
        source=_SOURCE,
        planted="A new controller does not resume a rollback.",
        needs="A failover while the cancellation and its entries exist.",
        invariants=(
            "cancelled-rolled-back",
            "older-entries-removed",
            "cancelled-entries-gone",
            "reassignments-ended",
        ),
        replacements=(Replacement(f"{_REASSIGNMENT}.recovery:recover", _resumes_no_rollback),),
        directed=_fails_after_the_state,
    ),
    Defect(
        id="kip-236-failover-4-5",
        source=_SOURCE,
        planted="The deletions of step 4 are not stored.",
        needs="A failover before a broker has deleted the replica that was removed from it.",
        invariants=("strays-deleted",),
        replacements=(
            Replacement(f"{_REASSIGNMENT}.replica_deletion:_store_deletions", _stores_no_deletion),
        ),
        directed=_fails_before_the_deletion_arrives,
    ),
    Defect(
        id="kip-236-steps-5-6",
        source=_SOURCE,
        planted="Step 6 comes before step 5.",
        needs="A rollback.",
        invariants=("records-outlive-moves", "cancelled-rolled-back"),
        replacements=(Replacement(f"{_REASSIGNMENT}.rollback:STEPS", _forgets_before_storing),),
        directed=_cancelled,
    ),
    Defect(
        id="kip-236-failover-5-6",
        source=_SOURCE,
        planted="A new controller leaves the entries of reassignments that were rolled back, and "
        "takes all entries for younger than the cancellation.",
        needs="A failover between step 5 and step 6, or with entries that have not begun.",
        invariants=("older-entries-removed", "cancelled-entries-gone"),
        replacements=(
            Replacement(f"{_REASSIGNMENT}.recovery:_forget_ended", _leaves_ended_entries),
            Replacement(f"{_REASSIGNMENT}.recovery:load_reassignments", _dates_entries_by_failover),
        ),
        directed=_fails_after_the_originals_are_stored,
    ),
    Defect(
        id="kip-236-failover-6-7",
        source=_SOURCE,
        planted="A new controller sends no metadata of the states that earlier ones wrote.",
        needs="A failover between the write of a state and its UpdateMetadata requests.",
        invariants=("metadata-current",),
        replacements=(
            Replacement("controller.core.batch:RequestBatch.requests", _spares_known_metadata),
        ),
        directed=_fails_before_metadata,
    ),
    Defect(
        id="kip-236-extra-half-moved",
        source=_SOURCE,
        planted="An entry of the extra znode is removed there, then written to "
        "/admin/reassign_partitions.",
        needs="An entry of the extra znode.",
        invariants=("entries-accounted-for", "reassignments-ended"),
        replacements=(
            Replacement("controller.core.zookeeper_io:write_together", _moves_in_two_writes),
        ),
        directed=_entry_by_extra,
    ),
    Defect(
        id="kip-236-legacy-against-request",
        source=_SOURCE,
        planted="An entry that is refused because of a request stays in its znode.",
        needs="An entry of /admin/reassign_partitions and a request for one partition.",
        invariants=("reassignments-ended", "admin-znodes-gone"),
        replacements=(
            Replacement(f"{_REASSIGNMENT}.kip236_requests:remove_refused", _leaves_refused_entries),
            Replacement(f"{_REASSIGNMENT}.submission:is_possible", _takes_entries_of_any_route),
        ),
        directed=_entry_and_request,
    ),
)
