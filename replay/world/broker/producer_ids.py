"""How a broker gets blocks of producer ids, which it gives to idempotent producers (KB 11.4)."""

from typing import Final, Literal

from controller.core import znodes
from controller.core.api_requests import ApiResponse
from controller.core.api_requests.producer_ids import AllocateProducerIdsReceived
from controller.core.errors import ZnodeError
from controller.core.operations import BAD_VERSION, NO_NODE, NODE_EXISTS, Create, SetData
from replay.world.broker.context import BrokerContext
from replay.world.broker.controller_channel import ControllerChannel
from replay.world.broker.zookeeper_requests import ZooKeeperRequests
from replay.world.requests import GetData, OperationResult

_BLOCK_SIZE: Final = 1000

Route = Literal["api", "znode"]


class ProducerIdBlocks:
    """By a request to the controller (RPCProducerIdManager) or by the znode (ZkProducerIdManager),
    one block after the other.

    If a request fails, Kafka's broker asks again when the next producer needs an id.
    """

    def __init__(
        self, context: BrokerContext, channel: ControllerChannel, requests: ZooKeeperRequests
    ) -> None:
        self._context = context
        self._channel = channel
        self._requests = requests
        self._is_busy = False

    def allocate(self, route: Route) -> None:
        """A producer needs an id. Nothing happens if a block is being allocated already."""
        if self._is_busy:
            return
        self._is_busy = True
        if route == "znode":
            self._read()
            return
        context = self._context
        request = AllocateProducerIdsReceived(0, 0, context.id, context.epoch)
        self._channel.send(request, self._end_allocation)

    def _end_allocation(self, response: ApiResponse) -> None:
        self._is_busy = False

    def _read(self) -> None:
        self._requests.submit(GetData(znodes.PRODUCER_IDS), self._write_next_block)

    def _write_next_block(self, results: tuple[OperationResult, ...]) -> None:
        """Write the next block, if no other one was written since the read."""
        (found,) = results
        try:
            first = znodes.read_producer_ids(found.data).last + 1 if found.data else 0
        except ZnodeError:
            self._is_busy = False
            return
        block = znodes.ProducerIds(self._context.id, first, first + _BLOCK_SIZE - 1)
        content = znodes.write_producer_ids(block)
        if found.stat is None:
            self._requests.submit(Create(znodes.PRODUCER_IDS, content), self._check_write)
        else:
            change = SetData(znodes.PRODUCER_IDS, content, found.stat.version)
            self._requests.submit(change, self._check_write)

    def _check_write(self, results: tuple[OperationResult, ...]) -> None:
        """If the reply to an earlier attempt was lost, its block is left out."""
        if results[0].error in (BAD_VERSION, NODE_EXISTS, NO_NODE):
            self._read()
        else:
            self._is_busy = False
