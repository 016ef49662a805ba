"""The lab's command line."""

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import anyio
import typer
from rich.console import Console
from rich.table import Table

from tools.lab import control, zookeeper
from tools.lab.lab import LATEST_KAFKA, Lab
from tools.lab.server import LabError
from tools.setup.jars import JAR_SETS, JarError, Report, fetch, pin
from tools.setup.java import JavaError

app = typer.Typer(
    help="A real ZooKeeper and real Kafka brokers on this machine, on free loopback ports.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_out = Console()
_err = Console(stderr=True, highlight=False)

Folder = Annotated[Path, typer.Option("--dir", help="The lab's folder, for data and logs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
ServerName = Annotated[str, typer.Argument(help="The name of a server, as in `status`.")]
DEFAULT_FOLDER = Path(".lab")
KAFKA = "kafka"
DESIGNS = (KAFKA, "0.8")


def _versions(of: str) -> list[str]:
    return [name.removeprefix(of) for name in JAR_SETS if name.startswith(of)]


_KAFKAS = _versions("kafka-")
_ZOOKEEPERS = [zookeeper.LATEST, *_versions("zookeeper-")]


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    try:
        yield
    except (LabError, JarError, JavaError) as error:
        _err.print(f"lab: {error}", markup=False, soft_wrap=True)
        raise typer.Exit(1) from error


@contextmanager
def _progress() -> Iterator[Report]:
    """Show progress: one changing line on a terminal, separate lines elsewhere."""
    if not _err.is_terminal:
        yield lambda line: _err.print(line, markup=False, soft_wrap=True)
        return
    with _err.status("") as spinner:
        yield spinner.update


@app.command()
def up(
    brokers: Annotated[int, typer.Option(min=0, help="Number of brokers.")] = 3,
    kafka: Annotated[
        str, typer.Option(help=f"Kafka's version: {', '.join(_KAFKAS)}.")
    ] = LATEST_KAFKA,
    zookeeper_version: Annotated[
        str, typer.Option("--zookeeper", help=f"ZooKeeper's version: {', '.join(_ZOOKEEPERS)}.")
    ] = zookeeper.LATEST,
    inter_broker_protocol: Annotated[
        str | None, typer.Option(help="inter.broker.protocol.version; default: Kafka's default.")
    ] = None,
    chroot: Annotated[str, typer.Option(help="Kafka's chroot in ZooKeeper, such as /kafka.")] = "",
    setting: Annotated[
        list[str] | None,
        typer.Option("--config", help="A broker setting, KEY=VALUE; may be repeated."),
    ] = None,
    design: Annotated[
        str,
        typer.Option(
            help="0.8: refold's brokers of Kafka's design without a controller "
            "(docs/design-0.8.md), instead of Kafka's brokers; --config then has their options."
        ),
    ] = KAFKA,
    folder: Folder = DEFAULT_FOLDER,
    detach: Annotated[
        bool, typer.Option("--detach", help="Run in the background; stop with `down`.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start a cluster and run it until Ctrl-C or `down`."""
    with _errors_in_one_line():
        config = _settings(setting or [])
        if design not in DESIGNS:
            raise LabError(f"there is no design {design}; use one of {', '.join(DESIGNS)}")
        if design != KAFKA and (chroot or inter_broker_protocol):
            text = f"--design {design} has neither --chroot nor --inter-broker-protocol"
            raise LabError(text)
        _require_version("Kafka", kafka, _KAFKAS)
        _require_version("ZooKeeper", zookeeper_version, _ZOOKEEPERS)
        _require_no_lab_in(folder)
        if detach:
            _show(
                _start_detached_lab(folder, [word for word in sys.argv[1:] if word != "--detach"]),
                as_json,
            )
            return

        async def run() -> None:
            async with Lab(folder, kafka=kafka) as lab:
                with _progress() as report:
                    lab.report = report
                    await lab.start_zookeeper(zookeeper_version)
                    if design == KAFKA:
                        await lab.start_brokers(
                            brokers,
                            chroot=chroot,
                            inter_broker_protocol=inter_broker_protocol,
                            config=config,
                        )
                    else:
                        await lab.start_brokers_0_8(brokers, config=config)
                await _stay(lab, chroot, lambda: _show(control.status(lab, chroot), as_json))

        anyio.run(run)


async def _stay(lab: Lab, chroot: str, started: Callable[[], None]) -> None:
    """Serve the control socket until Ctrl-C, SIGTERM or `down`."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: control.serve(lab, chroot, down=tasks.cancel_scope.cancel))
            started()
            async for _ in signals:
                tasks.cancel_scope.cancel()


def _settings(pairs: list[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise LabError(f"--config {pair}: use KEY=VALUE")
    return dict(pair.split("=", 1) for pair in pairs)


def _require_version(what: str, version: str, known: list[str]) -> None:
    if version not in known:
        raise LabError(f"the lab has no {what} {version}; use one of {', '.join(known)}")


def _require_no_lab_in(folder: Path) -> None:
    try:
        control.ask(folder, "status")
    except LabError:
        return
    raise LabError(f"a lab is running in {folder} already; stop it with `down`")


def _start_detached_lab(folder: Path, arguments: list[str]) -> control.Answer:
    """Start a lab in a separate process, and wait until it runs."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "up.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tools.lab", *arguments],
            stdin=subprocess.DEVNULL,
            # The table of servers: this process prints it.
            stdout=subprocess.DEVNULL,
            stderr=output,
            start_new_session=True,
        )
    with _progress() as report:
        reported = 0
        while process.poll() is None:
            lines = log.read_text().splitlines()
            for line in lines[reported:]:
                report(line)
            reported = len(lines)
            try:
                return control.ask(folder, "status")
            except LabError:
                time.sleep(0.2)
    raise LabError(f"the lab did not start: {' | '.join(log.read_text().splitlines()[-3:])}")


def _show(status: control.Answer, as_json: bool) -> None:
    if as_json:
        _out.print_json(json.dumps(status))
        return
    table = Table("server", "listens at", "state", "pid", "folder", box=None)
    for server in status["servers"]:
        table.add_row(
            *(str(server[key] or "-") for key in ("name", "connect", "state", "pid", "folder"))
        )
    _out.print(table)
    _out.print(f"zookeeper.connect  {status['zookeeper']}", soft_wrap=True)
    _out.print(f"bootstrap.servers  {status['bootstrap']}", soft_wrap=True)


@app.command()
def status(folder: Folder = DEFAULT_FOLDER, as_json: AsJson = False) -> None:
    """Show the addresses and states of the servers."""
    with _errors_in_one_line():
        _show(control.ask(folder, "status"), as_json)


@app.command()
def down(folder: Folder = DEFAULT_FOLDER) -> None:
    """Stop the lab; its data and logs are kept."""
    with _errors_in_one_line():
        control.ask(folder, "down")


@app.command()
def kill(server: ServerName, folder: Folder = DEFAULT_FOLDER) -> None:
    """Kill a server with SIGKILL."""
    _act("kill", server, folder)


@app.command()
def stop(server: ServerName, folder: Folder = DEFAULT_FOLDER) -> None:
    """Stop a server with SIGTERM; a broker does a controlled shutdown."""
    _act("stop", server, folder)


@app.command()
def pause(server: ServerName, folder: Folder = DEFAULT_FOLDER) -> None:
    """Pause a server with SIGSTOP: its connections stay open, without responses."""
    _act("pause", server, folder)


@app.command()
def resume(server: ServerName, folder: Folder = DEFAULT_FOLDER) -> None:
    """Resume a paused server."""
    _act("resume", server, folder)


@app.command()
def restart(server: ServerName, folder: Folder = DEFAULT_FOLDER) -> None:
    """Stop a server if it is running, and start it on the same port and data."""
    _act("restart", server, folder)


def _act(do: str, server: str, folder: Path) -> None:
    with _errors_in_one_line():
        _show(control.ask(folder, do, server), as_json=False)


@app.command(name="fetch")
def fetch_jars(
    version: Annotated[
        str, typer.Argument(help="A Kafka version, or zookeeper-3.5.9.")
    ] = LATEST_KAFKA,
) -> None:
    """Download and check the jars of a version, unless they are in the cache."""
    with _errors_in_one_line(), _progress() as report:
        fetch(version if version in JAR_SETS else f"kafka-{version}", report)


@app.command()
def archive_classes() -> None:
    """Archive the classes of ZooKeeper and Kafka, so that servers start in half the time.

    Starts one of each. The archives are in the cache, for this Java and this virtual environment.
    """

    async def start_once() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with Lab(Path(folder), report=report) as lab:
                await lab.archive_classes()

    with _errors_in_one_line(), _progress() as report:
        anyio.run(start_once)


@app.command(name="pin")
def pin_jars(
    jar_set: Annotated[
        str, typer.Argument(help="A jar set of tools/setup/jars.py, such as kafka-3.9.1.")
    ],
) -> None:
    """Download a jar set and record its SHA-256 sums, to add a version to the lab."""
    with _errors_in_one_line(), _progress() as report:
        pin(jar_set, report)
