"""A small cluster under a simulated controller, in the terms of the scenario tables (KB 17).

States, requests and notices are compared as text. `leader 2 e 1 isr [2,3] v 1 ce 1` is leader,
leader epoch, ISR, version of the state znode and the controller epoch in the znode.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from controller.core import znodes
from controller.core.canonical import encode_entries_ahead
from controller.core.commands import (
    BrokerRequest,
    Choice,
    CloseChannel,
    Command,
    Issued,
    LeaderAndIsrRequest,
    Notice,
    OpenChannel,
    ReadChildren,
    ReadStats,
    ReadZnodes,
    StopReplicaRequest,
    UpdateMetadataRequest,
    WriteAtomically,
    WriteZnodes,
)
from controller.core.configuration import Configuration
from controller.core.events import Recorded, ShutdownRequested
from controller.core.operations import Create, CreateSequential, Delete, SetData, WriteOperation
from controller.core.prepared_topics import prepare_ahead
from controller.core.state import Partition
from controller.core.values import ANY_VERSION
from replay.world.requests import Exists, GetChildren, GetData
from replay.world.zookeeper import ZooKeeper
from tests.controller.core.transcript_text import spell, spell_state
from tests.controller.core.unreliable import Delivery, UnreliableSimulation

DAEMON = 1000
"""The controller's broker id."""

Assignments = dict[int, Sequence[int]]
"""The replicas of each partition of a topic."""


class Cluster(UnreliableSimulation):
    """Brokers that register before the controller starts, and actions of brokers and tools."""

    def __init__(self, *brokers: int, zookeeper: ZooKeeper | None = None, **settings: Any) -> None:
        super().__init__(Configuration(broker_id=DAEMON, **settings), zookeeper)
        for broker in brokers:
            self.register(broker)

    # Actions of others

    def start(self) -> "Cluster":
        """Start the daemon. Returns the cluster, so that a test can create and start it in one
        line."""
        self.connect()
        return self

    def create_topic(self, topic: str, partitions: Assignments, **fields: Any) -> None:
        """A broker or tool writes a topic's znode, also to add partitions."""
        self.put(znodes.topic_path(topic), topic_json(partitions, **fields))

    def change_topic_quietly(self, topic: str, partitions: Assignments, **fields: Any) -> None:
        """As `create_topic`, but the controller does not react yet."""
        self.put_quietly(znodes.topic_path(topic), topic_json(partitions, **fields))

    def put_quietly(self, path: str, data: bytes) -> None:
        """As `put`, but the controller does not react yet."""
        exists = self.ask(Exists(path)).error == 0
        self.ask(SetData(path, data, ANY_VERSION) if exists else Create(path, data))

    def put_with_parents(self, path: str, data: bytes) -> None:
        """As `put`; missing parents are created empty."""
        parts = path.split("/")[1:]
        for count in range(1, len(parts)):
            parent = "/" + "/".join(parts[:count])
            if self.data(parent) is None:
                self.put(parent, b"")
        self.put(path, data)

    def remove_quietly(self, path: str) -> None:
        """A tool deletes a znode and all below it. The controller does not react yet."""
        for child in self.ask(GetChildren(path)).children or ():
            self.remove_quietly(f"{path}/{child}")
        self.ask(Delete(path, ANY_VERSION))

    def remove_topic_znodes(self, topic: str) -> None:
        """A tool deletes a topic's znodes."""
        self.remove_quietly(znodes.topic_path(topic))
        self.run()

    def set_isr(self, topic: str, number: int, isr: Sequence[int]) -> None:
        """The leader of a partition writes another ISR itself, as below IBP 2.7-IV2."""
        state = self.leadership(topic, number)
        changed = msgspec.structs.replace(state, isr=tuple(isr))
        path = znodes.state_path(topic, number)
        self.ask(SetData(path, znodes.write_state(changed), state.partition_epoch))

    def announce_isr(self, *names: tuple[str, int], data: bytes | None = None) -> None:
        """A leader announces its ISR changes. `data` replaces the content of the notification."""
        named = [{"topic": topic, "partition": number} for topic, number in names]
        content = data or msgspec.json.encode({"version": 1, "partitions": named})
        self.ask(CreateSequential(f"{znodes.ISR_CHANGES}/isr_change_", content))
        self.run()

    def put_state_of_a_later_controller(self, topic: str, number: int) -> bytes:
        """Write epoch 100 into a partition's state, so that later writes of the state fail.
        Returns the former content. The controller does not react yet."""
        path = znodes.state_path(topic, number)
        whole = self.data(path)
        assert whole is not None, f"{path} does not exist"
        later = msgspec.json.decode(whole) | {"controller_epoch": 100}
        self.put_quietly(path, msgspec.json.encode(later))
        return whole

    def prepare_ahead(self) -> None:
        """The controller has nothing to do, and prepares all topics for the start of brokers."""
        controller = self.fold.controller
        for topic in controller.context.topics.values():
            prepared = prepare_ahead(topic, controller.prepared)
            if prepared is not None:
                encode_entries_ahead(prepared, for_all=False)

    def bounce(self, broker: int) -> None:
        """A broker restarts between two reads of the registrations by the controller."""
        self.unregister(broker)
        self.start_broker(broker)

    def take_role(self, broker: int) -> int:
        """A stock broker becomes controller if the role is free. Returns its session. The daemon
        does not react yet."""
        session = self.zookeeper.create_session()
        data = znodes.write_controller(broker, self.now_ms)
        create = Create(znodes.CONTROLLER, data, ephemeral=True)
        assert not self.zookeeper.apply(session, create, self.now_ms).result.error
        self.ask(Create(znodes.CONTROLLER_EPOCH, b"0"))
        raised = str(self.epoch() + 1).encode()
        self.ask(SetData(znodes.CONTROLLER_EPOCH, raised, ANY_VERSION))
        return session

    def seize_role(self, broker: int) -> int:
        """As `take_role`, but takes the role from the current controller."""
        self.ask(Delete(znodes.CONTROLLER, ANY_VERSION))
        return self.take_role(broker)

    def leave_role(self, session: int) -> None:
        """The session of the stock broker that is controller ends."""
        self.zookeeper.end_session(session)
        self.run()

    def shut_down(self) -> None:
        """The operator asks the daemon to exit."""
        self.happen(ShutdownRequested("SIGTERM"), "signals")

    def shut_down_quietly(self) -> None:
        """As `shut_down`, but the controller does not react yet."""
        self.happen_next(ShutdownRequested("SIGTERM"), "signals")

    def once(self, which: Callable[[Issued], bool], what: Callable[[], object]) -> None:
        """Call `what` just before the first command that matches `which` is carried out."""

        def before(issued: Issued) -> None:
            if which(issued):
                self.before = lambda issued: None
                what()

        self.before = before

    def lose(self, which: Callable[[Issued], bool], delivery: Delivery) -> None:
        """Deliver the first command that matches `which` in this way."""

        def decide(issued: Issued) -> Delivery:
            if not which(issued):
                return Delivery.ANSWERED
            self.delivery = lambda issued: Delivery.ANSWERED
            return delivery

        self.delivery = decide

    # State of the cluster

    @property
    def is_active(self) -> bool:
        """Whether the daemon believes that it holds the role."""
        return self.fold.controller.is_active

    def partition(self, topic: str, number: int) -> Partition:
        """The controller's knowledge of a partition."""
        found = self.fold.controller.context.find(topic, number)
        assert found is not None, f"{topic}-{number} is not known"
        return found

    def leadership(self, topic: str, number: int) -> Any:
        """A partition's state znode, parsed."""
        path = znodes.state_path(topic, number)
        found = self.ask(GetData(path))
        assert found.stat is not None, f"{path} does not exist"
        return znodes.read_state(path, found.data, found.stat.version)

    def state(self, topic: str, number: int) -> str | None:
        """A partition's state znode as text; None if it does not exist."""
        if self.data(znodes.state_path(topic, number)) is None:
            return None
        return spell_state(self.leadership(topic, number))

    def topic(self, name: str) -> Any:
        """A topic's znode, parsed."""
        return znodes.read_topic(name, self.data(znodes.topic_path(name)))

    def controller(self) -> int | None:
        """The broker id in /controller."""
        data = self.data(znodes.CONTROLLER)
        holder = znodes.read_controller(data) if data is not None else None
        return holder.brokerid if holder else None

    def epoch(self) -> int:
        """The content of /controller_epoch."""
        return int(self.data(znodes.CONTROLLER_EPOCH) or b"-1")

    def broker_epoch(self, broker: int) -> int:
        """The czxid of a broker's registration."""
        stat = self.ask(GetData(znodes.broker_path(broker))).stat
        assert stat is not None, f"broker {broker} is not registered"
        return stat.czxid

    def version(self, path: str) -> int | None:
        """The version of a znode; None if it does not exist."""
        stat = self.ask(GetData(path)).stat
        return stat.version if stat else None

    def seen(self) -> "Seen":
        """The decisions from now on."""
        return Seen(self)


class Seen:
    """The decisions since the object was made."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._start = len(cluster.history)

    @property
    def history(self) -> list[tuple[Recorded, list[Issued]]]:
        """The events and their commands."""
        return self._cluster.history[self._start :]

    @property
    def commands(self) -> list[Command]:
        """The commands in the order in which they were issued."""
        return [issued.command for _, commands in self.history for issued in commands]

    def requests(self, broker: int) -> list[str]:
        """The requests that were sent to a broker, one text per request."""
        return ["; ".join(spell(one)) for one in self.broker_requests() if one.broker == broker]

    def requested(self) -> dict[int, list[str]]:
        """Requests by broker. Brokers without requests are left out."""
        brokers = sorted({one.broker for one in self.broker_requests()})
        return {broker: self.requests(broker) for broker in brokers}

    def broker_requests(self) -> list[BrokerRequest]:
        """The requests to all brokers, in order."""
        kinds = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
        return [one for one in self.commands if isinstance(one, kinds)]

    def leader_and_isr(self, broker: int) -> list[LeaderAndIsrRequest]:
        """The LeaderAndIsr requests to a broker."""
        return [
            one
            for one in self.commands
            if isinstance(one, LeaderAndIsrRequest) and one.broker == broker
        ]

    def opened(self) -> list[OpenChannel]:
        """The channels that were opened."""
        return [one for one in self.commands if isinstance(one, OpenChannel)]

    def kinds(self, broker: int) -> list[str]:
        """The kinds of the requests that a broker was sent."""
        return [one.split()[0] for one in self.requests(broker)]

    def channels(self) -> list[str]:
        """Channels opened and closed, in order."""
        return [
            spell(one)[0].partition(" epoch ")[0]
            for one in self.commands
            if isinstance(one, OpenChannel | CloseChannel)
        ]

    def writes(self) -> list[WriteOperation]:
        """The operations of every write."""
        return [
            operation
            for one in self.commands
            if isinstance(one, WriteZnodes | WriteAtomically)
            for operation in one.operations
        ]

    def written(self) -> list[str]:
        """The paths of every write."""
        return [operation.path for operation in self.writes()]

    def notices(self) -> list[tuple[str, str]]:
        """Code and subject of the warnings and errors that were reported."""
        return [
            (one.code, one.subject)
            for one in self.commands
            if isinstance(one, Notice) and one.level != "info"
        ]

    def failed_elections(self) -> list[Choice]:
        """The elections without a leader that notices carry, with their candidates."""
        return [
            choice
            for _, commands in self.history
            for issued in commands
            if isinstance(issued.command, Notice)
            for choice in issued.reason.choices
        ]

    def texts(self) -> list[str]:
        """The texts of warnings and errors."""
        return [
            one.text for one in self.commands if isinstance(one, Notice) and one.level != "info"
        ]

    def texts_of(self, code: str) -> list[str]:
        """The texts of the notices with a code."""
        return [one.text for one in self.commands if isinstance(one, Notice) and one.code == code]


def topic_json(partitions: Assignments, **fields: Any) -> bytes:
    """A topic's znode as a tool writes it."""
    lists = {str(number): list(replicas) for number, replicas in partitions.items()}
    return msgspec.json.encode({"version": 3, "partitions": lists} | fields)


def writes_state(topic: str, number: int) -> Callable[[Issued], bool]:
    """A predicate that matches the writes of a partition's state."""
    return writes(znodes.state_path(topic, number))


def writes(path: str) -> Callable[[Issued], bool]:
    """A predicate that matches the writes of a znode."""

    def matches(issued: Issued) -> bool:
        command = issued.command
        return isinstance(command, WriteZnodes) and any(
            operation.path == path for operation in command.operations
        )

    return matches


def reads(path: str) -> Callable[[Issued], bool]:
    """A predicate that matches the reads of a znode, those of its children included."""

    def matches(issued: Issued) -> bool:
        match issued.command:
            case ReadZnodes(paths=paths) | ReadStats(paths=paths):
                return path in paths
            case ReadChildren(path=listed):
                return listed == path
        return False

    return matches


def at_write(number: int) -> Callable[[Issued], bool]:
    """A predicate that matches the nth write, counted from 0."""
    count = iter(range(number + 1))

    def matches(issued: Issued) -> bool:
        return isinstance(issued.command, WriteZnodes) and next(count, None) == number

    return matches


def by_rule(kind: type[Command], rule: str) -> Callable[[Issued], bool]:
    """A predicate that matches the commands of a kind with this rule."""
    return lambda issued: isinstance(issued.command, kind) and issued.reason.rule == rule
