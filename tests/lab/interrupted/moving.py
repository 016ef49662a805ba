"""A real cluster in which partitions are moved with `refold reassign`."""

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from aiokafka import AIOKafkaProducer

from controller.core import znodes
from controller.core.znodes import (
    REASSIGN_CANCEL,
    REASSIGN_PARTITIONS_EXTRA,
    REASSIGNMENT_REQUESTS,
    REASSIGNMENTS,
    REQUEST_PREFIX,
)
from controller.operator.reassignment.cluster import connected
from controller.operator.reassignment.steps import Configure
from controller.operator.reassignment.throttling import rates
from tests.controller.daemon.lab_cluster import timed
from tests.lab.default_clusters.cluster import DefaultLabCluster
from tools.lab import Lab
from tools.lab.refold import Refold, run

Name = tuple[str, int]
Targets = Mapping[Name, Sequence[int]]

ABSENT_BROKER = 9
"""A broker that never starts: a reassignment to it stays in progress."""
RECORD_BYTES = 50_000
AT_ONCE = 50


class Moving(DefaultLabCluster):
    """A `DefaultLabCluster` with methods to start and observe reassignments."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        super().__init__(lab, folder)
        self.folder = folder
        self._written = 0
        self._failing: list[Refold] = []

    async def reassign(self, *options: str, given: Targets | None = None, status: int = 0) -> str:
        """Runs `refold reassign` through ZooKeeper; returns its output."""
        arguments = list(options)
        if given is not None:
            arguments += ["--reassignment-json-file", str(self._file(given))]
        ended, output = await run("reassign", "--zookeeper", self.connect, *arguments)
        assert ended == status, f"{options}: exit {ended}: {output}"
        return output

    async def reassign_by_api(self, given: Targets, *options: str) -> str:
        """Runs `refold reassign --execute` as Kafka's tool does; returns its output."""
        arguments = ("--execute", "--reassignment-json-file", str(self._file(given)), *options)
        servers = self.lab.bootstrap
        ended, output = await run("reassign", "--bootstrap-server", servers, *arguments)
        assert ended == 0, f"exit {ended}: {output}"
        return output

    async def submit(self, given: Targets, path: str = znodes.REASSIGN_PARTITIONS) -> None:
        """Creates a znode as a tool does that does not check whether its brokers exist."""
        await self.view.create(path, entries_json(given))

    async def request(self, given: Mapping[str, Mapping[int, Sequence[int]]]) -> None:
        """Creates a request without checking whether its brokers exist."""
        assignments = {
            topic: {str(number): list(replicas) for number, replicas in partitions.items()}
            for topic, partitions in given.items()
        }
        data = json.dumps({"version": 1, "assignments": assignments})
        await self.view.create(REQUEST_PREFIX, data, sequential=True)

    def _file(self, given: Targets) -> Path:
        self._written += 1
        path = self.folder / f"reassignment-{self._written}.json"
        path.write_text(entries_json(given))
        return path

    async def limit(self, broker: int, bytes_a_second: int) -> None:
        """Sets another throttle for a broker than that of `--throttle`."""
        given = rates(bytes_a_second)
        async with connected(self.connect, None, None) as cluster:
            await cluster.admin.configure(Configure(f"brokers/{broker}", given))

    async def fill(self, topic: str, records: int, partition: int = 0) -> None:
        """Writes this many records of 50 kB, which `Traffic` does not count."""
        async with AIOKafkaProducer(bootstrap_servers=self.lab.bootstrap) as producer:
            for start in range(0, records, AT_ONCE):
                await asyncio.gather(
                    *(
                        producer.send_and_wait(
                            topic, b"-1".rjust(RECORD_BYTES), partition=partition
                        )
                        for _ in range(start, min(start + AT_ONCE, records))
                    )
                )

    # State

    async def replicas(self, topic: str, partition: int = 0) -> tuple[list[int], bool]:
        """A partition's replicas in ZooKeeper, and whether a reassignment is in progress."""
        znode = await self.view.topic(topic) or {}
        in_progress = any(
            str(partition) in znode.get(key, {}) for key in ("adding_replicas", "removing_replicas")
        )
        return list(znode["partitions"][str(partition)]), in_progress

    async def until_assigned(
        self, topic: str, replicas: Sequence[int], partition: int = 0
    ) -> float:
        """Waits until a partition has these replicas and no reassignment; returns the seconds."""

        async def assigned() -> bool:
            return await self.replicas(topic, partition) == (list(replicas), False)

        return await timed(assigned, f"{topic}-{partition} is on {list(replicas)}")

    async def until_adding(self, topic: str, partition: int = 0) -> float:
        """Waits until a reassignment of a partition is in progress."""

        async def adding() -> bool:
            return (await self.replicas(topic, partition))[1]

        return await timed(adding, f"{topic}-{partition} is being reassigned")

    async def until_repaired(self, path: str, before: Mapping[str, object]) -> float:
        """Waits until a record is as before; a repaired record has no leader epoch."""
        wanted = {field: value for field, value in before.items() if field != "leader_epoch"}

        async def repaired() -> bool:
            with contextlib.suppress(json.JSONDecodeError):
                return bool(await self.view.content(path) == wanted)
            return False

        return await timed(repaired, f"{path} is repaired")

    async def until_files(self, topic: str, brokers: Sequence[int], partition: int = 0) -> float:
        """Waits until exactly these brokers have the partition's files; returns the seconds."""

        async def there() -> bool:
            return self.with_files(topic, partition) == list(brokers)

        return await timed(there, f"{topic}-{partition} has files on {list(brokers)}")

    def with_files(self, topic: str, partition: int = 0) -> list[int]:
        """The brokers whose disk has the partition; directories to be deleted have another name."""
        name = f"{topic}-{partition}"
        return [one.broker_id for one in self.lab.brokers if (one.folder / "data" / name).exists()]

    def bytes_on(self, broker: int, topic: str, partition: int = 0) -> int:
        """The number of bytes that a broker has of a partition."""
        folder = self.lab.brokers[broker - 1].folder / "data" / f"{topic}-{partition}"
        return sum(one.stat().st_size for one in folder.glob("*.log"))

    async def until_nothing_is_left(self) -> float:
        """Waits until no znode of a reassignment exists, except perhaps a cancellation."""
        return await timed(self.is_nothing_left, "no znode of a reassignment exists")

    async def is_nothing_left(self) -> bool:
        """Whether no znode of a reassignment exists, except perhaps a cancellation."""
        stand = [
            await self.view.exists(path)
            for path in (znodes.REASSIGN_PARTITIONS, REASSIGN_PARTITIONS_EXTRA)
        ]
        left = [await self.view.children(path) for path in (REASSIGNMENT_REQUESTS, REASSIGNMENTS)]
        return not any(stand) and not any(left)

    async def tidy(self) -> None:
        """Deletes the znodes that a test left, so that Kafka ends the reassignments in progress."""
        for path in (REASSIGN_CANCEL, znodes.REASSIGN_PARTITIONS, REASSIGN_PARTITIONS_EXTRA):
            if await self.view.exists(path):
                await self.view.delete(path)
        for topic in await self.view.children(REASSIGNMENTS):
            for partition in await self.view.children(f"{REASSIGNMENTS}/{topic}"):
                await self.view.delete(f"{REASSIGNMENTS}/{topic}/{partition}")
            await self.view.delete(f"{REASSIGNMENTS}/{topic}")
        for request in await self.view.children(REASSIGNMENT_REQUESTS):
            await self.view.delete(f"{REASSIGNMENT_REQUESTS}/{request}")

    def failing(self, program: str, *, settings: Mapping[str, str | int] | None = None) -> Refold:
        """A daemon with a failpoint, which takes the role when it starts."""
        made = self.daemon("--take-over", program=program, settings=settings)
        self._failing.append(made)
        return made

    def logs(self) -> list[Path]:
        """The logs except those of daemons with a failpoint, which differ from their replay."""
        left_out = {log.resolve() for one in self._failing for log in one.log_dir.glob("run-*")}
        return [log for log in super().logs() if log not in left_out]


def entries_json(given: Targets) -> str:
    """A reassignment file, or the content of the znodes."""
    partitions = [
        {"topic": topic, "partition": number, "replicas": list(replicas)}
        for (topic, number), replicas in given.items()
    ]
    return json.dumps({"version": 1, "partitions": partitions})
