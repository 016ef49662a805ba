"""Stuck registrations for `refold health --zookeeper`: the daemon's rule, over several probes.

A broker that has just been killed, or restarts, looks the same as one whose registration is stuck.
So a registration counts as stuck if it looks so twice, and for some time.
"""

import asyncio
from collections.abc import Mapping, Sequence

from controller.brokers.security import PLAIN, BrokerSecurity
from controller.core import znodes
from controller.core.values import Broker, Endpoint
from controller.operator.registrations import StuckRegistration, probe_registrations
from replay.cluster_view.views import ClusterView, StuckRegistrationView


class RegistrationProbes:
    """Remembers for each broker where it was registered, and since when it looks stuck."""

    def __init__(
        self, seconds: float, servers: str | None, security: BrokerSecurity = PLAIN
    ) -> None:
        """`seconds`: how long it must look stuck. `servers` (HOST:PORT,...) are tried for brokers
        that are not registered. `security`: how brokers are asked."""
        self._seconds = seconds
        self._security = security
        given = [one.strip().rpartition(":") for one in (servers or "").split(",") if one]
        self._servers = [security.endpoint(host, int(port)) for host, _, port in given]
        self._endpoints: dict[int, Sequence[Endpoint]] = {}
        self._since: dict[tuple[StuckRegistration, int], float] = {}

    def probe(
        self,
        cluster: ClusterView,
        registered: Sequence[Broker],
        sessions: Mapping[int, int],
        now_s: float,
    ) -> tuple[list[StuckRegistrationView], float | None]:
        """The registrations that are stuck, and in how many seconds another probe may show more;
        None if nothing looks stuck. `sessions` own the registrations, by broker id."""
        epochs = {one.id: one.epoch for one in registered}
        found = asyncio.run(
            probe_registrations(
                registered, self._endpoints_of_lost_brokers(cluster, epochs), self._security
            )
        )
        self._endpoints |= {one.id: one.endpoints for one in registered}
        before, self._since = self._since, {}
        stuck: list[StuckRegistrationView] = []
        due_s: list[float] = []
        for one in found:
            key = one, epochs.get(one.broker, 0)
            since_s = self._since[key] = before.get(key, now_s)
            left_s = since_s + self._seconds - now_s
            if key in before and left_s <= 0:
                stuck.append(_view(one, sessions.get(one.broker, 0)))
            else:
                due_s.append(max(left_s, 0.0))
        return stuck, max(due_s, default=None)

    def without_address(
        self, cluster: ClusterView, registered: Sequence[Broker]
    ) -> tuple[int, ...]:
        """The brokers that are not registered and cannot be probed: no address of them is
        known."""
        epochs = {one.id: one.epoch for one in registered}
        lost = self._endpoints_of_lost_brokers(cluster, epochs)
        return tuple(broker for broker, endpoints in lost.items() if not endpoints)

    def _endpoints_of_lost_brokers(
        self, cluster: ClusterView, registered: Mapping[int, int]
    ) -> dict[int, Sequence[Endpoint]]:
        replicas = {
            broker
            for topic in cluster.topics
            for partition in topic.partitions
            for broker in partition.replicas
        }
        return {
            broker: [*self._endpoints.get(broker, ()), *self._servers]
            for broker in sorted({*replicas, *self._endpoints}.difference(registered))
        }


def _view(one: StuckRegistration, session: int) -> StuckRegistrationView:
    znode = znodes.broker_path(one.broker)
    return StuckRegistrationView(one.broker, znode, one.is_registered, session, one.address)
