"""Measures how long `refold inspect` takes at random events of a long log.

    python -m tools.bench.inspect

Bias: the log is generated, for a cluster of five brokers and 1,000 partitions. Leaders shrink and
expand ISRs in turn, and now and then a broker fails and returns, or a partition is reassigned, so
most events are small.
Snapshots are made once before. Each event is opened in a new process, as by a user.
"""

import random
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import msgspec
import typer

from controller.core import znodes
from controller.core.api_requests.alter_partition import AlterPartitionReceived, ProposedState
from controller.core.configuration import Configuration
from controller.core.znodes import REASSIGN_PARTITIONS
from controller.event_log.records import command_record, event_record
from controller.fingerprint import code_version, core_fingerprint
from eventstore.records import Header
from eventstore.writer import LogWriter
from replay.inspect.at import make_snapshots
from replay.world.simulation import Simulation
from tools.bench.cpu_time import cpu_seconds

_BROKERS = 5
PARTITIONS = 1_000
_ACTS_BETWEEN_DEATHS = 5_000
_ACTS_BETWEEN_MOVES = 20_000
MOVED = 7
"""The partition of topic t that is reassigned."""
_MEASURED = ("elapsed time", "CPU time")
_CONFIGURATION = Configuration(broker_id=1000, inter_broker_protocol_version="2.8", take_over=True)

Events = Annotated[int, typer.Option(help="Events of the log.")]
KeptLog = Annotated[Path | None, typer.Option(help="Keep the log here, or use an existing one.")]


def main(
    events: Events = 1_000_000,
    moments: Annotated[int, typer.Option(help="How many events to inspect.")] = 10,
    log: KeptLog = None,
) -> None:
    """Generate a log and its snapshots, and inspect some of its events."""
    with TemporaryDirectory(prefix="refold-bench-") as folder:
        path = log or Path(folder) / "log"
        if not path.exists():
            begun = time.perf_counter()
            make_log(path, events)
            typer.echo(f"log of {events} events generated in {time.perf_counter() - begun:.1f} s")
        begun = time.perf_counter()
        made = make_snapshots(path)
        size = sum(one.stat().st_size for one in path.glob("*.snapshot"))
        typer.echo(f"{made} snapshots in {time.perf_counter() - begun:.1f} s, {size:,} bytes")
        rng = random.Random(1)
        took = [_open(path, rng.randint(1, events)) for _ in range(moments)]
        for what, seconds in zip(_MEASURED, zip(*took, strict=True), strict=True):
            typer.echo(
                f"refold inspect --json, {what}: median {sorted(seconds)[moments // 2]:.2f} s, "
                f"slowest {max(seconds):.2f} s of {moments}"
            )


def _open(path: Path, seq: int) -> tuple[float, float]:
    """Elapsed time and CPU time."""
    command = [sys.executable, "-m", "replay.cli.main", "inspect", str(path)]
    begun, used = time.perf_counter(), cpu_seconds()
    subprocess.run([*command, "--at", str(seq), "--json"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun, cpu_seconds() - used


def make_log(path: Path, events: int, acts_between_deaths: int = _ACTS_BETWEEN_DEATHS) -> None:
    """Generate a log of at least `events` events, as the daemon writes it. Most actions are those
    of a leader that shrinks or expands an ISR; now and then a broker fails and returns, or a
    partition is reassigned."""
    simulation = Simulation(_CONFIGURATION)
    for broker in range(1, _BROKERS + 1):
        simulation.start_broker(broker)
    simulation.connect()
    assignment = {
        str(number): [(number + place) % _BROKERS + 1 for place in range(3)]
        for number in range(PARTITIONS)
    }
    topic = msgspec.json.encode({"version": 1, "partitions": assignment})
    simulation.put(znodes.topic_path("t"), topic)
    header = Header(
        kind="recorded",
        core_fingerprint=core_fingerprint(),
        code_version=code_version(),
        configuration=msgspec.to_builtins(_CONFIGURATION),
        cluster_id="bench",
        created_ns=0,
    )
    with LogWriter.create(path, header) as writer:
        stored, act = 0, 0
        while stored < events:
            if act % acts_between_deaths == acts_between_deaths - 1:
                _die(simulation, act // acts_between_deaths % _BROKERS + 1)
            elif act % _ACTS_BETWEEN_MOVES == _ACTS_BETWEEN_MOVES // 3:
                _move(simulation, act // _ACTS_BETWEEN_MOVES)
            else:
                _act(simulation, act)
            act += 1
            if act % 100 == 0:
                stored = _store(writer, simulation, stored)


def _die(simulation: Simulation, broker: int) -> None:
    simulation.stop_broker(broker)
    simulation.start_broker(broker)


def _move(simulation: Simulation, offset: int) -> None:
    """Reassign a partition. Its leader adds the new replicas to the ISR in its next act."""
    replicas = [(MOVED + offset + place) % _BROKERS + 1 for place in range(3)]
    entry = {"topic": "t", "partition": MOVED, "replicas": replicas}
    entries = msgspec.json.encode({"version": 1, "partitions": [entry]})
    simulation.put(REASSIGN_PARTITIONS, entries)


def _act(simulation: Simulation, act: int) -> None:
    context = simulation.fold.controller.context
    partition = context.topics["t"].partitions[act % PARTITIONS]
    state = partition.leadership
    if state is None or state.leader not in context.brokers:
        return
    isr = partition.replicas if len(state.isr) < len(partition.replicas) else (state.leader,)
    proposed = ProposedState(
        "t", partition.number, state.leader_epoch, isr, 0, state.partition_epoch
    )
    epoch = context.brokers[state.leader].epoch
    request = AlterPartitionReceived(act + 1, 0, state.leader, epoch, [proposed])
    simulation.happen(request, f"api:{state.leader}")


def _store(writer: LogWriter, simulation: Simulation, stored: int) -> int:
    """Append the events after number `stored`, and drop their commands; returns the number of
    events."""
    history = simulation.history
    new = history[stored:]
    writer.append(
        [event_record(one) for one, _ in new],
        [command_record(one) for _, issued in new for one in issued],
    )
    # The length of the history numbers the events, so the entries are kept without content.
    history[stored:] = [(new[-1][0], [])] * len(new)
    return len(history)


if __name__ == "__main__":
    typer.run(main)
