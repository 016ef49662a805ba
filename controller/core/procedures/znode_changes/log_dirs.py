"""Failed log directories: handles the reports of brokers (KB 3.11)."""

from controller.core import error_codes, znodes
from controller.core.controller import Controller
from controller.core.events import BrokerResponded
from controller.core.procedures.elections.replica_state_machine import change_replicas
from controller.core.procedures.reassignment_znodes.cancel_znode import retry_waiting_rollbacks
from controller.core.procedures.znode_changes.broker_change import on_replicas_become_offline
from controller.core.state import Partition, sorted_partitions
from controller.core.state_machines import ReplicaState
from controller.core.zookeeper_io import (
    delete_notifications,
    list_notifications,
    read_contents,
)

_RULE = "log directory failure"


async def process_log_dir_events(controller: Controller) -> None:
    """Brokers reported failed directories: ask them for the partitions.

    All their replicas are moved to Online: the brokers respond to the LeaderAndIsr with
    KAFKA_STORAGE_ERROR for the failed replicas (onBrokerLogDirFailure, KB 3.11.3).
    """
    context = controller.context
    paths = await list_notifications(controller, znodes.LOG_DIR_EVENTS, _RULE)
    if not paths:
        return
    events = await read_contents(controller, paths, _RULE, znodes.read_log_dir_event)
    brokers = dict.fromkeys(events.values())
    replicas = {
        broker: sorted_partitions(partitions)
        for broker, partitions in context.replicas_on(brokers).items()
    }
    await change_replicas(controller, replicas, ReplicaState.ONLINE, _RULE)
    await delete_notifications(controller, paths, "delete log directory events")


async def process_leader_and_isr_response(
    controller: Controller, response: BrokerResponded, asked: list[tuple[str, int]]
) -> None:
    """Note which replicas are in failed directories, as a response reports (KB 3.11.1).

    `asked` names the partitions of the request.
    """
    context = controller.context
    failed = {
        partition: None
        for topic, number, code in response.partition_errors
        if code == error_codes.KAFKA_STORAGE_ERROR
        and (partition := _find_partition(controller, topic, number)) is not None
    }
    in_error = {
        (partition.topic.name, number)
        for topic, number, _ in response.partition_errors
        if (partition := _find_partition(controller, topic, number)) is not None
    }
    well = {
        partition: None
        for topic, number in asked
        if (topic, number) not in in_error
        and (partition := context.find(topic, number)) is not None
    }
    before = context.offline_dirs.get(response.broker, {})
    now = {one: None for one in before if one not in well} | failed
    if now:
        context.offline_dirs[response.broker] = now
    else:
        context.offline_dirs.pop(response.broker, None)
    new = [one for one in now if one not in before]
    if new:
        controller.notice(
            "warning",
            "replicas_in_failed_log_dir",
            f"broker {response.broker}",
            f"{len(new)} replicas on broker {response.broker} are offline: a log directory failed",
        )
        await on_replicas_become_offline(controller, {response.broker: sorted_partitions(new)})
    if new or len(now) < len(before):
        retry_waiting_rollbacks(controller)


def _find_partition(controller: Controller, topic: str, number: int) -> Partition | None:
    """The partition of a response: by topic name, or by topic id in hex."""
    context = controller.context
    if topic in context.topics:
        return context.find(topic, number)
    try:
        by_id = context.topics_by_id.get(bytes.fromhex(topic))
    except ValueError:
        return None
    return by_id.partitions.get(number) if by_id is not None else None
