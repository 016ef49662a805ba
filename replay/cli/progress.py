"""Progress of long work, on standard error, where that is a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

_STEP: Final = 1000

Tell = Callable[[str, int, int | None], None]
"""What is being done, how much of it is done, of how much if that is known."""


@contextmanager
def bar(
    *columns: "ProgressColumn", what: str = "opening", total: int | None = None
) -> Iterator[Tell]:
    """A bar with these columns and the time; gives what is to be told."""
    from rich.console import Console
    from rich.progress import Progress, TimeElapsedColumn

    console = Console(stderr=True)
    with Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as shown:
        task = shown.add_task(what, total=total)

        def tell(what: str, done: int, total: int | None) -> None:
            shown.update(task, description=what, completed=done, total=total)

        yield tell


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """Gives what is to be told: what is being done, how many records are done, of how many."""
    from rich.progress import BarColumn, TextColumn

    with bar(TextColumn("{task.description}"), BarColumn()) as tell:

        def advance(what: str, done: int, total: int) -> None:
            if done % _STEP == 0 or done == total:
                tell(what, done, total)

        yield advance
