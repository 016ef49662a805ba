"""The admin commands on a real ZooKeeper: reads what the pure functions of
controller.kafka_0_8.admin need, and carries out what they return in one transaction.

All functions raise AdminError for a command that is refused, ZnodeError for content that cannot be
read, and ZooKeeperUnavailable. Nothing is written then.
"""

from collections.abc import Mapping, Sequence

from controller.core.operations import (
    BAD_VERSION,
    NO_AUTH,
    NO_NODE,
    NODE_EXISTS,
    NOT_EMPTY,
    Check,
    Create,
    CreateSequential,
    Delete,
    SetData,
    WriteOperation,
)
from controller.core.znodes.schema import parse_natural
from controller.kafka_0_8 import admin, znodes
from controller.kafka_0_8.admin import (
    AdminError,
    Assignments,
    StoredEpoch,
    StoredPartition,
    replicas_or_none,
)
from controller.kafka_0_8.state import Name
from controller.operator.zookeeper_client import ExistingZnode, FailedOperation, ZooKeeperClient

_CHANGED = {BAD_VERSION, NO_NODE, NODE_EXISTS}
"""Codes of a write for which something else has changed the znodes since they were read."""
_ATTEMPTS_MAX = 5
_VERBS = {
    Check: "read",
    Create: "create",
    CreateSequential: "create",
    Delete: "delete",
    SetData: "change",
}


async def add_brokers(zookeeper: ZooKeeperClient, brokers: Sequence[int]) -> list[int]:
    """Create the state paths of new brokers, and the paths that every cluster needs. Returns the
    brokers that had none."""
    known = [*znodes.PERSISTENT, znodes.EPOCH, *map(znodes.state_path, brokers)]
    existing = await _existing_paths(zookeeper, known)
    await _write(zookeeper, admin.add_brokers(brokers, existing))
    return [one for one in brokers if znodes.state_path(one) not in existing]


async def remove_brokers(zookeeper: ZooKeeperClient, brokers: Sequence[int]) -> None:
    """Delete the state paths of brokers that are not registered and have no replicas."""
    known = await _brokers_with_state_path(zookeeper)
    queues = {one: await zookeeper.children(znodes.state_path(one)) for one in known}
    assigned = Assignments()
    for name in await _partitions(zookeeper):
        paths = znodes.replicas_path(*name), znodes.reassigned_path(*name)
        stored, new = await zookeeper.read(paths)
        assigned.add(name, _data(stored), _data(new))
    registered = await _numbers(zookeeper, znodes.BROKER_IDS)
    await _write(zookeeper, admin.remove_brokers(brokers, queues, assigned, registered))


async def create_topic(
    zookeeper: ZooKeeperClient, topic: str, assignment: Mapping[int, tuple[int, ...]]
) -> None:
    """Create a topic with the replicas of each partition."""
    known = await _brokers_with_state_path(zookeeper)
    operations = admin.create_topic(topic, assignment, known)
    if await zookeeper.exists(znodes.topic_path(topic)):
        raise AdminError(f"topic {topic} cannot be created: it exists already")
    await _write(zookeeper, operations)


async def delete_topic(zookeeper: ZooKeeperClient, topic: str) -> None:
    """Delete a topic. Its brokers delete their records, now or when they start. If a leader of any
    partition is elected meanwhile, all of it is done again."""
    refused: FailedOperation | None = None
    for _ in range(_ATTEMPTS_MAX):
        refused = await zookeeper.attempt(tuple(await _deletion(zookeeper, topic)))
        if refused is None or refused.code not in _CHANGED:
            break
    _require_written(refused)


async def _deletion(zookeeper: ZooKeeperClient, topic: str) -> list[WriteOperation]:
    if topic not in await zookeeper.children(znodes.TOPICS):
        raise AdminError(f"topic {topic} cannot be deleted: it does not exist")
    (found,) = await zookeeper.read((znodes.EPOCH,))
    epoch = None if found is None else StoredEpoch(found.data, found.version)
    parent = znodes.topic_path(topic)
    stored: dict[int, StoredPartition] = {}
    for name in await _partitions(zookeeper, topic):
        path = znodes.replicas_path(*name)
        (found,) = await zookeeper.read((path,))
        if found is not None:
            stored[name[1]] = StoredPartition(
                replicas_or_none(name, found.data),
                found.version,
                tuple(await zookeeper.children(znodes.partition_path(*name))),
                await zookeeper.exists(znodes.reassigned_path(*name)),
            )
    for child in await zookeeper.children(parent):
        if parse_natural(child) not in stored:
            raise AdminError(
                f"topic {topic} cannot be deleted: {parent}/{child} is not a partition with "
                "replicas; delete that znode first"
            )
    moved = znodes.reassigned_topic_path(topic)
    moves = await zookeeper.children(moved) if await zookeeper.exists(moved) else None
    known = await _brokers_with_state_path(zookeeper)
    return admin.delete_topic(topic, stored, known, moves=moves, epoch=epoch)


async def reassign(
    zookeeper: ZooKeeperClient, name: Name, replicas: tuple[int, ...], *, replaces: bool = False
) -> None:
    """Ask the leader of a partition to move it to these replicas. `replaces`: also if the partition
    is being reassigned."""
    version = None
    if replaces:
        (found,) = await zookeeper.read((znodes.reassigned_path(*name),))
        version = None if found is None else found.version
    existing = await _existing_paths(zookeeper, admin.paths_of_reassignment(*name))
    known = await _brokers_with_state_path(zookeeper)
    operations = admin.reassign(*name, replicas, known, existing, replaces=version)
    await _write(zookeeper, operations)


def _data(znode: ExistingZnode | None) -> bytes | None:
    return None if znode is None else znode.data


async def _brokers_with_state_path(zookeeper: ZooKeeperClient) -> list[int]:
    """The brokers with a state path."""
    return await _numbers(zookeeper, znodes.STATE)


async def _numbers(zookeeper: ZooKeeperClient, path: str) -> list[int]:
    """The children of a znode that are named by a number. Others are ignored."""
    numbers = map(parse_natural, await zookeeper.children(path))
    return [one for one in numbers if one is not None]


async def _partitions(zookeeper: ZooKeeperClient, *topics: str) -> list[Name]:
    """The partitions of these topics, or of all; znodes that are no partition are skipped."""
    found = []
    for topic in topics or await zookeeper.children(znodes.TOPICS):
        numbers = map(parse_natural, await zookeeper.children(znodes.topic_path(topic)))
        found += sorted((topic, one) for one in numbers if one is not None)
    return found


async def _existing_paths(zookeeper: ZooKeeperClient, paths: Sequence[str]) -> list[str]:
    return [one for one in paths if await zookeeper.exists(one)]


async def _write(zookeeper: ZooKeeperClient, operations: list[WriteOperation]) -> None:
    if operations:
        _require_written(await zookeeper.attempt(tuple(operations)))


def _require_written(refused: FailedOperation | None) -> None:
    """Explain why a transaction was refused, if it was. Raises AdminError."""
    if refused is None:
        return
    code, path = refused.code, refused.operation.path
    verb = _VERBS[type(refused.operation)]
    why = f"ZooKeeper refused to {verb} {path} (code {code})"
    if code in _CHANGED:
        why = (
            f"another process changed the znodes meanwhile, or add-brokers was not run yet (to "
            f"{verb} {path}: ZooKeeper code {code}); try again"
        )
    elif code == NOT_EMPTY:
        why = (
            f"there are znodes below {path} that the design does not have (ZooKeeper code {code}); "
            "delete these first"
        )
    elif code == NO_AUTH:
        acl = path.rpartition("/")[0] if verb in ("create", "delete") else path
        why = f"the ACL of {acl} does not allow to {verb} {path} (NoAuth); correct the ACL"
    raise AdminError(f"nothing was written: {why}")
