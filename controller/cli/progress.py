"""Progress of long work, on standard error, where that is a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_STEP: Final = 1000


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """Gives what is to be told: what is being done, how many records are done, of how many."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as shown:
        task = shown.add_task("opening", total=None)

        def advance(what: str, done: int, total: int) -> None:
            if done % _STEP == 0 or done == total:
                shown.update(task, description=what, completed=done, total=total)

        yield advance
