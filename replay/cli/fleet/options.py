"""Code that the commands of `refold fleet` share: Spark's options, errors in one line, progress."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from replay.cli.exit_status import UNUSABLE, interrupted_by_sigterm
from replay.cli.options import settings
from replay.cli.progress import progress
from replay.errors import ReplayError
from replay.progress import Progress
from replay.uri import is_uri

_ADDED: Final = "the batch was already added; run again to see it"
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
        help="Spark's master: local[N], spark://HOST:PORT, yarn or k8s://URL. Default: $MASTER, or"
        " local[*]."
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="A Spark setting. Can be repeated."),
]


def settings_of(conf: list[str] | None) -> dict[str, str]:
    """Spark's settings. Raises typer.BadParameter."""
    return settings(conf, "--conf", "NAME=VALUE")


@contextmanager
def fleet_errors(
    command: str,
    stopped: str = "nothing was added; run the command again",
    into: Path | None = None,
) -> Iterator[None]:
    """Print an error in one line and exit with UNUSABLE. Ctrl-C and SIGTERM print `stopped`.

    `into` is the folder that the command adds a batch to. If a signal comes after that, the line
    says so.
    """
    before = _batches(into)
    try:
        with interrupted_by_sigterm(f"refold fleet {command}: stopping"):
            yield
    except ReplayError as error:
        text = str(error)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        text = f"{error.name} is not installed: run pip install 'refold[fleet]'"
    except OSError as error:
        text = f"{error.filename or 'a file'}: {error.strerror or error}"
    except KeyboardInterrupt:
        is_added = _batches(into) != before
        text = f"stopped: {_ADDED if is_added else stopped}"
    else:
        return
    typer.echo(f"refold fleet {command}: {text}", err=True)
    raise typer.Exit(UNUSABLE)


def _batches(folder: Path | None) -> list[Path]:
    from replay.fleet.batches import batches

    return [] if folder is None else batches(folder)


@contextmanager
def task_progress() -> Iterator[Progress]:
    """Yield the callback that shows the number of finished Spark tasks."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with progress(*columns, TextColumn("tasks"), what="", every=1) as report:
        yield report


@contextmanager
def spark_with_progress(
    master: str | None, conf: dict[str, str], *, is_brief: bool
) -> Iterator[tuple[Any, Progress]]:
    """Yield a Spark session, and the callback that shows the progress of its tasks."""
    from replay.fleet.session import spark_session

    with task_progress() as report:
        report("starting Spark", 0, None)
        with spark_session(master, conf, is_brief=is_brief) as spark:
            yield spark, report
