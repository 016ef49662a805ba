"""The content of ZooKeeper for a cluster of the 0.8 design."""

import asyncio
from typing import Final

from msgspec import Struct

from controller.core.operations import NO_AUTH, OK
from controller.kafka_0_8 import znodes
from controller.kafka_0_8_broker.problems import ClusterZnodes, problems_of
from controller.operator.zookeeper_client import ZooKeeperClient

_READS_MAX: Final = 1000
"""How many reads are in flight."""


class PartitionStatus(Struct, frozen=True):
    """The znodes of a partition; "" where there is no znode."""

    topic: str
    partition: int
    replicas: str
    leader: str
    isr: str
    reassigned_to: str


class ClusterStatus(Struct, frozen=True):
    """The znodes of a cluster. `brokers`: the address of each registered broker; `queues`: the
    number of requests in each state path, None if it may not be read; `problems`: by the path of a
    znode, why it cannot be used, and what to do; `unreadable`: those whose content is wrong or
    denied; `denied`: those that may not be read, with all that is below them; `has_cluster`:
    whether /brokers exists."""

    brokers: dict[str, str]
    queues: dict[str, int | None]
    partitions: list[PartitionStatus]
    problems: dict[str, str]
    unreadable: list[str]
    denied: list[str]
    has_cluster: bool = True


async def status(zookeeper: ZooKeeperClient) -> ClusterStatus:
    """The brokers, queues and partitions, and what is wrong with their znodes."""
    return status_of(await read_tree(zookeeper))


async def read_tree(zookeeper: ZooKeeperClient) -> ClusterZnodes:
    """All znodes of a cluster that may be read. They may change while they are read."""
    contents: dict[str, bytes] = {}
    denied: list[str] = []
    level = [znodes.BROKERS]
    while level:
        below: list[str] = []
        for start in range(0, len(level), _READS_MAX):
            paths = tuple(level[start : start + _READS_MAX])
            found = await zookeeper.znodes(paths, may_be_denied=True)
            for path, error, data in zip(paths, found.errors, found.data, strict=True):
                if error == OK:
                    contents[path] = data or b""
                elif error == NO_AUTH:
                    denied.append(path)
            readable = [path for path in paths if path in contents]
            listed = await asyncio.gather(*(zookeeper.children(one) for one in readable))
            for path, names in zip(readable, listed, strict=True):
                below += [f"{path}/{name}" for name in names]
        level = below
    return ClusterZnodes(contents, denied)


def status_of(tree: ClusterZnodes) -> ClusterStatus:
    """The status of a cluster with these znodes."""
    text = {path: data.decode("utf-8", "replace") for path, data in tree.contents.items()}
    problems = problems_of(tree)
    ids, queues = tree.numbers(znodes.BROKER_IDS), tree.numbers(znodes.STATE)
    return ClusterStatus(
        {str(one): text.get(znodes.broker_path(one), "") for one in ids},
        {str(one): _requests(tree, znodes.state_path(one)) for one in queues},
        [
            PartitionStatus(
                *name,
                text.get(znodes.replicas_path(*name), ""),
                text.get(znodes.leader_path(*name), ""),
                text.get(znodes.isr_path(*name), ""),
                text.get(znodes.reassigned_path(*name), ""),
            )
            for name in tree.partitions()
        ],
        {path: one.text for path, one in problems.items()},
        [path for path, one in problems.items() if one.is_unreadable],
        list(tree.denied),
        bool(tree.contents or tree.denied),
    )


def _requests(tree: ClusterZnodes, queue: str) -> int | None:
    if queue in tree.denied:
        return None
    return sum(map(znodes.is_request, tree.children(queue)))
