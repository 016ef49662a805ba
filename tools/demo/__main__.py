"""One incident on real servers, from taking over the controller's role to handing it back, and its
replay.

The demonstration starts a real ZooKeeper, three stock Kafka brokers and a producer with acks=all.
refold takes the controller's role from a stock broker. A broker is killed and restarted, refold is
killed and restarted, and finally refold hands the role back. Then every log is replayed.
"""

import asyncio
import json
import logging
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from tools.lab import Lab
from tools.lab.cluster_view import ClusterView, until
from tools.lab.refold import Refold, run
from tools.lab.traffic import Traffic

DAEMON_ID = 1000
TOPIC = "orders"
PARTITIONS = 6
BROKERS = 3
SHUTDOWN_SECONDS_MAX = 5.0
DECISIONS = {
    "write_atomically": "controller elections",
    "write_znodes": "guarded writes to ZooKeeper, in batches",
    "leader_and_isr": "LeaderAndIsr requests",
    "update_metadata": "UpdateMetadata requests",
    "stop_replica": "StopReplica requests",
    "open_channel": "channels to brokers opened",
    "close_channel": "channels to brokers closed",
}
_WAIT_SECONDS = 30.0

console = Console(soft_wrap=True)


class DemoFailed(Exception):
    """A check of the demonstration failed."""


class Demo:
    """The incident, step by step."""

    def __init__(self, lab: Lab, folder: Path, protocol: str | None) -> None:
        self._protocol = protocol
        self._lab = lab
        self._log_dir = folder / "refold-logs"
        self._began = time.monotonic()
        self._refold: Refold | None = None

    async def play(self) -> None:
        """Run everything with its checks. Raises DemoFailed, TimeoutError, LabError."""
        self._say("starting ZooKeeper and three stock brokers")
        zookeeper = await self._lab.start_zookeeper()
        await self._lab.start_brokers(
            BROKERS,
            inter_broker_protocol=self._protocol,
            config={
                "num.partitions": str(PARTITIONS),
                "default.replication.factor": str(BROKERS),
                "min.insync.replicas": "2",
                "replica.lag.time.max.ms": "4000",
            },
        )
        async with ClusterView(zookeeper.connect) as view:
            stock = await view.controller()
            self._say(f"stock broker {stock} is controller, epoch {await view.controller_epoch()}")
            try:
                await self._incident(view, zookeeper.connect)
            finally:
                if self._refold is not None:
                    self._refold.kill()
        await self._replay()

    async def _incident(self, view: ClusterView, connect: str) -> None:
        await self._take_over(view, connect)
        async with Traffic(self._lab.bootstrap, TOPIC) as traffic:
            await self._all_in_sync(view)
            self._say(f"topic {TOPIC} created by the first write: {await self._leaders(view)}")
            await self._kill_broker(view, traffic)
            await self._stop_broker(view)
            await self._kill_refold(view, connect, traffic)
            await self._hand_back(view)
            lost = await traffic.finish()
            self._say(
                f"{traffic.acknowledged} records acknowledged, {len(lost)} of them lost, "
                f"{traffic.refused} refused"
            )
            if lost or not traffic.acknowledged:
                raise DemoFailed(f"acknowledged records are lost: {sorted(lost)[:10]}")

    async def _take_over(self, view: ClusterView, connect: str) -> None:
        self._refold = Refold(
            connect,
            DAEMON_ID,
            self._log_dir,
            *("--config", str(self._properties()), "--take-over"),
        )
        await self._refold.start()
        await until(lambda: self._is_controller(view, DAEMON_ID), _WAIT_SECONDS, "the take-over")
        self._say(f"refold took the role, epoch {await view.controller_epoch()}")

    def _properties(self) -> Path:
        """A stock server.properties, which refold reads unchanged."""
        return self._lab.brokers[0].folder / "server.properties"

    async def _is_controller(self, view: ClusterView, broker: int) -> bool:
        if self._refold is not None and broker == DAEMON_ID and not self._refold.running:
            raise DemoFailed(f"refold exited: {self._refold.last_output()}")
        return await view.controller() == broker

    async def _all_in_sync(self, view: ClusterView) -> None:
        async def full() -> bool:
            states = (await view.states(TOPIC)).values()
            return len(states) == PARTITIONS and all(len(s["isr"]) == BROKERS for s in states)

        await until(full, 2 * _WAIT_SECONDS, "every replica in sync")

    async def _leaders(self, view: ClusterView) -> str:
        leaders = Counter(state["leader"] for state in (await view.states(TOPIC)).values())
        return ", ".join(f"broker {one} leads {count}" for one, count in sorted(leaders.items()))

    async def _kill_broker(self, view: ClusterView, traffic: Traffic) -> None:
        await until(lambda: _more(traffic, 0), _WAIT_SECONDS, "the first writes")
        broker = self._lab.brokers[1]
        broker.kill()
        self._say(f"{broker.name} killed with -9")

        async def replaced() -> bool:
            states = (await view.states(TOPIC)).values()
            return all(
                s["leader"] not in (-1, broker.broker_id) and broker.broker_id not in s["isr"]
                for s in states
            )

        await until(replaced, _WAIT_SECONDS, "new leaders")
        self._say(f"new leaders: {await self._leaders(view)}")
        before = traffic.acknowledged
        await until(lambda: _more(traffic, before), _WAIT_SECONDS, "writes after the failure")
        await broker.start()
        await self._all_in_sync(view)
        self._say(f"{broker.name} is back and in sync")

    async def _stop_broker(self, view: ClusterView) -> None:
        broker = self._lab.brokers[2]
        began = time.monotonic()
        await broker.stop()
        took = time.monotonic() - began
        self._say(f"{broker.name} stopped by SIGTERM in {took:.1f} s: {await self._leaders(view)}")
        if took > SHUTDOWN_SECONDS_MAX:
            raise DemoFailed("the controller did not answer the controlled shutdown")
        await broker.start()
        await self._all_in_sync(view)
        self._say(f"{broker.name} is back and in sync")

    async def _kill_refold(self, view: ClusterView, connect: str, traffic: Traffic) -> None:
        assert self._refold is not None
        self._refold.kill()
        await self._refold.ended()
        self._say("refold killed with -9")

        async def stock() -> bool:
            return await view.controller() in range(1, BROKERS + 1)

        await until(stock, _WAIT_SECONDS, "a stock controller")
        self._say(f"stock broker {await view.controller()} took the role")
        before = traffic.acknowledged
        await until(lambda: _more(traffic, before), _WAIT_SECONDS, "writes under the stock one")
        await self._take_over(view, connect)
        await self._all_in_sync(view)

    async def _hand_back(self, view: ClusterView) -> None:
        assert self._refold is not None
        status = await self._refold.stop()
        if status != 0:
            raise DemoFailed(f"refold exited with status {status}: {self._refold.last_output()}")

        async def stock() -> bool:
            return await view.controller() in range(1, BROKERS + 1)

        await until(stock, _WAIT_SECONDS, "the hand-back")
        await self._all_in_sync(view)
        self._say(f"refold handed the role back to stock broker {await view.controller()}")

    async def _replay(self) -> None:
        table = Table(Column("log", overflow="fold"), "events", "commands", "agreed", "unrecorded")
        kinds: Counter[str] = Counter()
        for log in sorted(one for one in self._log_dir.iterdir() if one.is_dir()):
            status, output = await run("replay", str(log), "--json")
            if status != 0:
                raise DemoFailed(f"{log} does not replay (exit {status}): {output[:2000]}")
            result = json.loads(output)
            columns = ("events", "commands", "agreed", "unrecorded")
            table.add_row(log.name, *(str(result[one]) for one in columns))
            _, stats = await run("log", "stats", str(log), "--json")
            kinds.update({one["kind"]: one["count"] for one in json.loads(stats)["commands"]})
        console.print("Each log was folded again in a new process; every command agrees:")
        console.print(table)
        decided = Table("decision", "times")
        for kind, count in kinds.most_common():
            if kind in DECISIONS:
                decided.add_row(DECISIONS[kind], str(count))
        console.print(decided)
        console.print(f"The logs are in {self._log_dir}: try `refold log show` on one.")

    def _say(self, text: str) -> None:
        console.print(f"[dim]{time.monotonic() - self._began:6.1f} s[/dim]  {text}")


async def _more(traffic: Traffic, before: int) -> bool:
    return traffic.acknowledged > before + 20


app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def main(
    folder: Annotated[
        Path | None, typer.Option(help="For servers and logs; default: a temporary folder.")
    ] = None,
    inter_broker_protocol: Annotated[
        str | None, typer.Option(help="inter.broker.protocol.version; default: Kafka's default.")
    ] = None,
) -> None:
    """Show refold on real servers. Exit status: 0 all checks passed, 1 one failed."""
    # Clients log errors while brokers are down; these are part of the incident.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    # On SIGTERM, exit normally, so that the servers of the lab are stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = folder or Path(tempfile.mkdtemp(prefix="refold-demo-"))

    async def play() -> None:
        async with Lab(
            folder / "cluster", report=lambda line: console.print(f"[dim]{line}[/dim]")
        ) as lab:
            await Demo(lab, folder, inter_broker_protocol).play()

    try:
        asyncio.run(play())
    except (DemoFailed, TimeoutError) as error:
        console.print(f"[red]failed:[/red] {error}\nServers' logs: {folder}")
        raise SystemExit(1) from None
    console.print("[green]All checks passed.[/green]")


if __name__ == "__main__":
    app()
