"""Requests of the endpoint: each gets exactly one answer, whatever happens."""

from controller.core.commands import (
    AnswerAllocateProducerIds,
    AnswerAlterPartition,
    AnswerControlledShutdown,
    ApiAnswer,
    Reason,
)
from controller.core.controller import Controller
from controller.core.error_codes import (
    NOT_CONTROLLER,
    STALE_CONTROLLER_EPOCH,
    UNKNOWN_SERVER_ERROR,
)
from controller.core.events import (
    AllocateProducerIdsReceived,
    AlterPartitionReceived,
    ApiRequest,
    ControlledShutdownReceived,
)
from controller.core.procedures.alter_partition import process_alter_partition
from controller.core.procedures.controlled_shutdown import process_controlled_shutdown
from controller.core.procedures.failures import describe
from controller.core.procedures.producer_ids import process_allocate_producer_ids


async def process_request(controller: Controller, request: ApiRequest) -> None:
    """Handle a request; an error that its procedure does not know is answered as Kafka's."""
    try:
        match request:
            case AlterPartitionReceived():
                await process_alter_partition(controller, request)
            case ControlledShutdownReceived():
                await process_controlled_shutdown(controller, request)
            case AllocateProducerIdsReceived():
                await process_allocate_producer_ids(controller, request)
    except Exception as error:
        name = type(request).__name__
        controller.notice("error", "request_failed", f"broker {request.broker}", describe(error))
        controller.issue(_answer(request, UNKNOWN_SERVER_ERROR), Reason(f"{name} failed"))


def refuse(controller: Controller, request: ApiRequest) -> None:
    """Answer a request whose turn never comes: its term is over (DESIGN.md, Terms).

    Kafka's ControllerMovedException for a controlled shutdown is STALE_CONTROLLER_EPOCH.
    """
    is_shutdown = isinstance(request, ControlledShutdownReceived)
    error = STALE_CONTROLLER_EPOCH if is_shutdown else NOT_CONTROLLER
    controller.issue(_answer(request, error), Reason("the term is over"))


def _answer(request: ApiRequest, error: int) -> ApiAnswer:
    match request:
        case AlterPartitionReceived():
            return AnswerAlterPartition(request.request, error)
        case ControlledShutdownReceived():
            return AnswerControlledShutdown(request.request, error)
        case AllocateProducerIdsReceived():
            return AnswerAllocateProducerIds(request.request, error)
