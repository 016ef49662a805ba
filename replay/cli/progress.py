"""Shows progress on standard error, if it is a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from replay.progress import Progress

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

EACH_RECORD: Final = 1000
"""Default for work that reports each record: show every thousandth report."""


@contextmanager
def progress(
    *columns: "ProgressColumn",
    what: str = "opening",
    total: int | None = None,
    every: int = EACH_RECORD,
) -> Iterator[Progress]:
    """Yield the callback that updates a progress bar with these columns and the elapsed time.

    The bar shows the reports whose `done` is a multiple of `every`, and the last one.
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

        def report(what: str, done: int, total: int | None) -> None:
            if done % every == 0 or done == total:
                shown.update(task, description=what, completed=done, total=total)

        yield report
