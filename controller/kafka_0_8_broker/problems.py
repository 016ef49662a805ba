"""Problems in ZooKeeper: znodes that the 0.8 design does not have, and content that no broker can
use. Brokers skip these znodes (S-10), so that only `status` shows all of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from controller.core.errors import ZnodeError
from controller.core.znodes.schema import parse_natural
from controller.kafka_0_8 import znodes
from controller.kafka_0_8.state import Name

_TOP: Final = (*znodes.PERSISTENT[1:], znodes.EPOCH)
_DENIED: Final = "cannot be read (NoAuth): its ACL does not allow it; correct the ACL"
_UNKNOWN: Final = "is not a znode of the design; delete it"

Reader = Callable[[str, bytes], object]
"""Raises ZnodeError."""


class Problem(NamedTuple):
    """A problem of a znode, and what to do. `is_unreadable`: its content is wrong."""

    path: str
    text: str
    is_unreadable: bool = False


class ClusterZnodes:
    """The znodes of a cluster. `contents`: the content of each znode by its path; `denied`: those
    that may not be read, and whose children are unknown."""

    def __init__(self, contents: Mapping[str, bytes], denied: Sequence[str] = ()) -> None:
        self.contents = contents
        self.denied = dict.fromkeys(denied)
        self._children: dict[str, list[str]] = {}
        for path in (*contents, *denied):
            parent, _, name = path.rpartition("/")
            self._children.setdefault(parent, []).append(name)

    def children(self, path: str) -> list[str]:
        """The names of the children of a znode, in the order of the contents."""
        return self._children.get(path, [])

    def lacks(self, path: str) -> bool:
        """Whether a znode does not exist. If it, or a znode above it, may not be read, that is
        unknown."""
        if path in self.contents:
            return False
        parts = path.split("/")
        return not any("/".join(parts[:end]) in self.denied for end in range(2, len(parts) + 1))

    def numbers(self, path: str) -> list[int]:
        """The children that are named by a number."""
        found = map(parse_natural, self.children(path))
        return sorted(one for one in found if one is not None)

    def partitions(self) -> list[Name]:
        """All partitions."""
        topics = self.children(znodes.TOPICS)
        return [(one, number) for one in topics for number in self.numbers(znodes.topic_path(one))]


def problems_of(tree: ClusterZnodes) -> dict[str, Problem]:
    """The problems of a cluster's znodes, by path."""
    found = [
        *(Problem(path, _DENIED, is_unreadable=True) for path in tree.denied),
        *_strange_children(tree),
        *_epoch(tree),
        *_registrations(tree),
        *_queues(tree),
        *_topics(tree),
        *_reassignments(tree),
    ]
    return {one.path: one for one in found}


def _strange_children(tree: ClusterZnodes) -> Iterator[Problem]:
    for child in tree.children(znodes.BROKERS):
        path = f"{znodes.BROKERS}/{child}"
        if path not in _TOP:
            yield Problem(path, _UNKNOWN)


def _epoch(tree: ClusterZnodes) -> Iterator[Problem]:
    path = znodes.EPOCH
    if tree.contents.get(path) == znodes.NO_EPOCH_CONTENT or (
        tree.lacks(path) and tree.children(znodes.TOPICS)
    ):
        yield Problem(path, "has no epoch; the next leader takes it from the partitions")
        return
    what_happens = "the next leader takes it from the partitions"
    yield from _content(tree, path, lambda _, data: znodes.read_epoch(data), what_happens)


def _registrations(tree: ClusterZnodes) -> Iterator[Problem]:
    for path, number in _numbered_children(tree, znodes.BROKER_IDS):
        if number is None:
            yield Problem(path, "is not named by a broker id; delete it")
        else:
            what_to_do = f"delete it, and restart broker {number}"
            yield from _content(tree, path, znodes.read_address, what_to_do)


def _queues(tree: ClusterZnodes) -> Iterator[Problem]:
    for queue, number in _numbered_children(tree, znodes.STATE):
        if number is None:
            yield Problem(queue, "is not named by a broker id; delete it")
            continue
        for child in tree.children(queue):
            path = f"{queue}/{child}"
            if not znodes.is_request(child):
                yield Problem(
                    path, "is not named request-NNNNNNNNNN, so that it is ignored; delete it"
                )
                continue
            what_to_do = f"broker {number} deletes it when it runs"
            yield from _content(tree, path, znodes.read_state_change, what_to_do)


def _topics(tree: ClusterZnodes) -> Iterator[Problem]:
    for topic in tree.children(znodes.TOPICS):
        parent = znodes.topic_path(topic)
        if not tree.children(parent) and parent not in tree.denied:
            yield Problem(parent, "has no partitions; delete the topic")
        for path, number in _numbered_children(tree, parent):
            if number is None:
                yield Problem(path, "is not named by a partition number; delete it")
            else:
                yield from _partition(tree, (topic, number))


def _partition(tree: ClusterZnodes, name: Name) -> Iterator[Problem]:
    parent = znodes.partition_path(*name)
    replicas = znodes.replicas_path(*name)
    readers: dict[str, Reader] = {
        replicas: znodes.read_brokers,
        znodes.leader_path(*name): znodes.read_leader,
        znodes.isr_path(*name): znodes.read_isr,
    }
    if tree.lacks(replicas):
        yield Problem(parent, "has no replicas; create its replicas znode, or delete it")
    for child in tree.children(parent):
        path = f"{parent}/{child}"
        if path not in readers:
            yield Problem(path, _UNKNOWN)
            continue
        deletion = f", or delete topic {name[0]}" if path == replicas else ""
        yield from _content(tree, path, readers[path], f"correct it{deletion}")
    yield from _strangers(tree, replicas)
    yield from _unassigned_isr(tree, name)
    yield from _leader_problems(tree, name)


def _leader_problems(tree: ClusterZnodes, name: Name) -> Iterator[Problem]:
    """The leader of a partition is not registered, or its partition has no ISR."""
    path, isr = znodes.leader_path(*name), znodes.isr_path(*name)
    try:
        leader = znodes.read_leader(path, tree.contents.get(path))
    except ZnodeError:
        return
    registration = znodes.broker_path(leader.broker)
    if tree.lacks(registration):
        text = f"names broker {leader.broker}, which is not registered ({registration})"
        what_to_do = f"if it stays so, restart broker {leader.broker}"
        if tree.lacks(znodes.state_path(leader.broker)):
            what_to_do = "it has no queue either: if there is no such broker, delete the znode"
        yield Problem(path, f"{text}; {what_to_do}")
    if tree.lacks(isr):
        text = "does not exist although the partition has a leader; create it with the replicas"
        yield Problem(isr, f"{text} that have all committed records, such as {_example(leader)}")


def _example(leader: znodes.LeaderZnode) -> str:
    isr = znodes.Isr((leader.broker,), leader.epoch)
    return znodes.write_isr(isr).decode()


def _unassigned_isr(tree: ClusterZnodes, name: Name) -> Iterator[Problem]:
    """A member of the ISR is not an assigned replica: it cannot become leader (E-01)."""
    path, replicas = znodes.isr_path(*name), znodes.replicas_path(*name)
    try:
        isr = znodes.read_isr(path, tree.contents.get(path)).brokers
        assigned = znodes.read_brokers(replicas, tree.contents.get(replicas))
    except ZnodeError:
        return
    strangers = [one for one in isr if one not in assigned]
    what = f"names {strangers}, not among the assigned replicas {list(assigned)}"
    if not set(isr) & set(assigned):
        what = f"has none of the assigned replicas {list(assigned)}"
    if strangers:
        yield Problem(path, f"{what}; correct it, or {replicas}")


def _reassignments(tree: ClusterZnodes) -> Iterator[Problem]:
    for topic in tree.children(znodes.REASSIGNED):
        parent = znodes.reassigned_topic_path(topic)
        if tree.lacks(znodes.topic_path(topic)):
            yield Problem(parent, "is of a topic that does not exist; delete it")
            continue
        for path, number in _numbered_children(tree, parent):
            if number is None:
                yield Problem(path, "is not named by a partition number; delete it")
            elif tree.lacks(znodes.partition_path(topic, number)):
                yield Problem(path, "is of a partition that does not exist; delete it")
            else:
                yield from _content(tree, path, znodes.read_brokers, "correct or delete it")
                yield from _strangers(tree, path)


def _numbered_children(tree: ClusterZnodes, parent: str) -> Iterator[tuple[str, int | None]]:
    """The children of a znode with their numbers; None if a child is not named by a number."""
    for child in tree.children(parent):
        yield f"{parent}/{child}", parse_natural(child)


def _content(tree: ClusterZnodes, path: str, read: Reader, what_to_do: str) -> Iterator[Problem]:
    """The znode cannot be read, or has children."""
    if path not in tree.contents:
        return
    try:
        read(path, tree.contents[path])
    except ZnodeError as error:
        text = f"{str(error).removeprefix(path).strip()}; {what_to_do}"
        yield Problem(path, text, is_unreadable=True)
    for child in tree.children(path):
        yield Problem(f"{path}/{child}", _UNKNOWN)


def _strangers(tree: ClusterZnodes, path: str) -> Iterator[Problem]:
    """A list of replicas names brokers that were never added."""
    known = tree.numbers(znodes.STATE)
    try:
        replicas = znodes.read_brokers(path, tree.contents.get(path))
    except ZnodeError:
        return
    for one in replicas:
        if one not in known and tree.lacks(znodes.state_path(one)):
            text = f"names broker {one}, which has no queue; add the broker, or correct the znode"
            yield Problem(path, text)
