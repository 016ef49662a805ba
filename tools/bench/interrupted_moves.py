"""Compares refold with Kafka's controller where reassignments and failures meet, in one run.

    python -m tools.bench.interrupted_moves

The first part is `tools.bench.reassignment`: how long many reassignments take to begin, how long a
failure of a broker waits meanwhile, and how long a failover takes with them. The second part is
`tools.bench.cancellation_stalls`: how long producers with acks=all wait if the controller is killed
between the first write of a rollback (step 2) and the requests that follow. The two modules
describe the measurements and their bias. All controllers have Kafka's default session timeout.
"""

from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from tools.bench import cancellation_stalls, reassignment
from tools.bench.cancellation_stalls import Kill, StallConditions, StallOutcome
from tools.bench.contenders import SESSION_TIMEOUT_MS
from tools.bench.moving_partitions import MoveMeasurements
from tools.bench.population import Population
from tools.bench.running import Folder, conditions, run

POPULATION = Population(2_000, partitions_per_topic=10, brokers=6, replication_factor=3)
MOVES = 1_000
PROTOCOL = "3.9"
STALLED_PARTITIONS = 4


class Found(NamedTuple):
    """The results of both parts."""

    moves: list[MoveMeasurements]
    stalls: dict[str, list[StallOutcome]]


async def compare(folder: Path, runs: int, stalled: StallConditions) -> Found:
    """Measure one part after the other. Each part starts its own servers."""
    moves = folder / "moves"
    moves.mkdir()
    found = await reassignment.compare(moves, POPULATION, MOVES, PROTOCOL, runs, with_peer=True)
    return Found(found, await cancellation_stalls.compare(folder / "stalls", stalled))


def main(
    runs: Annotated[int, typer.Option(min=1, help="Runs of the first part.")] = 2,
    kills: Annotated[int, typer.Option(min=1, help="Kills of each controller.")] = 6,
    folder: Folder = None,
) -> None:
    """Print how long reassignments, failures and producers wait for each other.

    `ratio` is refold's time relative to Kafka's, except in the table of failovers: there it is
    relative to the failover of the same controller without reassignments.
    """
    stalled = StallConditions(kills, STALLED_PARTITIONS, SESSION_TIMEOUT_MS, Kill.STATE)
    found = run("interrupted_moves", folder, partial(compare, runs=runs, stalled=stalled))
    lines = [f"{MOVES:,} moves", *conditions(POPULATION, PROTOCOL, f"{runs} runs", found.moves)]
    reassignment.show_moves(found.moves, lines)
    cancellation_stalls.show_stalls(found.stalls, [stalled.text])


if __name__ == "__main__":
    typer.run(main)
