"""Shows progress on standard error, if it is a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final

import typer

from replay.progress import Progress

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

EACH_RECORD: Final = 1000
"""Default for work that reports each record: show every thousandth report."""

LINE_S: Final = 10.0
"""How often long work prints a line if there is no terminal."""


@contextmanager
def progress(
    *columns: "ProgressColumn",
    what: str = "opening",
    total: int | None = None,
    every: int = EACH_RECORD,
    line_s: float | None = None,
) -> Iterator[Progress]:
    """Yield the callback that updates a progress bar with these columns and the elapsed time.

    The bar shows the reports whose `done` is a multiple of `every`, and the last one. Without a
    terminal, a report is printed as a line every `line_s` seconds; None: none is.
    """
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    with Bar(
        *(columns or (TextColumn("{task.description}"), BarColumn())),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as shown:
        task = shown.add_task(what, total=total)
        printed_s = monotonic()

        def report(what: str, done: int, total: int | None) -> None:
            nonlocal printed_s
            if line_s is not None and not console.is_terminal:
                if monotonic() - printed_s >= line_s:
                    printed_s = monotonic()
                    typer.echo(" ".join(what.split()), err=True)
                return
            if done % every == 0 or done == total:
                shown.update(task, description=what, completed=done, total=total)

        yield report
