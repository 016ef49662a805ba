"""Leaders go back to the preferred replicas by themselves (KB 10)."""

from collections.abc import Sequence

from controller.core.commands import Reason, StartTimer
from controller.core.configuration import Configuration
from controller.core.controller import Controller
from controller.core.election import preferred_leader
from controller.core.procedures.elections.leadership import online_test
from controller.core.procedures.elections.replica_election import elect_preferred
from controller.core.state import ControllerContext, Partition

RULE = "automatic preferred replica election"
FIRST_MS = 5_000


def rebalance_timer(controller: Controller) -> str:
    """The timer of this term: one of an earlier term that fires late means nothing."""
    return f"{RULE}, term {controller.context.epoch}"


def schedule_rebalance(controller: Controller, delay_ms: int) -> None:
    """Look again after a while, if that is configured."""
    if controller.configuration.auto_leader_rebalance_enable:
        controller.issue(StartTimer(rebalance_timer(controller), delay_ms), Reason(RULE))


async def process_rebalance(controller: Controller) -> None:
    """Look at every broker, then wait for the next time (KB 10.1)."""
    interval_ms = controller.configuration.leader_imbalance_check_interval_seconds * 1000
    try:
        await _rebalance(controller)
    except Exception:
        schedule_rebalance(controller, interval_ms)
        raise
    schedule_rebalance(controller, interval_ms)


async def _rebalance(controller: Controller) -> None:
    """checkAndTriggerAutoLeaderRebalance (KB 10.2 to 10.5)."""
    context = controller.context
    groups = by_preferred(context)
    for broker in controller.turns.brokers(groups):
        candidates = to_be_led(context, controller.configuration, broker, groups[broker])
        if candidates is not None:
            await elect_preferred(controller, candidates, RULE)


def to_be_led(
    context: ControllerContext,
    configuration: Configuration,
    broker: int,
    partitions: Sequence[Partition],
) -> list[Partition] | None:
    """Of the partitions that prefer a broker those that it is to lead, and can (KB 10.3, 10.4);
    None where too few are led by others."""
    wrong = [
        one for one in partitions if one.leadership is not None and one.leadership.leader != broker
    ]
    percentage = configuration.leader_imbalance_per_broker_percentage
    if len(wrong) * 100 <= percentage * len(partitions):
        return None
    return [one for one in wrong if _can_lead(context, one)]


def by_preferred(context: ControllerContext) -> dict[int, list[Partition]]:
    """The partitions of topics that stay, by their preferred replica."""
    groups: dict[int, list[Partition]] = {}
    for partition in context.partitions():
        if not context.is_queued(partition):
            groups.setdefault(partition.preferred_replica, []).append(partition)
    return groups


def _can_lead(context: ControllerContext, partition: Partition) -> bool:
    """Whether the preferred replica is online and in the ISR as it is known."""
    state = partition.leadership
    if state is None:
        return False
    is_online = online_test(context, partition)
    return preferred_leader(partition.replicas, state.isr, is_online).leader >= 0
