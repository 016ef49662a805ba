"""A random incident of a stock cluster, with a shadow next to it."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, NamedTuple

from replay.stock_clusters.zookeeper_log.source import open_source
from replay.stock_clusters.zookeeper_log.transactions import (
    CloseSession,
    CreateSession,
    Transaction,
)
from tools.lab import guard
from tools.lab.refold import command
from tools.recordings.mixes import MIXES
from tools.recordings.recorded_cluster import RecordedCluster
from tools.recordings.recording import bring_back
from tools.recordings.setup import SetupOptions, draw_setup

MIX: Final = "shadow"
Follows = Literal["txnlog", "txnlog and logs", "watches"]
_STOP_SECONDS: Final = 300.0
"""How long a shadow of a short incident may take for its summary."""
_STARTED_SECONDS: Final = 60.0
_QUIET_SECONDS: Final = 3.0
_FOLLOWS: Final = ("follows ", "watches ")
"""The first words of the message of a shadow that follows the cluster."""


class ShadowTimeout(Exception):
    """A shadow did not begin to follow the cluster, or did not end, in time."""


class ShadowOutcome(NamedTuple):
    """The exit status and the summary of the shadow, its messages, and what it did in ZooKeeper."""

    status: int
    summary: dict[str, Any]
    messages: list[dict[str, Any]]
    transactions: list[Transaction]
    """The transactions of the shadow's sessions."""
    log: Path

    @property
    def false_differences(self) -> int:
        """How many decisions and requests differ by the summary, without explained ones."""
        sides = (self.summary, self.summary["requests"])
        diverging: int = sum(
            side[name] for side in sides for name in ("differs", "missing", "extra")
        )
        return diverging - sum(len(one["zxids"]) for side in sides for one in side["explained"])

    @property
    def is_silent(self) -> bool:
        """Whether the shadow did nothing in ZooKeeper but begin and end sessions."""
        return all(
            isinstance(one.content, (CreateSession, CloseSession)) for one in self.transactions
        )


async def shadow_incident(
    folder: Path, seed: int, seconds: float, follows: Sequence[Follows], protocol: str = "3.9"
) -> list[ShadowOutcome]:
    """Run the incident in the existing folder `folder`, with a shadow for each of `follows`. Raises
    ShadowTimeout."""
    rng = Random(f"{MIX} {seed}")
    mix = MIXES[MIX]
    options = SetupOptions(
        seed=seed,
        mix=MIX,
        seconds=seconds,
        kafka="3.9.1",
        protocol=protocol,
        brokers=3,
        logging="production",
    )
    cluster = RecordedCluster(
        folder / "servers", draw_setup(options, rng, mix.setup), options.logging, rng
    )
    async with cluster:
        versioned = cluster.zookeeper.folder / "data" / "version-2"
        shadows = [
            ShadowProcess(folder / one.replace(" ", "-"), _options(cluster, one, versioned))
            for one in follows
        ]
        stop_seconds = _STOP_SECONDS + seconds
        for one in shadows:
            await one.start()
        await mix.run(cluster, rng, seconds)
        await bring_back(cluster)
        await asyncio.sleep(_QUIET_SECONDS)
        return [await outcome_of(one, versioned, stop_seconds) for one in shadows]


async def outcome_of(
    shadow: "ShadowProcess", versioned: Path, stop_seconds: float = _STOP_SECONDS
) -> ShadowOutcome:
    """Stop a shadow. `versioned` has the transaction logs of its ZooKeeper. Raises
    ShadowTimeout."""
    status = await shadow.stop(stop_seconds)
    summary, messages = shadow.summary(), shadow.messages()
    sessions = {int(one["session"], 16) for one in messages if "session" in one}
    transactions = [one for one in _transactions(versioned) if one.session in sessions]
    return ShadowOutcome(status, summary, messages, transactions, Path(summary["logs"][-1]))


def _options(cluster: RecordedCluster, follows: Follows, versioned: Path) -> list[str]:
    options: list[str] = []
    if follows == "watches":
        return [*options, "--zookeeper", cluster.zookeeper.connect + cluster.setup.chroot]
    options += ["--follow-txnlog", str(versioned)]
    for broker in cluster.brokers if follows == "txnlog and logs" else ():
        for name in ("controller.log", "state-change.log"):
            options += ["--follow-controller-log", str(broker.folder / name)]
    return options


def _transactions(versioned: Path) -> Iterator[Transaction]:
    with open_source(versioned) as source:
        yield from source.transactions()


class ShadowProcess:
    """`refold run --mode shadow` with these options; its files are in the new folder `folder`."""

    def __init__(self, folder: Path, options: Sequence[str]) -> None:
        folder.mkdir()
        config = folder / "shadow.properties"
        # As the brokers of the mix have it.
        config.write_text("auto.leader.rebalance.enable=false\n")
        self._command = [
            *command("run", "--mode", "shadow", "--json", "--log-format", "json"),
            *("--config", str(config), "--log-dir", str(folder / "logs")),
            *options,
        ]
        self._folder = folder
        self._output, self._messages = folder / "shadow.json", folder / "shadow.err"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the process, and wait until it follows the cluster. Raises ShadowTimeout."""
        with self._output.open("wb") as output, self._messages.open("wb") as messages:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdout=output, stderr=messages, preexec_fn=guard.die_with_parent
            )
        async with self._time_limit(_STARTED_SECONDS, "begin to follow the cluster"):
            while not any(one["message"].startswith(_FOLLOWS) for one in self.messages()):
                assert self._process.returncode is None, self._messages.read_text()
                await asyncio.sleep(0.1)

    async def stop(self, seconds: float = _STOP_SECONDS) -> int:
        """Send SIGTERM, and return the exit status. Raises ShadowTimeout."""
        assert self._process is not None, "the shadow was started"
        assert self._process.returncode is None, self._messages.read_text()
        self._process.send_signal(signal.SIGTERM)
        async with self._time_limit(seconds, "end after SIGTERM"):
            return await self._process.wait()

    @asynccontextmanager
    async def _time_limit(self, seconds: float, what: str) -> AsyncIterator[None]:
        """Kill the process and raise ShadowTimeout if something takes longer."""
        assert self._process is not None, "the shadow was started"
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
            logs = self._folder / "logs"
            raise ShadowTimeout(
                f"the shadow in {self._folder} did not {what} within {seconds:.0f} s and was "
                f"killed: its log is in {logs}, its messages are in {self._messages}"
            ) from None

    def summary(self) -> dict[str, Any]:
        """The summary, after the end."""
        found: dict[str, Any] = json.loads(self._output.read_text())
        return found

    def messages(self) -> list[dict[str, Any]]:
        """The messages so far."""
        lines = self._messages.read_text().splitlines()
        return [json.loads(one) for one in lines if one.startswith("{")]
