"""The automatic rebalance: leaders move back to the preferred replicas (KB 10)."""

from controller.core.commands import Reason, StartTimer
from controller.core.controller import Controller
from controller.core.election import by_preferred_replica, imbalanced
from controller.core.procedures.elections.replica_election import elect_preferred

RULE = "automatic preferred replica election"
FIRST_MS = 5_000


def rebalance_timer(controller: Controller) -> str:
    """The timer of this term; a late one of an earlier term is ignored."""
    return f"{RULE}, term {controller.context.epoch}"


def schedule_rebalance(controller: Controller, delay_ms: int) -> None:
    """Start the timer, if the automatic rebalance is configured."""
    if controller.configuration.auto_leader_rebalance_enable:
        controller.issue(StartTimer(rebalance_timer(controller), delay_ms), Reason(RULE))


async def process_rebalance(controller: Controller) -> None:
    """Check every broker, then start the timer again (KB 10.1)."""
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
        needing = imbalanced(context, controller.configuration, broker, groups[broker])
        if needing is not None:
            await elect_preferred(controller, needing, RULE)
