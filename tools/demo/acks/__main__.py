"""Producers and consumers when the leader of a partition dies, on real servers.

Three stock Kafka brokers, with refold as their controller, and three scenes: a record that is not
committed, producers with acks 0, 1 and all, and a leader that is the only in-sync replica. Each one
counts what became of its records; the demonstration fails if a count is not what Kafka promises.
"""

from collections.abc import Iterator

import typer

from tools.demo.acks import committed_offset, leader_killed, only_replica
from tools.demo.acks.clients import BROKER_CONFIG
from tools.demo.stage import DemoFailed, ServersFolder, Stage, console, perform


async def play(stage: Stage) -> None:
    """All scenes with their checks. Raises DemoFailed, TimeoutError, LabError."""
    await stage.start(BROKER_CONFIG)
    await stage.take_over()
    _print_heading("The committed offset: what a consumer may read")
    committed = await committed_offset.play(stage)
    console.print(committed.table())
    _check(committed.faults())
    _print_heading("acks 0, 1 and all: the leader dies while a follower lags")
    killed = await leader_killed.play(stage)
    console.print(killed.table())
    console.print(
        f"The consumer read {killed.read} records; {len(killed.inconsistent)} of them are "
        "elsewhere in the log, or were read twice."
    )
    _check(killed.faults())
    _print_heading("The leader is the only in-sync replica")
    only = await only_replica.play(stage)
    console.print(only.table())
    console.print(only.offsets())
    _check(only.faults())
    await stage.hand_back()
    await stage.replay()


def _print_heading(text: str) -> None:
    console.print(f"\n[bold]{text}[/bold]")


def _check(faults: Iterator[str]) -> None:
    found = list(faults)
    if found:
        raise DemoFailed("; ".join(found))


app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def main(
    folder: ServersFolder = None,
) -> None:
    """Count lost and duplicated records on real servers. Exit status: 0 all checks passed, 1 one
    failed."""
    perform(play, folder, "demo-acks")


if __name__ == "__main__":
    app()
