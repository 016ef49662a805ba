"""The common parts of the demonstrations: servers, refold in the controller's role, output, the
replay."""

import asyncio
import json
import logging
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any, NoReturn, Self, TypeVar

import typer
from rich.console import Console
from rich.table import Column, Table

from tools.lab import Lab, LabError
from tools.lab.cluster_view import ClusterReader, until
from tools.lab.refold import Refold, run

DAEMON_ID = 1000
BROKERS = 3
WAIT_SECONDS = 60.0
_DECISIONS = {
    "write_atomically": "controller elections",
    "write_znodes": "guarded writes to ZooKeeper, in batches",
    "leader_and_isr": "LeaderAndIsr requests",
    "update_metadata": "UpdateMetadata requests",
    "stop_replica": "StopReplica requests",
    "open_channel": "channels to brokers opened",
    "close_channel": "channels to brokers closed",
}

console = Console(soft_wrap=True)


ServersFolder = Annotated[
    Path | None,
    typer.Option(help="A new or empty folder for servers and logs; default: a temporary one."),
]


class DemoFailed(Exception):
    """A check of the demonstration failed."""


class Stage:
    """A running cluster and its refold; an async context manager, at whose end refold is dead."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.view: ClusterReader
        self.client_security: Mapping[str, Any] = {}
        """How clients connect to brokers, as arguments of aiokafka."""
        self.folder = folder
        self._log_dir = folder / "refold-logs"
        self._began = time.monotonic()
        self._refold: Refold
        self._exit = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exit.aclose()

    async def start(self, config: Mapping[str, str], protocol: str | None = None) -> None:
        """Start ZooKeeper and three stock brokers with this configuration. Raises LabError."""
        await self._start_servers(config, protocol)
        await self.connect()
        stock = await self.view.controller()
        self.say(f"stock broker {stock} is controller, epoch {await self.view.controller_epoch()}")

    async def _start_servers(self, config: Mapping[str, str], protocol: str | None) -> None:
        self.say("starting ZooKeeper and three stock brokers")
        await self.lab.start_zookeeper()
        await self.lab.start_brokers(BROKERS, inter_broker_protocol=protocol, config=config)

    async def connect(self) -> None:
        """Connect to ZooKeeper, if the servers of the lab run already."""
        view = ClusterReader(self.lab.zookeepers[0].connect)
        self.view = await self._exit.enter_async_context(view)

    async def take_over(self) -> None:
        """Start refold and wait until it is controller."""
        self._refold = self.new_daemon(self._log_dir)
        await self._refold.start()
        self._exit.push_async_callback(self._refold.kill_if_running)
        await self.until(self._is_controller, "the take-over")
        self.say(f"refold took the role, epoch {await self.view.controller_epoch()}")

    def new_daemon(self, log_dir: Path) -> Refold:
        """The daemon that takes the role over, which is not started yet."""
        return Refold(
            self.lab.zookeepers[0].connect,
            DAEMON_ID,
            log_dir,
            # A stock server.properties, which refold reads unchanged.
            *("--config", str(self.lab.brokers[0].folder / "server.properties"), "--take-over"),
        )

    async def _is_controller(self) -> bool:
        if not self._refold.running:
            raise DemoFailed(f"refold exited: {self._refold.last_output()}")
        return await self.view.controller() == DAEMON_ID

    async def kill_refold(self) -> None:
        """Kill refold and wait until a stock broker is controller."""
        self._refold.kill()
        await self._refold.ended()
        self.say("refold killed with -9")
        await self.until(self._is_stock, "a stock controller")
        self.say(f"stock broker {await self.view.controller()} took the role")

    async def hand_back(self) -> None:
        """Stop refold and wait until a stock broker is controller."""
        status = await self._refold.stop()
        if status != 0:
            raise DemoFailed(f"refold exited with status {status}: {self._refold.last_output()}")
        await self.until(self._is_stock, "the hand-back")
        self.say(f"refold handed the role back to stock broker {await self.view.controller()}")

    async def _is_stock(self) -> bool:
        return await self.view.controller() in range(1, BROKERS + 1)

    async def until_in_sync(self, *topics: str, partitions: int = 1) -> None:
        """Wait until every replica of these topics is in sync."""

        async def full() -> bool:
            for topic in topics:
                states = (await self.view.states(topic)).values()
                if len(states) < partitions or any(len(one["isr"]) < BROKERS for one in states):
                    return False
            return True

        await self.until(full, "every replica in sync")

    async def until(
        self, reached: Callable[[], Awaitable[bool]], what: str, seconds: float = WAIT_SECONDS
    ) -> None:
        """Wait until `reached` is true. Raises TimeoutError with `what`."""
        await until(reached, seconds, what)

    async def replay(self) -> None:
        """Fold every log again in a new process and print the result. Raises DemoFailed if a
        decision differs."""
        logs = sorted(one for one in self._log_dir.iterdir() if one.is_dir())
        await replay_logs({one.name: one for one in logs}, _DECISIONS)
        console.print(f"The logs are in {self._log_dir}: try `refold log show` on one.")

    def say(self, text: str) -> None:
        """Print a line with the time since the start."""
        console.print(f"[dim]{time.monotonic() - self._began:6.1f} s[/dim]  {text}")


_Stage = TypeVar("_Stage", bound=Stage)


async def replay_logs(logs: Mapping[str, Path], decisions: Mapping[str, str]) -> None:
    """Fold every log again in a new process and print the result, and how many decisions there are
    of these kinds. Raises DemoFailed if a decision differs."""
    table = Table(Column("log", overflow="fold"), "events", "commands", "agreed", "unrecorded")
    kinds: Counter[str] = Counter()
    for name, log in logs.items():
        status, output = await run("replay", str(log), "--json")
        if status != 0:
            raise DemoFailed(f"{log} does not replay (exit {status}): {output[:2000]}")
        result = json.loads(output)
        columns = ("events", "commands", "agreed", "unrecorded")
        table.add_row(name, *(str(result[one]) for one in columns))
        _, stats = await run("log", "stats", str(log), "--json", with_notes=False)
        kinds.update({one["kind"]: one["count"] for one in json.loads(stats)["commands"]})
    console.print("Each log was folded again in a new process; every command agrees:")
    console.print(table)
    decided = Table("decision", "times")
    for kind, count in kinds.most_common():
        if kind in decisions:
            decided.add_row(decisions[kind], str(count))
    console.print(decided)


def perform(
    play: Callable[[_Stage], Awaitable[None]],
    folder: Path | None,
    name: str,
    stage_of: Callable[[Lab, Path], _Stage] = Stage,  # type: ignore[assignment]
) -> None:
    """Run a demonstration on a separate lab, in `folder` or a temporary one.

    Exits with status 1 and one line if a check or a server fails. Servers end with this process.
    """
    # Clients log errors while brokers are down, or when they are refused; these are expected.
    for client in ("aiokafka", "aiozk"):
        logging.getLogger(client).setLevel(logging.CRITICAL)
    folder = _prepared(folder) if folder else Path(tempfile.mkdtemp(prefix=f"refold-{name}-"))

    async def on_stage() -> None:
        # The end of a cancelled task stops the servers of the lab, as after SIGINT.
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)

        def report(line: str) -> None:
            console.print(f"[dim]{line}[/dim]")

        async with Lab(folder / "cluster", report=report) as lab, stage_of(lab, folder) as stage:
            await play(stage)

    try:
        asyncio.run(on_stage())
    except (DemoFailed, LabError, TimeoutError) as error:
        _fail(error, folder)
    except asyncio.CancelledError:
        raise SystemExit(1) from None
    console.print("[green]All checks passed.[/green]")


def _prepared(folder: Path) -> Path:
    """Create the folder of a demonstration. Exits with status 1 and one line if that is not
    possible, or if the folder has files: servers would find the data of an earlier run."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_empty = not any(folder.iterdir())
    except OSError as error:
        problem = f"cannot be used: {error.strerror}"
    else:
        if is_empty:
            return folder
        problem = "is not empty"
    console.print(f"[red]failed:[/red] --folder {folder} {problem}; give a new folder")
    raise SystemExit(1)


def _fail(error: Exception, folder: Path) -> NoReturn:
    console.print(f"[red]failed:[/red] {error}\nServers' logs: {folder}")
    raise SystemExit(1) from None
