"""`refold reassign` on a simulated cluster, with or without an active controller."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from controller.core import znodes
from controller.core.commands import CommandId, ReadZnodes, WriteAtomically, ZooKeeperCommand
from controller.core.operations import WriteOperation
from controller.core.znodes import (
    REASSIGNMENTS,
    Reassignment,
    reassignment_path,
    reassignments_path,
    write_reassignment,
)
from controller.operator.reassignment.cluster import (
    ClusterConnection,
    KafkaClusterAdmin,
    ZooKeeperClusterAdmin,
)
from controller.operator.reassignment.errors import KafkaUnavailable
from controller.operator.reassignment.kafka_admin import KafkaAdmin, LogDirs, ReplicaOnDisk
from controller.operator.reassignment.report import ProgressReport
from controller.operator.zookeeper_client import ZooKeeperClient
from replay.world.broker.log import Log
from replay.world.outcomes import carry_out
from tests.controller.core.cluster import Cluster as Simulated
from tests.controller.core.procedures.reassignment.interrupting import interruptible, submit
from tests.controller.core.procedures.reassignment.reassigning import T0, Name, reassign

Targets = dict[Name, tuple[int, ...]]


class WorldClient(ZooKeeperClient):
    """A store on the simulated ZooKeeper. `before_write` and `after_write` are called once,
    before and after the next write, and `before_topics` before topics are read. `writes` counts
    the writes, and `written` has the operations of the last one."""

    def __init__(self, world: Simulated) -> None:
        self.before_write: Callable[[], object] | None = None
        self.after_write: Callable[[], object] | None = None
        self.before_topics: Callable[[], object] | None = None
        self.writes = 0
        self.written: tuple[WriteOperation, ...] = ()
        self._world = world
        self._session = world.zookeeper.create_session()

    async def carry_out(self, command: ZooKeeperCommand, result: Any) -> None:
        world = self._world
        if isinstance(command, WriteAtomically):
            self.writes += 1
            self.written = command.operations
            before, self.before_write = self.before_write, None
            if before is not None:
                before()
        if isinstance(command, ReadZnodes) and znodes.topic_path("t") in command.paths:
            before, self.before_topics = self.before_topics, None
            if before is not None:
                before()
        command_id = CommandId(1, 0)
        for event in carry_out(world.zookeeper, self._session, command_id, command, world.now_ms):
            result.add(event)
        if isinstance(command, WriteAtomically):
            world.run()
            after, self.after_write = self.after_write, None
            if after is not None:
                after()


LOG_DIR = "/data"
LOG_BYTES = 1024


class WorldDisks(KafkaAdmin):
    """The disks of the simulated brokers. `unresponsive` brokers do not answer, `broken` ones
    have an unreadable directory. `looking` is called once, before the first broker is read."""

    def __init__(self, world: Simulated) -> None:
        self.unresponsive: set[int] = set()
        self.broken: set[int] = set()
        self.looking: Callable[[], object] | None = None
        self._world = world

    async def log_dirs(self, broker: int) -> LogDirs:
        looking, self.looking = self.looking, None
        if looking is not None:
            looking()
        if broker in self.unresponsive:
            raise KafkaUnavailable(f"node {broker} does not answer: timed out")
        names = self._world.brokers[broker].logs
        unreadable = {"/broken": "kafka_storage_error (code 56)"} if broker in self.broken else {}
        return LogDirs(tuple(ReplicaOnDisk(name, LOG_DIR, LOG_BYTES) for name in names), unreadable)


class ReassignHarness:
    """A simulated cluster and an operator. t-0 is on `replicas` of `brokers` brokers.
    `with_disks` is the same cluster for an operator who can read the log directories of brokers."""

    def __init__(self, brokers: int = 6, *replicas: int) -> None:
        self.world = interruptible(brokers, *(replicas or (1, 2, 3)))
        self.client = WorldClient(self.world)
        admin, options = ZooKeeperClusterAdmin(self.client), ("--zookeeper", "zk:2181/a b")
        self.cluster = ClusterConnection(admin, None, options)
        self.disks = WorldDisks(self.world)
        self.with_disks = ClusterConnection(admin, KafkaClusterAdmin(self.disks), options)
        self.lines: list[str] = []
        self.warnings: list[str] = []

    def report(self) -> ProgressReport:
        """A report for the next command. The output of the last one is discarded."""
        self.lines.clear()
        self.warnings.clear()
        return ProgressReport("test", self.lines.append, self.warnings.append)

    @property
    def output(self) -> str:
        """The output of the last command."""
        return "\n".join(self.lines)

    def by_api(self, *replicas: int) -> None:
        """Kafka's API starts a move of t-0, which has a record of this route."""
        origin = self.world.topic("t").assignments[0].replicas
        assert reassign(self.world, *replicas) == 0
        for path in (REASSIGNMENTS, reassignments_path("t")):
            if self.world.data(path) is None:
                self.world.put_quietly(path, b"")
        record = Reassignment(replicas, len(origin), False, origin, True)
        self.world.put_quietly(reassignment_path(*T0), write_reassignment(record))

    def leave_on_disk(self, broker: int, *names: Name) -> None:
        """Replicas that are on the disk of a broker, whatever is assigned."""
        for name in names:
            self.world.brokers[broker].disk.logs[name] = Log()

    def hand_over(self, broker: int) -> None:
        """A stock broker takes the role. refold becomes inactive."""
        self.world.seize_role(broker)
        self.world.run()

    @asynccontextmanager
    async def while_waiting(self, act: Callable[[], object]) -> AsyncIterator[None]:
        """Whenever the command in the block waits, `act` is called."""

        async def repeat() -> None:
            while True:
                await anyio.sleep(0.01)  # The command runs meanwhile.
                act()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(repeat)
            yield
            tasks.cancel_scope.cancel()

    def without_controller(self) -> None:
        """No controller is active."""
        self.world.shut_down()


def targets(**moves: Sequence[int]) -> Targets:
    """`t0=(4, 5)`: the replicas of t-0."""
    return {(name[:-1], int(name[-1])): tuple(one) for name, one in moves.items()}


def waiting_for_originals(*, has_controller: bool = False) -> ReassignHarness:
    """t-0 moves to [4,5,6]. Only its original 1 is in sync, and two are required. Without an active
    controller, nothing changes."""
    harness = ReassignHarness()
    harness.world.put(
        znodes.topic_config_path("t"), b'{"version":1,"config":{"min.insync.replicas":"2"}}'
    )
    submit(harness.world, {T0: (4, 5, 6)})
    if not has_controller:
        harness.without_controller()
    harness.world.set_isr("t", 0, (1, 4))
    return harness
