"""Measures reading, restoring and importing ZooKeeper's transaction logs.

    python -m tools.bench.zookeeper_log

The history is generated (tools/zookeeper_log): three brokers, mostly multis with guarded writes of
partition states, and digests as ZooKeeper 3.6 and later write them. Nothing is folded. "read"
checks and decodes each record; "read and restore" also applies it to the tree; "import" also
classifies it and stores it in a log, as `refold import` does, with brokers' logs if the source has
any. Memory is the peak of this process, including the generator if it ran here.
"""

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from replay.stock_clusters.imports.importing import Selection, import_source
from replay.stock_clusters.zookeeper_log.source import Source, open_source
from tools.zookeeper_log.__main__ import write_data_folder
from tools.zookeeper_log.generated_history import transactions, with_digests

_PER_FILE = 100_000


def main(
    number: Annotated[int, typer.Option("--transactions", min=1)] = 1_000_000,
    source: Annotated[
        Path | None, typer.Option(help="Read this folder or archive instead of generating one.")
    ] = None,
) -> None:
    """Print transactions per second for reading, restoring and importing, and the memory."""
    with TemporaryDirectory(prefix="refold-bench-") as folder:
        if source is None:
            source = Path(folder)
            write_data_folder(source, with_digests(transactions(number)), _PER_FILE)
        with open_source(source) as opened:
            _show("read", lambda: _read_transactions(opened))
            _show("read and restore", lambda: _restore(opened))
        log = Path(folder) / "log"
        _show("import", lambda: import_source(source, log, Selection()).transactions)


def _read_transactions(source: Source) -> int:
    logs = source.transactions()
    for _ in logs:
        pass
    return logs.read


def _restore(source: Source) -> int:
    state = source.first_state()
    logs = source.transactions(state.zxid)
    for transaction in logs:
        state.apply(transaction)
    return logs.read


def _show(what: str, measured: Callable[[], int]) -> None:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    count = measured()
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    # The unit is KiB on Linux, bytes on other systems.
    unit = 1024 if sys.platform == "linux" else 1
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    typer.echo(
        f"{what:>16}: {count:,} transactions in {wall_s:.1f} s, {count / wall_s:,.0f} per second"
        f" ({count / cpu_s:,.0f} per second of CPU time), {megabytes:.0f} MB"
    )


if __name__ == "__main__":
    typer.run(main)
