"""Which clients may send requests of brokers: those with ClusterAction on the cluster."""

from collections.abc import Callable

from controller.api.front.daemon_queries import DaemonQueries
from controller.api.messages import ReadBrokerRight
from controller.core.api_requests.received_request import ClientIdentity
from controller.core.configuration import Authorization


class BrokerRights(DaemonQueries[ReadBrokerRight, bool]):
    """Asks the daemon about clients that are no super users.

    The response only selects the limits of a request. The controller decides about it.
    """

    def __init__(
        self, send: Callable[[ReadBrokerRight], None], authorization: Authorization | None
    ) -> None:
        super().__init__(send)
        self._authorization = authorization

    async def has(self, client: ClientIdentity | None) -> bool:
        """Whether a client may send such requests; every client may if there is no authorizer."""
        if self._authorization is None or client is None:
            return True
        if client.principal in self._authorization.super_users:
            return True
        return await self.ask(lambda number: ReadBrokerRight(number, client))
