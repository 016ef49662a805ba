"""A broker shuts down in a controlled way: its leaderships move first (doControlledShutdown, KB
9.5)."""

from controller.core import error_codes
from controller.core.api_requests.controlled_shutdown import (
    ControlledShutdownReceived,
    ControlledShutdownResponse,
)
from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.election import CONTROLLED_SHUTDOWN
from controller.core.procedures.elections.partition_state_machine import change_partitions
from controller.core.procedures.elections.replica_state_machine import change_replicas
from controller.core.state import Partition, sorted_partitions
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.values import UNKNOWN_BROKER_EPOCH

_RULE = ControlledShutdownReceived.RULE


async def process_controlled_shutdown(
    controller: Controller, request: ControlledShutdownReceived
) -> None:
    """Move the leaderships of the broker, stop its followers, answer with the partitions that it
    still leads.
    """
    error = _error_of_request(controller, request)
    remaining: tuple[tuple[str, int], ...] = ()
    if not error:
        remaining = await _shut_down(controller, request.broker)
    answer = ControlledShutdownResponse(request.request, error, remaining)
    controller.issue(answer, Reason(_RULE))


def _error_of_request(controller: Controller, request: ControlledShutdownReceived) -> int:
    """Why the broker cannot shut down in a controlled way; 0 if it can.

    Kafka's NoSuchElementException for an unknown broker is answered as UNKNOWN_SERVER_ERROR.
    """
    broker = controller.context.brokers.get(request.broker)
    if request.broker_epoch != UNKNOWN_BROKER_EPOCH:
        if broker is None:
            return error_codes.UNKNOWN_SERVER_ERROR
        if request.broker_epoch < broker.epoch:
            return error_codes.STALE_BROKER_EPOCH
    return error_codes.NONE if broker is not None else error_codes.BROKER_NOT_AVAILABLE


async def _shut_down(controller: Controller, broker: int) -> tuple[tuple[str, int], ...]:
    context = controller.context
    context.shutting_down[broker] = None
    partitions = [
        one
        for one in sorted_partitions(context.replicas_on((broker,))[broker])
        if len(one.replicas) > 1 and one.leadership is not None and not context.is_queued(one)
    ]
    led = [one for one in partitions if _is_led_by(one, broker)]
    followed = [one for one in partitions if not _is_led_by(one, broker)]
    await change_partitions(controller, led, PartitionState.ONLINE, _RULE, CONTROLLED_SHUTDOWN)
    batch = controller.new_batch(_RULE)
    for partition in followed:
        batch.add_stop_replica((broker,), partition, delete=False)
    controller.send(batch)
    await change_replicas(controller, {broker: followed}, ReplicaState.OFFLINE, _RULE)
    return tuple(one.key for one in partitions if _is_led_by(one, broker))


def _is_led_by(partition: Partition, broker: int) -> bool:
    return partition.leadership is not None and partition.leadership.leader == broker
