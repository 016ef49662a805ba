"""`python -m tools.zookeeper_log`: the data folder of a ZooKeeper with a long history."""

from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Annotated

import typer

from replay.stock_clusters.zookeeper_log.transactions import OPEN_ACL, Transaction
from replay.znode_tree.tree import Tree
from tools.zookeeper_log.file_format import write_log, write_snapshot
from tools.zookeeper_log.generated_history import transactions, with_digests


def main(
    folder: Annotated[Path, typer.Argument(help="The folder for version-2, created if missing.")],
    number: Annotated[int, typer.Option("--transactions", min=1)] = 1_000_000,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of the topic.")] = 1000,
    per_file: Annotated[int, typer.Option(min=1, help="Transactions per log file.")] = 100_000,
) -> None:
    """Write transaction logs, and a snapshot of the empty ZooKeeper before them."""
    write_data_folder(folder, with_digests(transactions(number, partitions)), per_file)


def write_data_folder(folder: Path, history: Iterable[Transaction], per_file: int) -> None:
    """Write a history that begins with an empty ZooKeeper to `folder`/version-2."""
    versioned = folder / "version-2"
    versioned.mkdir(parents=True, exist_ok=True)
    with (versioned / "snapshot.0").open("wb") as stream:
        znodes = [(path, 1, znode) for path, znode in Tree().dump().items()]
        write_snapshot(stream, {}, {1: OPEN_ACL}, znodes)
    rest = iter(history)
    while (first := next(rest, None)) is not None:
        with (versioned / f"log.{first.zxid:x}").open("wb") as stream:
            write_log(stream, chain((first,), islice(rest, per_file - 1)))


if __name__ == "__main__":
    typer.run(main)
