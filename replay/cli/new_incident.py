"""`refold new-incident`: a log becomes a test."""

import re
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer

from eventstore.errors import LogError
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.cli.moments import moment
from replay.cli.progress import progress
from replay.cli.subjects import partition as named_partition
from replay.errors import ReplayError
from replay.incidents.cutting import cut
from replay.incidents.keeping import TRANSCRIPT, About, incidents_in, keep, update
from replay.logs.open_log import open_reader, seq_at

_UNUSABLE: Final = 2
_INTO: Final = Path("tests/incidents")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="new-incident")
def new_incident(
    log: Annotated[
        Path | None,
        typer.Argument(
            metavar="LOG",
            help="A log of the daemon or an imported one, also packed; with --update: incidents.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Its folder's name, as broker-crash.")] = None,
    title: Annotated[str, typer.Option(help="What happened, in a sentence.")] = "",
    first: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="SEQ|TIME",
            help="What comes before is left out, as far as the rest replays without it.",
        ),
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to", metavar="SEQ|TIME", help="The last event.")
    ] = None,
    partition: Annotated[
        str | None,
        typer.Option(metavar="T-0", help="From the first to the last event that is about it."),
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Under other names of topics, hosts, principals.")
    ] = False,
    into: Annotated[Path, typer.Option(help="Where the incidents are.")] = _INTO,
    is_update: Annotated[
        bool,
        typer.Option("--update", help="Write the transcripts of the incidents anew instead."),
    ] = False,
) -> None:
    """Cut LOG to what matters and keep it as a test: the log, what it is, and a transcript of what
    is decided on it, which is reviewed like code.

    A cut log begins where a session begins, or LOG does; of an imported log where a controller is
    elected, with the state of ZooKeeper then. That it decides the same is checked.

    `refold new-incident --update` writes the transcripts anew after a change that is meant.

    Exit status: 0 done, 2 LOG cannot be used, or the incident is there already.
    """
    try:
        if is_update:
            _update([log] if log is not None else [into])
            return
        if log is None or name is None:
            raise typer.BadParameter("needs LOG and --name", param_hint="LOG, --name")
        if not _NAME.fullmatch(name):
            raise typer.BadParameter(
                f"{name!r}: small letters, digits, dots and hyphens", param_hint="--name"
            )
        _keep(log, into / name, title or name, (first, last), partition, redact=redact)
    except (LogError, ReplayError) as error:
        typer.echo(f"refold new-incident: {error}", err=True)
        raise typer.Exit(_UNUSABLE) from None


def _keep(
    log: Path,
    folder: Path,
    title: str,
    between: tuple[str | None, str | None],
    partition: str | None,
    *,
    redact: bool,
) -> None:
    if folder.exists():
        raise ReplayError(f"{folder} is there already: give the incident another name")
    first_seq, first_ns = moment(between[0], "--from")
    last_seq, last_ns = moment(between[1], "--to")
    with TemporaryDirectory(prefix="refold-incident-") as scratch, ExitStack() as opened:
        reader = opened.enter_context(open_reader(log))
        first = seq_at(reader, first_seq or reader.header.first_seq, first_ns)
        last = seq_at(reader, last_seq, last_ns)
        if partition is not None:
            first, last = _about(reader, partition, first, last)
        if last < first:
            raise ReplayError(f"event {first} is after event {last}")
        made = cut(reader, Path(scratch) / "log", first, last)
        shorter = Path(scratch) / "log"
        if redact:
            from replay.redaction.redacting import redact as redact_log

            shorter = Path(scratch) / "redacted"
            cut_log = opened.enter_context(open_reader(Path(scratch) / "log"))
            with progress() as report:
                redact_log(cut_log, shorter, report)
        how = f"refold new-incident: events {made.first} to {made.last} of a log"
        about = About(title, f"{how}, redacted" if redact else how, partition or "")
        if redact and partition:
            about.matters = ""
        keep(shorter, folder, about)
    typer.echo(f"{folder}: {made.events} events; read {folder / TRANSCRIPT}")


def _about(reader: LogReader, partition: str, first: int, last: int) -> tuple[int, int]:
    """The first and the last event that is about a partition."""
    from replay.logs.subject_index import SubjectsOfRecords

    named_partition(partition, "--partition")
    wanted = EventFilter(first_seq=first, last_seq=last, subject=partition)
    found = [event.seq for event in reader.events(wanted, SubjectsOfRecords(reader))]
    if not found:
        raise ReplayError(f"no event between {first} and {last} is about {partition}")
    return found[0], found[-1]


def _update(folders: list[Path]) -> None:
    for incident in incidents_in(folders):
        if update(incident):
            typer.echo(f"{incident / TRANSCRIPT} is another one")
