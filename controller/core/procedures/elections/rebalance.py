"""Leaders go back to the preferred replicas by themselves (KB 10)."""

from controller.core.commands import Reason, StartTimer
from controller.core.controller import Controller
from controller.core.election import by_preferred_replica, imbalanced
from controller.core.procedures.elections.replica_election import elect_preferred

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
    groups = by_preferred_replica(context)
    for broker in controller.order.brokers(groups):
        candidates = imbalanced(context, controller.configuration, broker, groups[broker])
        if candidates is not None:
            await elect_preferred(controller, candidates, RULE)
