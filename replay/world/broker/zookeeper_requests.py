"""Requests of a broker to ZooKeeper, repeated until there is a reply
(KafkaZkClient.retryRequestUntilConnected)."""

from collections.abc import Callable

from controller.core.operations import SESSION_EXPIRED
from replay.world.requests import OperationResult, Reply, Request
from replay.world.zookeeper_client import ProcessSession

OnResults = Callable[[tuple[OperationResult, ...]], None]


class ZooKeeperRequests:
    """A request without a reply is sent again when the client is connected again, also in a new
    session. So the failure of a write may be caused by its first attempt."""

    def __init__(self) -> None:
        self._client: ProcessSession | None = None
        self._unanswered: list[tuple[Request, OnResults]] = []

    def set_client(self, client: ProcessSession) -> None:
        """Send requests with this client from now on."""
        self._client = client

    def submit(self, request: Request, on_results: OnResults) -> None:
        """Send a request until it is answered."""
        assert self._client is not None

        def on_reply(reply: Reply | None) -> None:
            if reply is None or reply.results[0].error == SESSION_EXPIRED:
                self._unanswered.append((request, on_results))
            else:
                on_results(reply.results)

        self._client.submit(request, on_reply)

    def reconnected(self) -> None:
        """The client is connected again."""
        unanswered, self._unanswered = self._unanswered, []
        for request, on_results in unanswered:
            self.submit(request, on_results)

    def forget(self) -> None:
        """The broker ends."""
        self._unanswered.clear()
