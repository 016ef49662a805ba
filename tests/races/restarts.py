"""Failures and restarts of brokers that a controller does not handle completely."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from controller.core import znodes
from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.commands import Command, CommandId, Reason, WriteZnodes
from controller.core.controller import Controller
from controller.core.operations import Create, SetData
from controller.core.procedures.elections.replica_state_machine import Replicas
from controller.core.procedures.role.unseen_restarts import UnseenRestarts
from controller.core.procedures.znode_changes.broker_change import FAILURE
from controller.core.state import ControllerContext, Partition
from controller.core.state_machines import ReplicaState
from replay.world.inputs import (
    CrashBroker,
    CreateTopic,
    ExpireSession,
    Input,
    KillController,
    StopBroker,
)
from replay.world.scenario import Scenario
from tests.races.clusters import cluster
from tests.races.defect import Defect
from tests.races.planting import Replacement, reach


def _sees_no_restarts(original: Any) -> Callable[[UnseenRestarts, Partition, int], None]:
    """As Kafka's controller, and refold without RESTARTS_SEEN_AT_FAILOVER."""

    def add(self: UnseenRestarts, partition: Partition, mzxid: int) -> None:
        original(self, partition, mzxid)
        if self.members:
            reach()
        self.members.clear()

    return add


def _leaves_failed_in_isr(original: Any) -> Callable[..., Awaitable[None]]:
    async def change_replicas(
        controller: Controller, replicas: Replicas, target: ReplicaState, rule: str, **more: Any
    ) -> None:
        if target is ReplicaState.OFFLINE and rule == FAILURE:
            reach()
            return
        await original(controller, replicas, target, rule, **more)

    return change_replicas


# shutdown-forgotten -------------------------------------------------------------------------------


class _Forgotten(dict[int, int]):
    """The brokers whose shutdown a controller has granted and forgotten, with their broker epochs.
    They belong to one term."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__()
        self.context = context

    @classmethod
    def of(cls, controller: Controller) -> "_Forgotten":
        found: _Forgotten | None = controller.__dict__.get("forgotten")
        if found is None or found.context is not controller.context:
            found = controller.__dict__["forgotten"] = cls(controller.context)
        return found

    def is_shutting_down(self, broker: int) -> bool:
        known = self.context.brokers.get(broker)
        return known is not None and self.get(broker) == known.epoch


def _forgets_what_it_granted(original: Any) -> Callable[..., Awaitable[None]]:
    async def process(controller: Controller, asked: ControlledShutdownReceived) -> None:
        await original(controller, asked)
        broker = controller.context.brokers.get(asked.broker)
        if controller.context.shutting_down.pop(asked.broker, 0) is None and broker is not None:
            _Forgotten.of(controller)[broker.id] = broker.epoch

    return process


def _note_elections(original: Any) -> Callable[[Controller, Command, Reason], CommandId]:
    """Notes whether a broker that is shutting down becomes leader or joins an ISR."""

    def issue(self: Controller, command: Command, reason: Reason) -> CommandId:
        forgotten = _Forgotten.of(self)
        if forgotten and isinstance(command, WriteZnodes):
            for one in command.operations:
                if not isinstance(one, Create | SetData) or not one.path.endswith("/state"):
                    continue
                name = znodes.partition_of_state(one.path)
                partition = self.context.find(*name) if name is not None else None
                state = znodes.read_state(one.path, one.data, 0)
                before = partition.leadership if partition is not None else None
                leader, isr = (before.leader, before.isr) if before is not None else (-1, ())
                new = {state.leader, *state.isr} - {leader, *isr}
                if any(map(forgotten.is_shutting_down, new)):
                    reach()
        found: CommandId = original(self, command, reason)
        return found

    return issue


def _topic_is_created_during_a_shutdown() -> tuple[Scenario, tuple[Input, ...]]:
    return cluster(), (
        StopBroker(5_000, 2, closes_after_ms=3_000),
        CreateTopic(6_000, "clicks", ((2, 1, 3),), route="znode_with_id"),
    )


def _leader_loses_records_during_a_failover() -> tuple[Scenario, tuple[Input, ...]]:
    return cluster(), (
        KillController(8_000, "refold 100", restart_after_ms=20_000),
        CrashBroker(8_001, 1, loses_unflushed=True, restart_after_ms=50),
        ExpireSession(8_002, "broker 1"),
    )


def _broker_fails() -> tuple[Scenario, tuple[Input, ...]]:
    return cluster(), (CrashBroker(5_000, 2, restart_after_ms=15_000),)


DEFECTS: Final[tuple[Defect, ...]] = (
    Defect(
        id="unseen-restart",
        source="KB 12.4.2",
        planted="A failover does not notice that a broker has registered again after the state of "
        "its partitions was written.",
        needs="A member of an ISR registers again while there is no controller.",
        invariants=("acknowledged-records-kept", "read-records-stable"),
        replacements=(
            Replacement(
                "controller.core.procedures.role.unseen_restarts:UnseenRestarts.add",
                _sees_no_restarts,
            ),
        ),
        directed=_leader_loses_records_during_a_failover,
    ),
    Defect(
        id="failed-in-isr",
        source="KB 9.3",
        planted="The replicas of a failed broker do not become OFFLINE: they stay in the ISRs.",
        needs="A broker fails or restarts.",
        invariants=("failed-leave-isr",),
        replacements=(
            Replacement(
                "controller.core.procedures.elections.replica_state_machine:change_replicas",
                _leaves_failed_in_isr,
            ),
        ),
        directed=_broker_fails,
    ),
    Defect(
        id="shutdown-forgotten",
        source="KB 9.5",
        planted="The controller forgets a broker's controlled shutdown as soon as it has granted "
        "it.",
        needs="A broker whose shutdown was granted, and which is still registered, becomes leader "
        "or joins an ISR.",
        invariants=("elected-is-online", "no-ineligible-in-isr"),
        replacements=(
            Replacement(
                "controller.core.procedures.brokers.controlled_shutdown:process_controlled_shutdown",
                _forgets_what_it_granted,
            ),
            Replacement("controller.core.controller:Controller.issue", _note_elections),
        ),
        directed=_topic_is_created_during_a_shutdown,
    ),
)
