"""Brokers that registered again while nobody was controller (RESTARTS_SEEN_AT_FAILOVER).

A controller treats a broker that registers again as failed and started (KB 3.3.5). If there was no
controller, the next one finds only that the registration is younger than the partition's state.
"""

from controller.core import election
from controller.core.controller import Controller
from controller.core.deviations import RESTARTS_SEEN_AT_FAILOVER
from controller.core.election import Elected, ElectionInput, Strategy, online_test
from controller.core.procedures.elections.leadership import elect_leaders
from controller.core.state import ControllerContext, Partition

_RULE = "failover: brokers have restarted"


class UnseenRestarts:
    """The brokers that registered after the previous election of a controller, and the members of
    each ISR that registered after the partition's state was written."""

    def __init__(self, controller: Controller) -> None:
        context = controller.context
        applies = RESTARTS_SEEN_AT_FAILOVER.applies(controller.configuration)
        self._registered = {
            id: broker.epoch
            for id, broker in context.brokers.items()
            if applies and broker.epoch > context.previous_election
        }
        self._latest = max(self._registered.values(), default=0)
        self.members: dict[Partition, tuple[int, ...]] = {}

    def add(self, partition: Partition, mzxid: int) -> None:
        """Note the members of its ISR that registered after the transaction `mzxid`."""
        state = partition.leadership
        if self._latest <= mzxid or state is None:
            return
        restarted = tuple(one for one in state.isr if self._registered.get(one, 0) > mzxid)
        if restarted:
            self.members[partition] = restarted


async def elect_after_restarts(controller: Controller, restarts: UnseenRestarts) -> None:
    """Write new states of the partitions. The failover's own requests inform the brokers."""

    def choose(context: ControllerContext, given: ElectionInput) -> Elected:
        current, is_online = given.current, online_test(context, given.partition)
        members = restarts.members[given.partition]
        return election.leader_after_restarts(
            given.replicas, current.leader, current.isr, members, is_online
        )

    partitions = [one for one in restarts.members if _has_candidate(controller, restarts, one)]
    if partitions:
        strategy = Strategy(_RULE, _RULE, choose, election.all_replicas)
        await elect_leaders(controller, partitions, strategy, controller.new_batch(_RULE))


def _has_candidate(controller: Controller, restarts: UnseenRestarts, partition: Partition) -> bool:
    """Whether the partition can be led. If not, the failover elects for it like for any other."""
    is_online = online_test(controller.context, partition)
    state, restarted = partition.leadership, restarts.members[partition]
    in_sync = state.isr if state is not None else ()
    return is_online(partition.leader) or any(
        is_online(one) for one in in_sync if one not in restarted
    )
