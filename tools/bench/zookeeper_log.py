"""How fast ZooKeeper's logs are read and imported: `python -m tools.bench.zookeeper_log`.

The history is made up (tools/zookeeper_log), with three brokers and mostly guarded writes of
partition states, of which each is a multi, and digests as servers from 3.6 on write them.
Nothing is folded here. A record is checked, decoded in
full and, in the second line, applied to the tree; in the third it is classified, too, and stored in
a log as `refold import` does, with brokers' logs if the source has any. Memory is this process's at
its peak, with the generator's share in it if it ran in here.
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
from tools.zookeeper_log.digests import with_digests
from tools.zookeeper_log.incident import transactions

_PER_FILE = 100_000


def main(
    number: Annotated[int, typer.Option("--transactions", min=1)] = 1_000_000,
    source: Annotated[
        Path | None, typer.Option(help="Read this one and make none up: a folder or an archive.")
    ] = None,
) -> None:
    """Print transactions a second for reading, for restoring and for an import; and memory."""
    with TemporaryDirectory(prefix="refold-bench-") as folder:
        if source is None:
            source = Path(folder)
            write_data_folder(source, with_digests(transactions(number)), _PER_FILE)
        with open_source(source) as opened:
            _show("read", lambda: _read(opened))
            _show("read and restore", lambda: _restore(opened))
        log = Path(folder) / "log"
        _show("import", lambda: import_source(source, log, Selection()).transactions)


def _read(source: Source) -> int:
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
    # Linux counts in KiB, others in bytes.
    unit = 1024 if sys.platform == "linux" else 1
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    typer.echo(
        f"{what:>16}: {count:,} transactions in {wall_s:.1f} s, {count / wall_s:,.0f} a second"
        f" ({count / cpu_s:,.0f} a second of CPU), {megabytes:.0f} MB"
    )


if __name__ == "__main__":
    typer.run(main)
