"""Calls the procedure of each API request. Every request gets exactly one response, also after an
error.
"""

from typing import assert_never

from controller.core.api_requests import ApiRequest
from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.api_requests.features import UpdateFeaturesReceived
from controller.core.api_requests.producer_ids import AllocateProducerIdsReceived
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    ListPartitionReassignmentsReceived,
)
from controller.core.api_requests.scram_credentials import AlterUserScramCredentialsReceived
from controller.core.api_requests.topics import (
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
)
from controller.core.controller import Controller
from controller.core.deviations import RESIGNS_WHEN_FENCED
from controller.core.error_codes import CLUSTER_AUTHORIZATION_FAILED, UNKNOWN_SERVER_ERROR
from controller.core.errors import ControllerMovedError
from controller.core.failures import report_error
from controller.core.procedures.admin.acls import cluster_refusal
from controller.core.procedures.admin.features import process_update_features
from controller.core.procedures.admin.producer_ids import process_allocate_producer_ids
from controller.core.procedures.admin.scram_credentials import process_alter_scram_credentials
from controller.core.procedures.admin.waiting_requests import send_response
from controller.core.procedures.brokers.controlled_shutdown import process_controlled_shutdown
from controller.core.procedures.elections.alter_partition import process_alter_partition
from controller.core.procedures.elections.replica_election import process_elect_leaders
from controller.core.procedures.reassignment.initiation import (
    process_alter_reassignments,
    process_list_reassignments,
)
from controller.core.procedures.topics.creation import process_create_topics
from controller.core.procedures.topics.deletion_requests import process_delete_topics
from controller.core.procedures.topics.partition_addition import process_create_partitions
from controller.core.state import Partition
from controller.core.triggers import ApiCall, PartitionReassignmentIsrChange


async def process_request(controller: Controller, call: ApiCall) -> None:
    """Handle a request. An error that its procedure does not handle is answered as Kafka answers
    it.

    Raises ControllerMovedError for a fencing error, after the response. Kafka does not raise it for
    AlterPartition and ControlledShutdown (KB 1.3.5).
    """
    request = call.request
    if not controller.is_active:
        for one in call.requests:
            send_response(controller, one.refusal(one.NOT_CONTROLLER_ERROR), one.rule)
        return
    operation = request.CLUSTER_OPERATION
    why = operation and cluster_refusal(controller, request, operation)
    if why:
        answer = request.refusal(CLUSTER_AUTHORIZATION_FAILED)
        send_response(controller, answer, f"not authorized: {why}")
        return
    changed: list[Partition] = []
    try:
        changed = await _process(controller, call)
    except ControllerMovedError:
        for one in call.requests:
            send_response(controller, one.refusal(one.FENCED_ERROR), "fenced")
        resigns = RESIGNS_WHEN_FENCED.applies(controller.configuration)
        if resigns or request.RESIGNS_WHEN_FENCED:
            raise
    except Exception as error:
        name = type(request).__name__
        report_error(controller, "request_failed", request.subject, error)
        for one in call.requests:
            send_response(controller, one.refusal(UNKNOWN_SERVER_ERROR), f"{name} failed")
    for partition in reversed(controller.order.partitions(changed)):
        # It is the next event: an end of the session in it must not change the response.
        if partition in controller.context.reassigning:
            controller.enqueue_first(PartitionReassignmentIsrChange(*partition.key))


async def _process(controller: Controller, call: ApiCall) -> list[Partition]:
    """Handle and answer a request of an active controller. Returns the partitions whose ISR is now
    as their leader proposed."""
    match call.request:
        case AlterPartitionReceived() as request:
            return await process_alter_partition(controller, request)
        case ControlledShutdownReceived() as request:
            await process_controlled_shutdown(controller, request)
        case AllocateProducerIdsReceived() as request:
            await process_allocate_producer_ids(controller, request)
        case AlterPartitionReassignmentsReceived() as request:
            await process_alter_reassignments(controller, request)
        case ListPartitionReassignmentsReceived() as request:
            process_list_reassignments(controller, request)
        case ElectLeadersReceived() as request:
            await process_elect_leaders(controller, request)
        case CreateTopicsReceived() as request:
            await process_create_topics(controller, [request, *call.together])
        case CreatePartitionsReceived() as request:
            await process_create_partitions(controller, request)
        case DeleteTopicsReceived() as request:
            await process_delete_topics(controller, request)
        case UpdateFeaturesReceived() as request:
            await process_update_features(controller, request)
        case AlterUserScramCredentialsReceived() as request:
            await process_alter_scram_credentials(controller, request)
        case request:
            assert_never(request)
    return []


def refuse(controller: Controller, request: ApiRequest) -> None:
    """Answer a request that was not begun before its term ended (docs/design.md#terms)."""
    answer = request.refusal(request.NOT_CONTROLLER_ERROR)
    send_response(controller, answer, "the term is over")
