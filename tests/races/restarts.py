"""Failures and restarts of brokers that a controller does not handle completely."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from controller.core.controller import Controller
from controller.core.procedures.elections.replica_state_machine import Replicas
from controller.core.procedures.role.unseen_restarts import UnseenRestarts
from controller.core.procedures.znode_changes.broker_change import FAILURE
from controller.core.state import Partition
from controller.core.state_machines import ReplicaState
from replay.world.inputs import CrashBroker, ExpireSession, Input, KillController
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
)
