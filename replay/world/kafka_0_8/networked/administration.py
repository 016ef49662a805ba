"""The administrators of the 0.8 design: its commands, over a session of the simulation.

A command reads what it needs, and writes one transaction (controller.kafka_0_8.admin). If a reply
is lost, or if a znode has another version by then, the administrator runs the whole command again.
A command that is refused is not repeated.
"""

from collections.abc import Callable, Generator
from typing import Final

from controller.core.operations import BAD_VERSION, OK, Create, SetData, WriteOperation
from controller.core.values import ANY_VERSION
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
from replay.world.admin import RETRY_US, Admin
from replay.world.inputs import CreateTopic, DeleteTopic, Reassign, Target, WriteZnode
from replay.world.kafka_0_8.networked.inputs import AddBrokers, AdminAct08, RemoveBrokers
from replay.world.requests import Exists, GetChildren, GetData, Multi, OperationResult, Read, Reply

_ATTEMPTS_MAX: Final = 20
"""How often a command is run before the administrator gives up."""

Reads = Generator[Read, OperationResult, list[WriteOperation]]
"""Yields requests, receives their results, and returns the writes of the transaction. Raises
AdminError."""


class Admin08(Admin):
    """Carries out the commands of the 0.8 design."""

    def carry_out(self, act: AdminAct08) -> None:
        """Begin a command."""
        for reads in _commands(act):
            _Command(self, reads).begin()


class _Command:
    """A command that is being carried out."""

    def __init__(self, administrator: Admin08, reads: Callable[[], Reads]) -> None:
        self._admin = administrator
        self._make = reads
        self._reads: Reads
        self._attempts = 0

    def begin(self) -> None:
        """Run the command from its beginning."""
        self._attempts += 1
        self._reads = self._make()
        self._advance(lambda: next(self._reads))

    def _advance(self, step: Callable[[], Read]) -> None:
        try:
            request = step()
        except StopIteration as end:
            if end.value:
                writes = Multi(tuple(end.value))
                self._admin.zookeeper.submit(writes, self._check_write)
            return
        except AdminError:
            return
        self._admin.zookeeper.submit(request, self._receive_reply)

    def _receive_reply(self, reply: Reply | None) -> None:
        if reply is None:
            self._retry()
        else:
            self._advance(lambda: self._reads.send(reply.result))

    def _check_write(self, reply: Reply | None) -> None:
        if reply is None or any(one.error == BAD_VERSION for one in reply.results):
            self._retry()

    def _retry(self) -> None:
        if self._attempts < _ATTEMPTS_MAX:
            self._admin.clock.after(RETRY_US, self.begin)


def _commands(act: AdminAct08) -> list[Callable[[], Reads]]:
    """The commands of an act. Routes and configurations of the controller's acts do not matter."""
    match act:
        case AddBrokers(brokers=brokers):
            return [lambda: _add_brokers(brokers)]
        case RemoveBrokers(brokers=brokers):
            return [lambda: _remove_brokers(brokers)]
        case CreateTopic():
            return [lambda: _create_topic(act)]
        case DeleteTopic(topic=topic):
            return [lambda: _delete_topic(topic)]
        case Reassign(targets=targets):
            return [_reassignment_command(one) for one in targets]
        case WriteZnode(path=path, data=data):
            return [lambda: _write(path, data.encode())]
        case _:
            raise NotImplementedError(f"the 0.8 design has no command for {type(act).__name__}")


def _add_brokers(brokers: tuple[int, ...]) -> Reads:
    known = [*znodes.PERSISTENT, znodes.EPOCH, *map(znodes.state_path, brokers)]
    return admin.add_brokers(brokers, (yield from _existing(known)))


def _remove_brokers(brokers: tuple[int, ...]) -> Reads:
    queues = {}
    for one in (yield from _brokers_with_state_path()):
        queues[one] = yield from _children(znodes.state_path(one))
    assigned = Assignments()
    for topic in (yield from _children(znodes.TOPICS)):
        for number in (yield from _numbers(znodes.topic_path(topic))):
            name = (topic, number)
            stored = yield GetData(znodes.replicas_path(*name))
            new = yield GetData(znodes.reassigned_path(*name))
            assigned.add(name, _content(stored), _content(new))
    registered = yield from _numbers(znodes.BROKER_IDS)
    return admin.remove_brokers(brokers, queues, assigned, registered)


def _create_topic(act: CreateTopic) -> Reads:
    known = yield from _brokers_with_state_path()
    operations = admin.create_topic(act.topic, dict(enumerate(act.assignment)), known)
    if (yield Exists(znodes.topic_path(act.topic))).error == OK:
        raise AdminError(f"topic {act.topic} cannot be created: it exists already")
    return operations


def _delete_topic(topic: str) -> Reads:
    if topic not in (yield from _children(znodes.TOPICS)):
        raise AdminError(f"topic {topic} cannot be deleted: it does not exist")
    stored: dict[int, StoredPartition] = {}
    for number in (yield from _numbers(znodes.topic_path(topic))):
        path = znodes.replicas_path(topic, number)
        found = yield GetData(path)
        if found.error == OK and found.stat is not None:
            stored[number] = StoredPartition(
                replicas_or_none((topic, number), found.data),
                found.stat.version,
                tuple((yield from _children(znodes.partition_path(topic, number)))),
                (yield Exists(znodes.reassigned_path(topic, number))).error == OK,
            )
    moved = yield GetChildren(znodes.reassigned_topic_path(topic))
    moves = (moved.children or ()) if moved.error == OK else None
    known = yield from _brokers_with_state_path()
    found = yield GetData(znodes.EPOCH)
    epoch = StoredEpoch(found.data or b"", found.stat.version) if found.stat else None
    return admin.delete_topic(topic, stored, known, moves=moves, epoch=epoch)


def _write(path: str, data: bytes) -> Reads:
    """A mistake of an administrator: a znode that no command writes, with its parent."""
    parent = path.rpartition("/")[0]
    existing = yield from _existing([parent, path])
    if path in existing:
        return [SetData(path, data, ANY_VERSION)]
    create: list[WriteOperation] = [Create(path, data)]
    return create if parent in existing else [Create(parent), *create]


def _reassignment_command(target: Target) -> Callable[[], Reads]:
    return lambda: _reassign((target.topic, target.partition), target.replicas)


def _reassign(name: Name, replicas: tuple[int, ...]) -> Reads:
    existing = yield from _existing(admin.paths_of_reassignment(*name))
    return admin.reassign(*name, replicas, (yield from _brokers_with_state_path()), existing)


def _content(found: OperationResult) -> bytes | None:
    """The content of a znode; None if it does not exist."""
    return (found.data or b"") if found.error == OK else None


def _brokers_with_state_path() -> Generator[Read, OperationResult, list[int]]:
    """The brokers with a state path."""
    return (yield from _numbers(znodes.STATE))


def _numbers(path: str) -> Generator[Read, OperationResult, list[int]]:
    numbers = map(parse_natural, (yield from _children(path)))
    return [one for one in numbers if one is not None]


def _children(path: str) -> Generator[Read, OperationResult, list[str]]:
    return list((yield GetChildren(path)).children or ())


def _existing(paths: list[str]) -> Generator[Read, OperationResult, list[str]]:
    found = []
    for path in paths:
        if (yield Exists(path)).error == OK:
            found.append(path)
    return found
