"""Brokers that registered again while there was no controller (RESTARTS_SEEN_AT_FAILOVER).

A controller treats a broker that registers again as failed and started (KB 3.3.5). If there was no
controller, the next one finds only that the registration is younger than the partition's state.
"""

from collections.abc import Iterable

from controller.core import election
from controller.core.controller import Controller
from controller.core.deviations import RESTARTS_SEEN_AT_FAILOVER
from controller.core.procedures.elections.leadership import elect_leaders
from controller.core.state import ControllerContext, Partition, sorted_partitions
from controller.core.values import NO_LEADER, LeaderAndIsr

_RULE = "failover: brokers have restarted"


class UnseenRestarts:
    """The members of each ISR that registered after the partition's state was written. `latest`:
    the last registration; a state that was written after it has no such members."""

    def __init__(self, controller: Controller) -> None:
        context = controller.context
        applies = RESTARTS_SEEN_AT_FAILOVER.applies(controller.configuration)
        self._registered = {id: broker.epoch for id, broker in context.brokers.items() if applies}
        self.latest = max(self._registered.values(), default=0)
        self.members: dict[Partition, tuple[int, ...]] = {}

    def add_known(self, mzxids: Iterable[tuple[Partition, int]]) -> None:
        """Note, for the partitions whose states a standby knows, the members of the ISR that
        registered after the transaction `mzxid`."""
        if self.latest:
            for partition, mzxid in mzxids:
                self.add(partition, mzxid)
            self.members = {one: self.members[one] for one in sorted_partitions(self.members)}

    def add(self, partition: Partition, mzxid: int) -> None:
        """Note the members of its ISR that registered after the transaction `mzxid`."""
        state = partition.leadership
        if self.latest <= mzxid or state is None:
            return
        restarted = tuple(one for one in state.isr if self._registered.get(one, 0) > mzxid)
        if restarted:
            self.members[partition] = restarted


async def elect_after_restarts(controller: Controller, restarts: UnseenRestarts) -> None:
    """Write new states of the partitions. The failover's own requests inform the brokers.

    Partitions without a candidate are left to the failover's elections.
    """
    context = controller.context

    def elected(
        partition: Partition, state: LeaderAndIsr, replicas: tuple[int, ...]
    ) -> election.Elected:
        members, is_online = restarts.members[partition], election.online_test(context, partition)
        return election.leader_after_restarts(replicas, state.leader, state.isr, members, is_online)

    def choose(_: ControllerContext, given: election.ElectionInput) -> election.Elected:
        return elected(given.partition, given.current, given.replicas)

    partitions = [
        one
        for one in restarts.members
        if one.leadership is not None
        and elected(one, one.leadership, one.replicas).leader != NO_LEADER
    ]
    for partition in partitions:
        controller.observer.deviates(RESTARTS_SEEN_AT_FAILOVER, repr(partition))
    strategy = election.Strategy(_RULE, _RULE, choose, election.all_replicas)
    await elect_leaders(controller, partitions, strategy, controller.new_batch(_RULE))
