"""A cluster whose brokers run at default settings, with refold as its controller."""

import asyncio
import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer

from tests.controller.daemon.scene import Scene, timed
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
    # Not the defaults: a follower is out of sync soon, and long before its session ends.
    "replica.lag.time.max.ms": "2000",
    # Longer than a test waits: a broker that is paused keeps its session on a busy machine, too.
    "zookeeper.session.timeout.ms": "30000",
}

SHUTDOWN_SECONDS_MAX = 5.0
"""A broker that gets no answer asks again after 5 s."""

_SHUT_DOWN_IN_ORDER = "Controlled shutdown request returned successfully"


class DefaultScene(Scene):
    """A `Scene` whose daemons have the brokers' protocol version and a known address."""

    def __init__(
        self, lab: Lab, folder: Path, *, protocol: str = LATEST_PROTOCOL, chroot: str = ""
    ) -> None:
        super().__init__(lab, folder, chroot)
        self.protocol = protocol
        self.listeners = {name: free_port() for name in lab.brokers[0].listeners}

    @property
    def own_address(self) -> str:
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
        """The assignment of a topic by partition number; empty where there is no such topic."""
        znode = await self.view.topic(topic)
        return {int(key): value for key, value in znode["partitions"].items()} if znode else {}

    async def until_auto_created(self, topics: list[str]) -> None:
        """Have clients make topics by asking for them, all at once, and wait until each
        partition is in sync on three brokers."""
        async with AIOKafkaProducer(bootstrap_servers=self.lab.bootstrap) as producer:
            await asyncio.gather(*(producer.send_and_wait(one, b"first") for one in topics))
        for topic in topics:
            await self.until_in_sync(topic, 3)

    def asked_by_none(self) -> KafkaBroker:
        """A broker that no other one would ask to change an ISR: for 30 s they wait for one that is
        held up, were it controller only when they looked last."""
        asked = {_asked_by(broker) for broker in self.lab.brokers}
        return next(one for one in self.lab.brokers if one.broker_id not in asked)

    async def stop_in_order(self, broker: KafkaBroker) -> float:
        """Stop a broker by SIGTERM; the seconds that it took.

        Its controlled shutdown must have succeeded.
        """
        before = _orderly_ends(broker)
        began = time.monotonic()
        await broker.stop()
        seconds = time.monotonic() - began
        assert _orderly_ends(broker) == before + 1, f"see {broker.folder / 'server.log'}"
        return seconds

    async def events(self, kind: str) -> list[dict[str, Any]]:
        """The events of a kind in the latest log, which may still be written."""
        status, output = await run("log", "show", str(self.logs()[-1]), "--json", "--kind", kind)
        assert status == 0, output
        return [json.loads(line) for line in output.splitlines()]


def _orderly_ends(broker: KafkaBroker) -> int:
    return (broker.folder / "server.log").read_text().count(_SHUT_DOWN_IN_ORDER)


def _asked_by(broker: KafkaBroker) -> int | None:
    """Who was controller when the broker looked last; None before its first look."""
    log = (broker.folder / "server.log").read_text()
    looks = re.findall(r"alter.*: Recorded new .*\(id: (\d+)", log, re.IGNORECASE)
    return int(looks[-1]) if looks else None


async def until_more(traffic: Traffic, records: int = 50) -> None:
    """So many more records than now are acknowledged."""
    before = traffic.acknowledged

    async def more() -> bool:
        return traffic.acknowledged > before + records

    await timed(more, "writes go on")


async def tool(lab: Lab, main_class: str, *arguments: str, given: str = "") -> str:
    """What one of Kafka's own tools prints when it reads `given`; it must end well."""
    said = await run_main_class(lab.kafka, main_class, *arguments, given=given)
    assert said.status == 0, said.output + said.problems
    return said.output
