"""A cluster of real servers and refold, for the tests of the whole daemon."""

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Self

from aiokafka.errors import KafkaError

from tools.lab import Lab
from tools.lab.broker import KafkaBroker
from tools.lab.broker_view import leaders
from tools.lab.cluster_view import ClusterReader, until
from tools.lab.refold import Refold, run

OWN_ID = 1000
SESSION_MS = 4000
WAIT_SECONDS = 120.0

BROKER_CONFIG = {
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "3000",
    "min.insync.replicas": "2",
}


class LabCluster:
    """Observes one cluster and starts daemons in it, each with a separate folder.

    An async context manager. At its end no daemon runs.
    """

    def __init__(self, lab: Lab, folder: Path, chroot: str = "") -> None:
        self.lab = lab
        self.connect = lab.zookeepers[0].connect + chroot
        self.view = ClusterReader(self.connect)
        self.daemons: list[Refold] = []
        self._folder = folder

    async def __aenter__(self) -> Self:
        await self.view.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        for daemon in self.daemons:
            await daemon.kill_if_running()
        await self.view.__aexit__()

    @asynccontextmanager
    async def without_session(self) -> AsyncIterator[None]:
        """Have no ZooKeeper session during the block, in which ZooKeeper does not run."""
        await self.view.__aexit__()
        yield
        self.view = await ClusterReader(self.connect).__aenter__()

    def daemon(
        self,
        *options: str,
        broker_id: int = OWN_ID,
        connect: str = "",
        log_dir: Path | None = None,
        settings: Mapping[str, str | int] | None = None,
        program: str | None = None,
        code: Path | None = None,
    ) -> Refold:
        """A `refold run` that has not been started."""
        folder = self._folder / f"daemon-{len(self.daemons) + 1}"
        folder.mkdir()
        config = folder / "refold.toml"
        given: dict[str, str | int] = {
            "zookeeper.session.timeout.ms": SESSION_MS,
            "inter.broker.protocol.version": "2.6",
            **(settings or {}),
        }
        config.write_text("".join(f'"{key}" = {json.dumps(one)}\n' for key, one in given.items()))
        made = Refold(
            connect or self.connect,
            broker_id,
            log_dir or folder / "logs",
            *("--config", str(config)),
            *options,
            program=program,
            code=code,
        )
        self.daemons.append(made)
        return made

    async def controlling(self, *options: str, **more: object) -> Refold:
        """A started daemon that has taken the role."""
        made = self.daemon("--take-over", *options, **more)  # type: ignore[arg-type]
        await made.start()
        await self.until_controller(int(str(more.get("broker_id", OWN_ID))), made)
        return made

    async def until_controller(self, broker: int, daemon: Refold | None = None) -> float:
        """Wait until /controller names this id. Returns the seconds."""

        async def named() -> bool:
            assert daemon is None or daemon.running, f"refold ended: {daemon.last_output()}"
            return await self.view.controller() == broker

        return await timed(named, f"{broker} is controller")

    async def until_stock_controller(self) -> float:
        """Wait until one of the brokers is controller. Returns the seconds."""

        async def named() -> bool:
            return await self.view.controller() in {one.broker_id for one in self.lab.brokers}

        return await timed(named, "a stock broker is controller")

    async def until_unregistered(self, broker: int) -> float:
        """Wait until a broker's registration is deleted. Returns the seconds."""

        async def deleted() -> bool:
            return not await self.view.exists(f"/brokers/ids/{broker}")

        return await timed(deleted, f"broker {broker} is no longer registered")

    async def until_reported(self, daemon: Refold, code: str) -> dict[str, Any]:
        """Wait until the daemon has logged a notice with this code. Returns the first one."""
        found: list[dict[str, Any]] = []

        async def reported() -> bool:
            found[:] = [one for one in daemon.messages() if one.get("code") == code]
            return bool(found)

        await timed(reported, f"refold reports {code}")
        return found[0]

    async def until_logged(self, daemon: Refold, message: str, log: str) -> None:
        """Wait until the daemon has logged this message about a log."""

        async def logged() -> bool:
            return any(
                one["message"] == message and one.get("log") == log for one in daemon.messages()
            )

        await timed(logged, f"refold says {message!r} of {log}")

    @contextmanager
    def brokers_paused(self) -> Iterator[None]:
        """No broker runs during the block, so that none takes a free role first.

        The block must end before their sessions do.
        """
        paused = [one for one in self.lab.brokers if one.state == "running"]
        for broker in paused:
            broker.pause()
        try:
            yield
        finally:
            for broker in paused:
                broker.resume()

    async def create_topic(self, topic: str, assignment: Mapping[int, Sequence[int]]) -> None:
        """Create a topic and wait until each partition is led by its first replica, also in the
        metadata of the brokers."""
        await self.view.create_topic(topic, assignment)
        wanted = {number: replicas[0] for number, replicas in assignment.items()}
        await self.until_led(topic, wanted)

    async def until_led(self, topic: str, wanted: Mapping[int, int]) -> float:
        """Wait until ZooKeeper and every running broker name these leaders."""

        async def led() -> bool:
            states = await self.view.states(topic)
            return {number: one["leader"] for number, one in states.items()} == wanted

        seconds = await timed(led, f"{topic} is led as {wanted}")
        for broker in self.lab.brokers:
            if broker.state == "running":
                await until(
                    lambda broker=broker: _believes(broker, topic, wanted),  # type: ignore[misc]
                    WAIT_SECONDS,
                    f"{broker.name} knows that {topic} is led as {wanted}",
                )
        return seconds

    async def until_in_sync(self, topic: str, replicas: int, *, without: int = -1) -> float:
        """Wait until every partition has `replicas` members in its ISR, and `without` is not one
        of them."""

        async def full() -> bool:
            states = (await self.view.states(topic)).values()
            return bool(states) and all(
                len(one["isr"]) == replicas and without not in one["isr"] for one in states
            )

        return await timed(full, f"{topic} has {replicas} replicas in sync")

    async def until_isr(self, topic: str, sizes: Mapping[int, int]) -> float:
        """Wait until each partition, by its number, has an ISR of this size."""

        async def full() -> bool:
            states = await self.view.states(topic)
            return {number: len(one["isr"]) for number, one in states.items()} == sizes

        return await timed(full, f"{topic} has ISRs of the sizes {sizes}")

    def logs(self) -> list[Path]:
        """The event logs of all daemons, in the order in which they started."""
        found = [one for daemon in self.daemons for one in daemon.log_dir.glob("run-*")]
        return sorted({log.resolve() for log in found})

    async def check_logs(self, seeds: Sequence[str] = ("0", "77")) -> None:
        """Every log agrees in a replay, with any hash seed."""
        for log in self.logs():
            for seed in seeds:
                status, output = await run("replay", str(log), "--json", PYTHONHASHSEED=seed)
                assert status == 0, f"{log} with PYTHONHASHSEED={seed}: exit {status}: {output}"


async def _believes(broker: KafkaBroker, topic: str, wanted: Mapping[int, int]) -> bool:
    try:
        return await leaders(broker, topic) == wanted
    except (KafkaError, OSError):
        return False


async def timed(reached: Callable[[], Awaitable[bool]], what: str) -> float:
    """`until` with this module's limit. Returns the seconds."""
    began = time.monotonic()
    await until(reached, WAIT_SECONDS, what)
    return time.monotonic() - began
