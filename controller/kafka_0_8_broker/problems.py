"""What is wrong in ZooKeeper: znodes that the 0.8 design does not have, and content that no broker
can use. Brokers skip these znodes (S-10), so that only `status` shows all of them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from controller.core.errors import ZnodeError
from controller.core.znodes.schema import natural
from controller.kafka_0_8 import znodes
from controller.kafka_0_8.state import Name

ROOT: Final = "/brokers"
_TOP: Final = (*znodes.PERSISTENT[1:], znodes.EPOCH)
_UNKNOWN: Final = "is not a znode of the design; delete it"

Problem = tuple[str, str]
"""The path of a znode, and what is wrong, which names the path."""
Reader = Callable[[str, bytes], object]
"""Raises ZnodeError."""


class Tree:
    """The znodes of a cluster. `contents`: the content of each znode by its path."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self.contents = contents
        self._children: dict[str, list[str]] = {}
        for path in contents:
            parent, _, name = path.rpartition("/")
            self._children.setdefault(parent, []).append(name)

    def children(self, path: str) -> list[str]:
        """The names of the children of a znode, in the order of the contents."""
        return self._children.get(path, [])

    def numbers(self, path: str) -> list[int]:
        """The children that are named by a number."""
        found = map(natural, self.children(path))
        return sorted(one for one in found if one is not None)

    def partitions(self) -> list[Name]:
        """All partitions."""
        topics = self.children(znodes.TOPICS)
        return [(one, number) for one in topics for number in self.numbers(znodes.topic_path(one))]


def problems_of(tree: Tree) -> dict[str, str]:
    """What is wrong, by the path of the znode."""
    return dict(
        [
            *((f"{ROOT}/{one}", _UNKNOWN) for one in tree.children(ROOT) if _is_unknown(one)),
            *_content(tree, znodes.EPOCH, lambda _, data: znodes.read_epoch(data), "correct it"),
            *_registrations(tree),
            *_queues(tree),
            *_topics(tree),
            *_reassignments(tree),
        ]
    )


def _is_unknown(child: str) -> bool:
    return f"{ROOT}/{child}" not in _TOP


def _registrations(tree: Tree) -> Iterator[Problem]:
    for path, number in _numbered(tree, znodes.BROKER_IDS):
        if number is None:
            yield path, "is not named by a broker id; delete it"
        else:
            what_to_do = f"delete it, and restart broker {number}"
            yield from _content(tree, path, znodes.read_address, what_to_do)


def _queues(tree: Tree) -> Iterator[Problem]:
    for queue, number in _numbered(tree, znodes.STATE):
        if number is None:
            yield queue, "is not named by a broker id; delete it"
            continue
        for child in tree.children(queue):
            path = f"{queue}/{child}"
            if not znodes.is_request(child):
                yield path, "is not named request-NNNNNNNNNN, so that it is ignored; delete it"
                continue
            what_to_do = f"broker {number} deletes it when it runs"
            yield from _content(tree, path, znodes.read_state_change, what_to_do)


def _topics(tree: Tree) -> Iterator[Problem]:
    for topic in tree.children(znodes.TOPICS):
        parent = znodes.topic_path(topic)
        if not tree.children(parent):
            yield parent, "has no partitions; delete the topic"
        for path, number in _numbered(tree, parent):
            if number is None:
                yield path, "is not named by a partition number; delete it"
            else:
                yield from _partition(tree, (topic, number))


def _partition(tree: Tree, name: Name) -> Iterator[Problem]:
    parent = znodes.partition_path(*name)
    replicas = znodes.replicas_path(*name)
    readers: dict[str, Reader] = {
        replicas: znodes.read_brokers,
        znodes.leader_path(*name): znodes.read_leader,
        znodes.isr_path(*name): znodes.read_isr,
    }
    if replicas not in tree.contents:
        yield parent, "has no replicas; create its replicas znode, or delete it"
    for child in tree.children(parent):
        path = f"{parent}/{child}"
        if path not in readers:
            yield path, _UNKNOWN
            continue
        deletion = f", or delete topic {name[0]}" if path == replicas else ""
        yield from _content(tree, path, readers[path], f"correct it{deletion}")
    yield from _strangers(tree, replicas)


def _reassignments(tree: Tree) -> Iterator[Problem]:
    for topic in tree.children(znodes.REASSIGNED):
        parent = znodes.reassigned_topic_path(topic)
        if znodes.topic_path(topic) not in tree.contents:
            yield parent, "is of a topic that does not exist; delete it"
            continue
        for path, number in _numbered(tree, parent):
            if number is None:
                yield path, "is not named by a partition number; delete it"
            elif znodes.partition_path(topic, number) not in tree.contents:
                yield path, "is of a partition that does not exist; delete it"
            else:
                yield from _content(tree, path, znodes.read_brokers, "correct or delete it")
                yield from _strangers(tree, path)


def _numbered(tree: Tree, parent: str) -> Iterator[tuple[str, int | None]]:
    """The children of a znode with their numbers; None if a child is not named by a number."""
    for child in tree.children(parent):
        yield f"{parent}/{child}", natural(child)


def _content(tree: Tree, path: str, read: Reader, what_to_do: str) -> Iterator[Problem]:
    """The znode cannot be read, or has children."""
    if path not in tree.contents:
        return
    try:
        read(path, tree.contents[path])
    except ZnodeError as error:
        yield path, f"{str(error).removeprefix(path).strip()}; {what_to_do}"
    for child in tree.children(path):
        yield f"{path}/{child}", _UNKNOWN


def _strangers(tree: Tree, path: str) -> Iterator[Problem]:
    """A list of replicas names brokers that were never added."""
    known = tree.numbers(znodes.STATE)
    try:
        replicas = znodes.read_brokers(path, tree.contents.get(path))
    except ZnodeError:
        return
    for one in replicas:
        if one not in known:
            text = f"names broker {one}, which has no queue; add the broker, or correct the znode"
            yield path, text
