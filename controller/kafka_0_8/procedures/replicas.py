"""The replicas of this broker: start and close them, and the requests in its queue."""

from typing import Final

from controller.core.commands import Reason
from controller.core.errors import ZnodeError
from controller.core.operations import NO_AUTH, NO_NODE, OK, Delete, WriteOperation
from controller.core.outcomes import Wait, suspend
from controller.core.values import ANY_VERSION
from controller.core.zookeeper_io import write
from controller.kafka_0_8 import rules, znodes
from controller.kafka_0_8.broker import Broker
from controller.kafka_0_8.commands import DeleteLog, OpenLog
from controller.kafka_0_8.configuration import SECOND_RULES
from controller.kafka_0_8.events import LogDeleted
from controller.kafka_0_8.procedures.election import elect_or_follow, watch_leader
from controller.kafka_0_8.procedures.leadership import LogOutcome, step_down
from controller.kafka_0_8.procedures.reading import children_of, read_znodes
from controller.kafka_0_8.state import Name, Partition
from controller.kafka_0_8.znodes import StateChange

_KEPT: Final = "request_kept"
"""Code of a notice."""


class _Deleted:
    """The awaited outcome of the deletion of a log."""

    def add(self, _: LogDeleted) -> bool:
        """Accept the outcome. One outcome completes the deletion."""
        return True


async def start_replica(broker: Broker, name: Name) -> bool:
    """Watch the leader (S-06), then startReplica: open the log, and elect or follow (R-01 to
    R-03). False: the assigned replicas could not be read."""
    partition = broker.partitions.get(name)
    if partition is None:
        partition = broker.partitions[name] = Partition(name, broker.id)
    await watch_leader(broker, partition)
    czxid = await _czxid_if_assigned(broker, name)
    if not czxid:
        if not partition.is_open:
            del broker.partitions[name]
        return czxid is not None
    if czxid != partition.czxid:
        partition = _replace_partition(broker, partition, czxid)
    if not partition.is_open:
        id = broker.issue(OpenLog(*name, czxid), Reason(rules.OPEN_LOG))
        opened: LogOutcome = await suspend(Wait(id, LogOutcome()))
        partition.local.leo = opened.leo
        partition.local.hw = min(max(partition.local.hw, opened.hw), opened.leo)
        partition.is_open = True
    await elect_or_follow(broker, partition, has_waited=False)
    return True


def _replace_partition(broker: Broker, earlier: Partition, czxid: int) -> Partition:
    """Begin again with a partition that was created, perhaps after the deletion of an earlier one,
    of which this broker steps down (Q-04)."""
    if earlier.is_leader or earlier.commit_queue:
        why = "the partition was deleted and created again"
        step_down(broker, earlier, why, rules.INCARNATION)
    partition = broker.partitions[earlier.name] = Partition(earlier.name, broker.id)
    partition.czxid = czxid
    return partition


async def _czxid_if_assigned(broker: Broker, name: Name) -> int | None:
    """The czxid of the replicas znode if it has this broker, else 0 (R-01); None if it could not be
    read. Reports the other cases."""
    path = znodes.replicas_path(*name)
    found = await read_znodes(broker, [path], rules.START_REPLICA)
    replicas: tuple[int, ...] | None = ()
    if found.errors[0] == NO_AUTH:
        return None
    if found.errors[0] == OK:
        replicas = broker.read(znodes.read_brokers, path, found.data[0])
    if replicas is None:
        return None
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
    """Carry out the requests in the queue in order, and watch it (Q-02). A request that could not
    be read, or whose replicas could not, stays in the queue, and is tried again (S-12)."""
    parent = znodes.state_path(broker.id)
    children = await children_of(broker, parent, rule, watch=True)
    if broker.is_denied(parent):
        broker.read_again(parent)
        return
    why = "is not named request-NNNNNNNNNN"
    broker.report_children(parent, children, znodes.is_request, why)
    paths = [f"{parent}/{one}" for one in children if znodes.is_request(one)]
    broker.kept = {path: czxid for path, czxid in broker.kept.items() if path in paths}
    found = await read_znodes(broker, paths, rule)
    for path, error, data, czxid in zip(paths, found.errors, found.data, found.czxids, strict=True):
        if error != OK:
            if error == NO_AUTH:
                broker.read_again(path)
            continue
        is_done = broker.kept.get(path) == czxid or await _carry_out(broker, path, data)
        if not is_done and broker.configuration.rules > SECOND_RULES:
            broker.read_again(path)
            continue
        await _delete(broker, path, czxid)


async def _delete(broker: Broker, path: str, czxid: int) -> None:
    """A request was carried out. If it cannot be deleted, it is not carried out again in this
    session (Q-07)."""
    done: list[WriteOperation] = [Delete(path, ANY_VERSION)]
    written = await write(broker, done, Reason(rules.CARRY_OUT))
    if written.errors[0] in (OK, NO_NODE) or broker.configuration.rules <= SECOND_RULES:
        broker.forget(path, _KEPT)
        return
    broker.kept[path] = czxid
    parent = znodes.state_path(broker.id)
    why = f"ZooKeeper refused it (code {written.errors[0]})"
    if written.errors[0] == NO_AUTH:
        why = f"the ACL of {parent} does not allow it (NoAuth): correct the ACL"
    text = f"{path} was carried out, but cannot be deleted: {why}; the deletion is tried again"
    broker.notice_once("error", _KEPT, path, text, rules.KEPT_REQUEST, why.encode())
    broker.read_again(path)


async def _carry_out(broker: Broker, path: str, data: bytes | None) -> bool:
    """Carry out a request. False: the assigned replicas could not be read."""
    try:
        change = znodes.read_state_change(path, data)
    except ZnodeError as error:
        text = f"{error}; the request is deleted"
        broker.notice("error", "unreadable_request", path, text, rules.UNREADABLE_REQUEST)
        return True
    name = (change.topic, change.partition)
    if change.request == "start-replica":
        return await start_replica(broker, name)
    is_to_be_closed = await _check_close(broker, change)
    if is_to_be_closed:
        await close_replica(broker, name)
    return is_to_be_closed is not None


async def _check_close(broker: Broker, change: StateChange) -> bool | None:
    """Read whether the replicas znode does not have this broker (Q-03); None if it could not be
    read."""
    path = znodes.replicas_path(change.topic, change.partition)
    found = await read_znodes(broker, [path], rules.ASSIGNMENT_DECIDES)
    if found.errors[0] == NO_NODE:
        broker.forget(path)
        return True
    if found.errors[0] == NO_AUTH:
        return None
    replicas = broker.read(znodes.read_brokers, path, found.data[0])
    if replicas is None:
        return None
    if broker.id not in replicas:
        return True
    text = "the replica is assigned again: the request to close it is ignored"
    broker.notice("info", "close_ignored", path, text, rules.ASSIGNMENT_DECIDES)
    return False
