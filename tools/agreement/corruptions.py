"""Whether `refold agree` reports corruptions: `python -m tools.agreement.corruptions SOURCE`.

For each seed, one decision in a copy of the recording is changed (tools.zookeeper_log), and `refold
agree` compares the copy. Exit status: 0 all changes were reported, 1 one was not, 2 a recording
cannot be used.
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
from replay.agreement.comparison import agree, temporary_import
from replay.agreement.results import AgreementResult
from replay.errors import ReplayError
from replay.stock_clusters.imports.importing import Selection
from tools.zookeeper_log.corruption import Corruption, corrupt

_UNREPORTED, _UNUSABLE = 1, 2


class CorruptedCopy(Struct, frozen=True):
    """One copy: how it was corrupted, and the result of the comparison."""

    seed: int
    corruption: Corruption
    result: AgreementResult

    @property
    def is_reported(self) -> bool:
        """Whether a decision does not agree and no rule explains it."""
        return not self.result.agrees


def trials(recording: Path, seeds: Iterable[int]) -> Iterator[CorruptedCopy]:
    """Corrupt and compare a recording's folder, once per seed. Raises ReplayError, LogError."""
    for seed in seeds:
        with TemporaryDirectory(prefix="refold-corrupted-") as folder:
            copy = Path(folder) / "copy"
            corruption = corrupt(recording, copy, seed)
            with temporary_import(copy, Selection(), lambda *_: None) as log:
                yield CorruptedCopy(seed, corruption, agree(log))


@contextmanager
def folder_of(recording: Path) -> Iterator[Path]:
    """The folder of a recording; an archive is unpacked while the block runs. Raises
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
    recordings: Annotated[list[Path], typer.Argument(help="Recordings: folders or archives.")],
    seeds: Annotated[int, typer.Option(min=1, help="Copies per recording.")] = 50,
) -> None:
    """Print the changes that were not reported."""
    is_all_reported = True
    try:
        for recording in recordings:
            with folder_of(recording) as folder:
                unreported = [one for one in trials(folder, range(seeds)) if not one.is_reported]
            for one in unreported:
                typer.echo(f"{recording.name}: not reported: {_trial_text(one)}")
            typer.echo(f"{recording.name}: {seeds - len(unreported)} of {seeds} reported")
            is_all_reported &= not unreported
    except (LogError, ReplayError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(_UNUSABLE) from None
    raise typer.Exit(0 if is_all_reported else _UNREPORTED)


def _trial_text(trial: CorruptedCopy) -> str:
    one = trial.corruption
    last = ", the last of its term" if one.is_last_of_term else ""
    change = f"{one.before} -> {one.after}" if one.after != one.before else ""
    text = f"seed {trial.seed}, zxid {one.zxid:#x}, {one.how} {one.what} {one.path}{last} {change}"
    return text.rstrip()


if __name__ == "__main__":
    typer.run(main)
