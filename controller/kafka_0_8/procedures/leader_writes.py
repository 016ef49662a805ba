"""Writes of a leader, which fail if it is no longer the leader (I-03).

The znodes of a partition do not show which incarnation of the partition they belong to: after a
deletion and creation, their versions begin at 0 again. But no leader is elected without a write of
/brokers/epoch. Therefore, a transaction that checks the version of /brokers/epoch happens only if
no leader of any partition was elected since this broker was known to be the leader.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from controller.core.commands import Reason
from controller.core.operations import (
    BAD_VERSION,
    CONNECTION_LOSS,
    NO_AUTH,
    NO_NODE,
    NODE_EXISTS,
    OK,
    RUNTIME_INCONSISTENCY,
    Check,
    Create,
    SetData,
    WriteOperation,
)
from controller.core.outcomes import ZnodeColumns
from controller.core.zookeeper_io import fetch_stats, read_latest, write_atomically
from controller.kafka_0_8 import rules, znodes
from controller.kafka_0_8.broker import Broker
from controller.kafka_0_8.configuration import SECOND_RULES
from controller.kafka_0_8.state import NO_EPOCH_ZNODE, Partition

_ELECTED: Final = (BAD_VERSION, NO_NODE, NODE_EXISTS)
"""Codes of the check of /brokers/epoch after which the leadership is read again."""
_DENIED: Final = (NO_AUTH, RUNTIME_INCONSISTENCY)
"""Codes of the only operation if an ACL does not allow it, or not the check of /brokers/epoch."""
_UNMET: Final = (BAD_VERSION, NO_NODE, NO_AUTH)
"""Codes of a condition that was checked, and is not met."""
_EPOCH, _REPLICAS, _LEADER, _ISR = range(4)


class UnmetCondition(NamedTuple):
    """A condition of a write that is not met, with ZooKeeper's code."""

    condition: Check
    code: int


async def write_as_leader(
    broker: Broker, partition: Partition, operations: list[WriteOperation], reason: Reason
) -> list[int]:
    """One transaction of this leadership. Returns the errors of the operations: CONNECTION_LOSS if
    no reply came; none of them is OK if this broker is no longer the leader. If other partitions
    have elected leaders meanwhile, the leadership is read again and the transaction repeated."""
    while True:
        if partition.epoch_version is None and not await _confirm_leadership(broker, partition):
            return [BAD_VERSION] * len(operations)
        guard = _guard(broker, partition)
        guarded, *errors = await write_atomically(broker, [guard, *operations], reason)
        if guarded not in _ELECTED:
            if isinstance(guard, Create) and guarded == OK and set(errors) == {OK}:
                partition.epoch_version = 0
            return errors
        partition.epoch_version = None


async def set_as_leader(
    broker: Broker,
    partition: Partition,
    change: SetData,
    reason: Reason,
    conditions: Sequence[Check] = (),
) -> int | UnmetCondition:
    """Set the ISR znode in this leadership. Returns OK; NO_AUTH if an ACL does not allow it, which
    ends no leadership; the first of the conditions that is not met; otherwise BAD_VERSION. If the
    reply was lost, reads determine the outcome (X-03)."""
    while True:
        *checked, error = await write_as_leader(broker, partition, [*conditions, change], reason)
        if error == RUNTIME_INCONSISTENCY:
            for condition, code in zip(conditions, checked, strict=True):
                if code in _UNMET:
                    return UnmetCondition(condition, code)
        if error in _DENIED:
            return NO_AUTH
        if error != CONNECTION_LOSS:
            return OK if error == OK else BAD_VERSION
        partition.epoch_version = None
        paths = [*_paths(partition), change.path]
        found = await read_latest(broker, paths, rules.LOST_REPLY)
        if not _shows_leader(broker, partition, found) or found.errors[_ISR] != OK:
            return BAD_VERSION
        if found.versions[_ISR] != change.version:
            is_done = found.versions[_ISR] == change.version + 1
            return OK if is_done and found.data[_ISR] == change.data else BAD_VERSION


def _guard(broker: Broker, partition: Partition) -> WriteOperation:
    if partition.epoch_version == NO_EPOCH_ZNODE:
        # An administrator has deleted the znode. The new one has a version that can be checked.
        # Other partitions may have a higher epoch.
        is_earlier = broker.configuration.rules <= SECOND_RULES
        content = znodes.write_epoch(partition.epoch) if is_earlier else znodes.NO_EPOCH_CONTENT
        return Create(znodes.EPOCH, content)
    assert partition.epoch_version is not None
    return Check(znodes.EPOCH, partition.epoch_version)


def _paths(partition: Partition) -> list[str]:
    """The epoch comes first: an election after it was read makes the check fail."""
    return [
        znodes.EPOCH,
        znodes.replicas_path(*partition.name),
        znodes.leader_path(*partition.name),
    ]


async def _confirm_leadership(broker: Broker, partition: Partition) -> bool:
    """Read whether this broker is still the leader, and note the version of /brokers/epoch."""
    found = await fetch_stats(broker, _paths(partition), rules.ISR_REFUSED)
    if not _shows_leader(broker, partition, found):
        return False
    exists = found.errors[_EPOCH] == OK
    partition.epoch_version = found.versions[_EPOCH] if exists else NO_EPOCH_ZNODE
    return True


def _shows_leader(broker: Broker, partition: Partition, found: ZnodeColumns) -> bool:
    """Whether this session has created the leader znode, for the present incarnation of the
    partition."""
    return (
        found.errors[_REPLICAS] == OK == found.errors[_LEADER]
        and found.czxids[_REPLICAS] == partition.czxid
        and found.owners[_LEADER] == broker.session_id
    )
