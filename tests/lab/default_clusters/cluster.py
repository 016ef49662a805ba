"""A cluster whose brokers run at default settings, with refold as its controller."""

import asyncio
import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer

from tests.controller.daemon.lab_cluster import LabCluster, timed
from tools.lab import KafkaBroker, Lab
from tools.lab.kafka_tools import run_main_class
from tools.lab.ports import HOST, free_port
from tools.lab.refold import Refold, run
from tools.lab.traffic import Traffic

PROTOCOL = "inter.broker.protocol.version"
LATEST_PROTOCOL = "3.9"

BROKER_CONFIG = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    # Not the defaults: a follower soon leaves the ISR, long before its session ends.
    "replica.lag.time.max.ms": "2000",
    # Longer than a test waits: a paused broker keeps its session even on a busy machine.
    "zookeeper.session.timeout.ms": "30000",
}

SHUTDOWN_SECONDS_MAX = 5.0
"""A broker that gets no response repeats its request after 5 s."""

_SHUT_DOWN_IN_ORDER = "Controlled shutdown request returned successfully"


class DefaultLabCluster(LabCluster):
    """A `LabCluster` whose daemons have the brokers' protocol version and a known address."""

    def __init__(
        self, lab: Lab, folder: Path, *, protocol: str = LATEST_PROTOCOL, chroot: str = ""
    ) -> None:
        super().__init__(lab, folder, chroot)
        self.protocol = protocol
        self.listeners = {name: free_port() for name in lab.brokers[0].listeners}

    @property
    def daemon_address(self) -> str:
        """host:port of the daemon's first listener."""
        return f"{HOST}:{next(iter(self.listeners.values()))}"

    def daemon(
        self, *options: str, settings: Mapping[str, str | int] | None = None, **more: Any
    ) -> Refold:
        addresses = ",".join(f"{name}://{HOST}:{port}" for name, port in self.listeners.items())
        return super().daemon(
            *("--listeners", addresses, *options),
            settings={PROTOCOL: self.protocol, **(settings or {})},
            **more,
        )

    async def replicas_of(self, topic: str) -> dict[int, list[int]]:
        """The assignment of a topic by partition number; empty if the topic does not exist."""
        znode = await self.view.topic(topic)
        return {int(key): value for key, value in znode["partitions"].items()} if znode else {}

    async def until_auto_created(self, topics: list[str]) -> None:
        """Makes clients create topics by asking for their metadata, all at once. Waits until each
        partition is in sync on three brokers."""
        async with AIOKafkaProducer(bootstrap_servers=self.lab.bootstrap) as producer:
            await asyncio.gather(*(producer.send_and_wait(one, b"first") for one in topics))
        for topic in topics:
            await self.until_in_sync(topic, 3)

    def broker_not_taken_for_controller(self) -> KafkaBroker:
        """A broker that no other broker takes for the controller. A broker waits up to 30 s for a
        response of a paused broker that was controller when it last looked."""
        taken = {_known_controller(broker) for broker in self.lab.brokers}
        return next(one for one in self.lab.brokers if one.broker_id not in taken)

    async def stop_in_order(self, broker: KafkaBroker) -> float:
        """Stops a broker by SIGTERM; returns the seconds that it took.

        Its controlled shutdown must have succeeded.
        """
        before = _controlled_shutdowns(broker)
        began = time.monotonic()
        await broker.stop()
        seconds = time.monotonic() - began
        assert _controlled_shutdowns(broker) == before + 1, f"see {broker.folder / 'server.log'}"
        return seconds

    async def events(self, kind: str) -> list[dict[str, Any]]:
        """The events of a kind in the latest log, which may still be growing."""
        status, output = await run("log", "show", str(self.logs()[-1]), "--json", "--kind", kind)
        assert status == 0, output
        return [json.loads(line) for line in output.splitlines()]


def _controlled_shutdowns(broker: KafkaBroker) -> int:
    return (broker.folder / "server.log").read_text().count(_SHUT_DOWN_IN_ORDER)


def _known_controller(broker: KafkaBroker) -> int | None:
    """The controller when the broker last looked for it; None before that."""
    log = (broker.folder / "server.log").read_text()
    looks = re.findall(r"alter.*: Recorded new .*\(id: (\d+)", log, re.IGNORECASE)
    return int(looks[-1]) if looks else None


async def until_more(traffic: Traffic, records: int = 50) -> None:
    """Waits until this many more records are acknowledged."""
    before = traffic.acknowledged

    async def more() -> bool:
        return traffic.acknowledged > before + records

    await timed(more, "writes continue")


async def tool(lab: Lab, main_class: str, *arguments: str, given: str = "") -> str:
    """The output of one of Kafka's tools with `given` as its input; the tool must succeed."""
    done = await run_main_class(lab.kafka, main_class, *arguments, given=given)
    assert done.status == 0, done.output + done.problems
    return done.output
