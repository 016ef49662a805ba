"""Reads the znodes of a Kafka cluster that show its health: brokers, topics, states, deletions,
reassignments, dynamic configuration and the state of a migration."""

from collections.abc import Collection, Sequence
from typing import Final

from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.core.znodes.config import broker_config_path, topic_config_path
from controller.operator.zookeeper_client import ExistingZnode, ZooKeeperClient

_AT_ONCE: Final = 1_000
_PARENTS: Final = (
    znodes.CONTROLLER,
    znodes.BROKER_IDS,
    znodes.TOPICS,
    znodes.DELETE_TOPICS,
    znodes.REPLICA_DELETIONS,
    znodes.MIGRATION,
    znodes.REASSIGN_PARTITIONS,
    znodes.REASSIGN_PARTITIONS_EXTRA,
    znodes.REASSIGN_CANCEL,
    znodes.REASSIGNMENT_REQUESTS,
    broker_config_path(None),
)
_READ_WHOLE: Final = (
    znodes.BROKER_IDS,
    znodes.DELETE_TOPICS,
    znodes.REPLICA_DELETIONS,
    znodes.REASSIGNMENT_REQUESTS,
)
"""Parents whose children are all read."""


async def read_cluster(
    client: ZooKeeperClient, topics: Collection[str] = ()
) -> dict[str, ExistingZnode]:
    """The existing znodes by path; of the topics only `topics`, if there are any.

    The znodes are read one after the other, so that they may differ in age. /controller_epoch is
    read last: no state of a partition that was read has the epoch of a later controller. Raises
    ZooKeeperUnavailable.
    """
    found = await _read_znodes(client, _PARENTS)
    children = [f"{one}/{name}" for one in _READ_WHOLE for name in await client.children(one)]
    names = topics or await client.children(znodes.TOPICS)
    of_topics = [path for one in names for path in (znodes.topic_path(one), topic_config_path(one))]
    found |= await _read_znodes(client, [*children, *of_topics])
    found |= await _read_znodes(
        client, [path for one in names for path in _state_paths(found, one)]
    )
    return found | await _read_znodes(client, [znodes.CONTROLLER_EPOCH])


async def read_brokers_and_configs(
    client: ZooKeeperClient, topics: Collection[str]
) -> dict[str, ExistingZnode]:
    """The registrations of brokers, the dynamic default of the brokers, and the configurations of
    these topics: the existing znodes by path. Raises ZooKeeperUnavailable."""
    brokers = [f"{znodes.BROKER_IDS}/{one}" for one in await client.children(znodes.BROKER_IDS)]
    configs = [broker_config_path(None), *map(topic_config_path, topics)]
    return await _read_znodes(client, [znodes.BROKER_IDS, *brokers, *configs])


def _state_paths(found: dict[str, ExistingZnode], topic: str) -> list[str]:
    znode = found.get(znodes.topic_path(topic))
    if znode is None:
        return []
    try:
        content = znodes.read_topic(topic, znode.data)
    except ZnodeError:
        return []
    return [znodes.state_path(topic, number) for number in sorted(content.assignments)]


async def _read_znodes(client: ZooKeeperClient, paths: Sequence[str]) -> dict[str, ExistingZnode]:
    found: dict[str, ExistingZnode] = {}
    for first in range(0, len(paths), _AT_ONCE):
        part = tuple(paths[first : first + _AT_ONCE])
        for path, znode in zip(part, await client.read(part), strict=True):
            if znode is not None:
                found[path] = znode
    return found
