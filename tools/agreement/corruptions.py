"""Whether `refold agree` reports what was changed: `python -m tools.agreement.corruptions SOURCE`.

Each seed makes a copy of the recording in which one decision is another (tools.zookeeper_log), and
the copy is compared as `refold agree` does. Exit status: 0 every change was reported, 1 one was
not, 2 a recording cannot be used.
"""

import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from msgspec import Struct

from eventstore.errors import LogError
from replay.errors import ReplayError
from replay.stock_clusters.agreement.comparison import agree, imported
from replay.stock_clusters.agreement.results import AgreementResult
from replay.stock_clusters.imports.importing import Selection
from tools.zookeeper_log.corrupting import Corruption, corrupt

_UNREPORTED, _UNUSABLE = 1, 2


class Trial(Struct, frozen=True):
    """One copy: how it was corrupted, and what comparing it came to."""

    seed: int
    corruption: Corruption
    result: AgreementResult

    @property
    def is_reported(self) -> bool:
        """Whether something does not agree that no rule explains."""
        return not self.result.agrees


def trials(recording: Path, seeds: Iterable[int]) -> Iterator[Trial]:
    """Corrupt a recording's folder once a seed, and compare. Raises ReplayError, LogError."""
    for seed in seeds:
        with TemporaryDirectory(prefix="refold-corrupted-") as folder:
            copy = Path(folder) / "copy"
            corruption = corrupt(recording, copy, seed)
            with imported(copy, Selection(), lambda *_: None) as log:
                yield Trial(seed, corruption, agree(log))


@contextmanager
def folder_of(recording: Path) -> Iterator[Path]:
    """A recording's folder, unpacked for as long as it is needed if it is an archive. Raises
    ReplayError."""
    if recording.is_dir():
        yield recording
        return
    with TemporaryDirectory(prefix="refold-recording-") as folder:
        try:
            with tarfile.open(recording) as tar:
                tar.extractall(folder, filter="data")
        except (OSError, tarfile.TarError) as error:
            raise ReplayError(f"{recording} cannot be unpacked: {error}") from None
        yield Path(folder)


def main(
    recordings: Annotated[list[Path], typer.Argument(help="Folders or archives.")],
    seeds: Annotated[int, typer.Option(min=1, help="Copies of each.")] = 50,
) -> None:
    """Print the changes that were not reported."""
    is_all_reported = True
    try:
        for recording in recordings:
            with folder_of(recording) as folder:
                unreported = [one for one in trials(folder, range(seeds)) if not one.is_reported]
            for one in unreported:
                typer.echo(f"{recording.name}: not reported: {_told(one)}")
            typer.echo(f"{recording.name}: {seeds - len(unreported)} of {seeds} reported")
            is_all_reported &= not unreported
    except (LogError, ReplayError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(_UNUSABLE) from None
    raise typer.Exit(0 if is_all_reported else _UNREPORTED)


def _told(trial: Trial) -> str:
    one = trial.corruption
    last = ", the last of its term" if one.is_last_of_term else ""
    change = f"{one.before} -> {one.after}" if one.after != one.before else ""
    text = f"seed {trial.seed}, zxid {one.zxid:#x}, {one.how} {one.what} {one.path}{last} {change}"
    return text.rstrip()


if __name__ == "__main__":
    typer.run(main)
