"""The replicas of this broker: start and close them, and the requests in its queue."""

from controller.core.commands import Reason
from controller.core.errors import ZnodeError
from controller.core.operations import NO_AUTH, NO_NODE, OK, Delete, WriteOperation
from controller.core.outcomes import Wait, suspend
from controller.core.values import ANY_VERSION
from controller.core.zookeeper_io import write
from controller.kafka_0_8 import rules, znodes
from controller.kafka_0_8.broker import Broker
from controller.kafka_0_8.commands import DeleteLog, OpenLog
from controller.kafka_0_8.events import LogDeleted
from controller.kafka_0_8.procedures.election import elect_or_follow, watch_leader
from controller.kafka_0_8.procedures.leadership import LogState, step_down
from controller.kafka_0_8.procedures.reading import children_of, read_znodes
from controller.kafka_0_8.state import Name, Partition
from controller.kafka_0_8.znodes import StateChange


class _Deleted:
    """The awaited outcome of the deletion of a log."""

    def add(self, _: LogDeleted) -> bool:
        """It is complete."""
        return True


async def start_replica(broker: Broker, name: Name) -> None:
    """Watch the leader (S-06), then startReplica: open the log, and elect or follow (R-01 to
    R-03)."""
    partition = broker.partitions.get(name)
    if partition is None:
        partition = broker.partitions[name] = Partition(name, broker.id)
    await watch_leader(broker, partition)
    czxid = await _assigned_since(broker, name)
    if not czxid:
        if not partition.is_open:
            del broker.partitions[name]
        return
    if czxid != partition.czxid:
        partition = _replaced(broker, partition, czxid)
    if not partition.is_open:
        id = broker.issue(OpenLog(*name, czxid), Reason(rules.OPEN_LOG))
        opened: LogState = await suspend(Wait(id, LogState()))
        partition.local.leo = opened.leo
        partition.local.hw = min(max(partition.local.hw, opened.hw), opened.leo)
        partition.is_open = True
    await elect_or_follow(broker, partition, has_waited=False)


def _replaced(broker: Broker, earlier: Partition, czxid: int) -> Partition:
    """The partition was created, perhaps after the deletion of an earlier one (Q-04)."""
    if earlier.is_leader or earlier.commit_queue:
        why = "the partition was deleted and created again"
        step_down(broker, earlier, why, rules.INCARNATION)
    partition = broker.partitions[earlier.name] = Partition(earlier.name, broker.id)
    partition.czxid = czxid
    return partition


async def _assigned_since(broker: Broker, name: Name) -> int:
    """The czxid of the replicas znode if it has this broker, else 0 (R-01). Reports the other
    cases."""
    path = znodes.replicas_path(*name)
    found = await read_znodes(broker, [path], rules.START_REPLICA)
    replicas: tuple[int, ...] | None = ()
    if found.errors[0] == NO_AUTH:
        return 0
    if found.errors[0] == OK:
        replicas = broker.read(znodes.read_brokers, path, found.data[0])
    if replicas is None:
        return 0
    if broker.id in replicas:
        return found.czxids[0]
    text = f"broker {broker.id} is not an assigned replica, so that no replica is started"
    broker.notice("warning", "not_assigned", path, text, rules.NOT_ASSIGNED)
    return 0


async def close_replica(broker: Broker, name: Name) -> None:
    """Stop leading or following, and delete the log (Q-06)."""
    partition = broker.partitions.pop(name, None)
    if partition is not None:
        if partition.is_leader or partition.commit_queue:
            step_down(broker, partition, "the replica is closed", rules.CLOSE_REPLICA)
        partition.forget_leader()
    id = broker.issue(DeleteLog(*name), Reason(rules.CLOSE_REPLICA))
    await suspend(Wait(id, _Deleted()))


# The queue --------------------------------------------------------------------------------------


async def drain(broker: Broker, rule: str) -> None:
    """Carry out the requests in the queue in order, and watch it (Q-02)."""
    parent = znodes.state_path(broker.id)
    children = await children_of(broker, parent, rule, watch=True)
    why = "is not named request-NNNNNNNNNN"
    broker.report_children(parent, children, znodes.is_request, why)
    names = [one for one in children if znodes.is_request(one)]
    paths = [f"{parent}/{one}" for one in names]
    found = await read_znodes(broker, paths, rule)
    for path, error, data in zip(paths, found.errors, found.data, strict=True):
        if error != OK:
            continue
        await _carry_out(broker, path, data)
        done: list[WriteOperation] = [Delete(path, ANY_VERSION)]
        await write(broker, done, Reason(rules.CARRY_OUT))


async def _carry_out(broker: Broker, path: str, data: bytes | None) -> None:
    try:
        change = znodes.read_state_change(path, data)
    except ZnodeError as error:
        text = f"{error}; the request is deleted"
        broker.notice("error", "unreadable_request", path, text, rules.UNREADABLE_REQUEST)
        return
    name = (change.topic, change.partition)
    if change.request == "start-replica":
        await start_replica(broker, name)
    elif await _is_to_be_closed(broker, change):
        await close_replica(broker, name)


async def _is_to_be_closed(broker: Broker, change: StateChange) -> bool:
    """Whether the replicas znode does not have this broker (Q-03)."""
    path = znodes.replicas_path(change.topic, change.partition)
    found = await read_znodes(broker, [path], rules.ASSIGNMENT_DECIDES)
    if found.errors[0] == NO_NODE:
        broker.forget(path)
        return True
    if found.errors[0] == NO_AUTH:
        return False
    replicas = broker.read(znodes.read_brokers, path, found.data[0])
    if replicas is None:
        return False
    if broker.id not in replicas:
        return True
    text = "the replica is assigned again: the request to close it is ignored"
    broker.notice("info", "close_ignored", path, text, rules.ASSIGNMENT_DECIDES)
    return False
