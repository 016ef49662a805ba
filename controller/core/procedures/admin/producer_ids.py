"""Blocks of producer ids for brokers (processAllocateProducerIds, KB 11.4)."""

from controller.core import error_codes, znodes
from controller.core.api_requests.producer_ids import (
    AllocateProducerIdsReceived,
    AllocateProducerIdsResponse,
)
from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.errors import ProcedureError, ZnodeError
from controller.core.operations import BAD_VERSION, NO_NODE, NODE_EXISTS, OK, Create, SetData
from controller.core.zookeeper_io import read_znodes, write

_RULE = AllocateProducerIdsReceived.RULE
_BLOCK_SIZE = 1000
_ID_MAX = 2**63 - 1


async def process_allocate_producer_ids(
    controller: Controller, request: AllocateProducerIdsReceived
) -> None:
    """Allocate the next block to the broker that asks, once the block is stored."""
    error, first = _error_of_request(controller, request), 0
    if not error:
        try:
            first = await _next_block(controller, request.broker)
        except (ProcedureError, ZnodeError) as failure:
            controller.notice("error", "no_producer_ids", znodes.PRODUCER_IDS, str(failure))
            error = error_codes.UNKNOWN_SERVER_ERROR
    length = 0 if error else _BLOCK_SIZE
    answer = AllocateProducerIdsResponse(request.request, error, first, length)
    controller.issue(answer, Reason(_RULE))


def _error_of_request(controller: Controller, request: AllocateProducerIdsReceived) -> int:
    broker = controller.context.brokers.get(request.broker)
    if broker is None:
        return error_codes.BROKER_ID_NOT_REGISTERED
    if broker.epoch != request.broker_epoch:
        return error_codes.STALE_BROKER_EPOCH
    return error_codes.NONE


async def _next_block(controller: Controller, broker: int) -> int:
    """The first id of the next block. Brokers of an older protocol allocate blocks too.

    Raises ProcedureError if all ids are allocated or ZooKeeper refuses the write, ZnodeError for
    bad content.
    """
    while True:
        found = await read_znodes(controller, [znodes.PRODUCER_IDS], _RULE)
        data = found.data[0]
        first = znodes.read_producer_ids(data).last + 1 if data else 0
        last = first + _BLOCK_SIZE - 1
        if last > _ID_MAX:
            raise ProcedureError("all producer ids are allocated")
        content = znodes.write_producer_ids(znodes.ProducerIds(broker, first, last))
        operation: Create | SetData = SetData(znodes.PRODUCER_IDS, content, found.versions[0])
        if found.errors[0] == NO_NODE:
            operation = Create(znodes.PRODUCER_IDS, content)
        error = (await write(controller, [operation], Reason(_RULE))).errors[0]
        if error == OK:
            return first
        if error not in (BAD_VERSION, NODE_EXISTS, NO_NODE):
            raise ProcedureError(f"ZooKeeper refuses the write (code {error})")
