"""What the commands of `refold fleet` have in common: Spark's options, errors in one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from replay.cli.ending import interrupted_by_sigterm
from replay.cli.progress import progress
from replay.errors import ReplayError
from replay.escape_path import is_uri
from replay.progress import Progress

_UNUSABLE: Final = 2
_ADDED: Final = "all was added before that, run it again to see what"
_NEEDED: Final = ("pyspark", "py4j", "pyarrow", "plotly")


def local_path(text: str) -> Path:
    """A path of this machine. Raises typer.BadParameter for a URI, which would become a folder in
    the working directory."""
    if is_uri(text):
        raise typer.BadParameter(
            f"{text} is a URI: refold fleet reads and writes mounted file systems only"
        )
    return Path(text)


Table = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", parser=local_path, help="The folder that `refold fleet ingest` made."
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        help="Of Spark: local[N], spark://HOST:PORT, yarn, k8s://URL. Else $MASTER, else local[*]."
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark's; again for more."),
]


def settings_of(conf: list[str] | None) -> dict[str, str]:
    """Settings of Spark's as options give them. Raises typer.BadParameter."""
    settings: dict[str, str] = {}
    for one in conf or ():
        name, equals, value = one.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{one} is not NAME=VALUE", param_hint="--conf")
        settings[name] = value
    return settings


@contextmanager
def fleet_errors(
    command: str, stopped: str = "nothing was added, run it again", into: Path | None = None
) -> Iterator[None]:
    """A clear line and an exit status in the place of a traceback; `stopped` is what Ctrl-C and
    SIGTERM leave. `into`: where a batch is added, which may be before they come."""
    before = _batches(into)
    try:
        with interrupted_by_sigterm(f"refold fleet {command}: stopping"):
            yield
    except ReplayError as error:
        text = str(error)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        text = f"needs {error.name}: pip install 'refold[fleet]'"
    except OSError as error:
        text = f"{error.filename or 'a file'}: {error.strerror or error}"
    except KeyboardInterrupt:
        is_added = _batches(into) != before
        text = f"stopped: {_ADDED if is_added else stopped}"
    else:
        return
    typer.echo(f"refold fleet {command}: {text}", err=True)
    raise typer.Exit(_UNUSABLE)


def _batches(folder: Path | None) -> list[Path]:
    from replay.fleet.batches import batches

    return [] if folder is None else batches(folder)


@contextmanager
def task_progress() -> Iterator[Progress]:
    """Yield the callback that shows how many of Spark's tasks are done."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with progress(*columns, TextColumn("tasks"), what="", every=1) as report:
        yield report
