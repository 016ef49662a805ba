"""`refold new-incident`: make a regression test of a log."""

import re
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer

from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.cli.exit_status import errors_in_one_line
from replay.cli.options import LogPosition, log_position, named_partition
from replay.cli.redacted import Redact, redacted_logs
from replay.errors import ReplayError
from replay.incidents.cutting import cut_log
from replay.incidents.incident_folder import (
    TRANSCRIPT,
    IncidentDescription,
    incidents_in,
    keep_incident,
    require_new,
    update_incident,
)
from replay.logs.broker_log import refuse_broker_log
from replay.logs.open_log import open_reader, seq_at

_INTO: Final = Path("tests/incidents")
_RUN_FILE: Final = "run.json"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="new-incident")
def new_incident(
    log: Annotated[
        Path | None,
        typer.Argument(
            metavar="LOG",
            help="A log of the daemon or an imported log, may be packed; or the run.json of `refold"
            " explore`, or its folder. With --update: incidents.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="The name of its folder, such as broker-crash. Default for a run of `refold"
            " explore`: the invariant that it breaks."
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="The incident in one sentence.")] = "",
    first: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="SEQ|TIME",
            help="Leave out earlier events if the others replay without them.",
        ),
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to", metavar="SEQ|TIME", help="The last event.")
    ] = None,
    partition: Annotated[
        str | None,
        typer.Option(metavar="T-0", help="From the first to the last event about this partition."),
    ] = None,
    redact: Redact = False,
    into: Annotated[Path, typer.Option(help="The folder of the incidents.")] = _INTO,
    is_update: Annotated[
        bool,
        typer.Option("--update", help="Write the transcripts of existing incidents again."),
    ] = False,
) -> None:
    """Cut LOG to the relevant part and keep it as a regression test: the log, a description, and a
    transcript of the decisions, which is reviewed like code.

    The cut log begins where a session or LOG begins. A cut imported log begins at an election,
    with the state of ZooKeeper at that time. The command checks that the cut log yields the same
    decisions.

    Of a run of `refold explore`, the run itself is kept as well: a test checks that it breaks no
    invariant.

    After an intended change, `refold new-incident --update` writes the transcripts again.

    Exit status: 0 done, 2 LOG cannot be used, or the incident exists already.
    """
    with errors_in_one_line("new-incident"):
        if is_update:
            _update([log] if log is not None else [into])
            return
        if log is not None and _is_run(log):
            _refuse_broker_run(log)
            invariant, of_violation = _name_and_title(log)
            name, title = name or invariant, title or of_violation
        if log is None or name is None:
            raise typer.BadParameter("needs LOG and --name", param_hint="LOG, --name")
        _check_name(name)
        if _is_run(log):
            _keep_run(log, into / name, title or name)
            return
        begin = log_position(first, "--from", is_begin=True)
        between = begin, log_position(last, "--to")
        _keep(log, into / name, title or name, between, partition, redact=redact)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise typer.BadParameter(
            f"{name!r}: use lower-case letters, digits, dots and hyphens", param_hint="--name"
        )


def _is_run(path: Path) -> bool:
    return path.suffix == ".json" or (path / _RUN_FILE).is_file()


def _refuse_broker_run(path: Path) -> None:
    """Refuse a run of the 0.8 design, and say what to do with it. Raises ReplayError."""
    from replay.explore.saved import CONTROLLER, design_of

    if design_of(path) != CONTROLLER:
        raise ReplayError(
            f"{path} is a run of the 0.8 design, which this command does not keep: copy its "
            f"{_RUN_FILE} into a new folder of tests/replay/explore/kafka_0_8/incidents, where "
            "each run is a test, and write in its field `reason` what happened"
        )


def _name_and_title(path: Path) -> tuple[str, str]:
    """A name and a title for a run, by the invariant that it breaks."""
    from replay.explore.saved import read_run

    violation = read_run(path).violation
    if violation is None:
        return "explored", ""
    return violation.invariant, f"{violation.subject}: {violation.text}"


def _keep_run(path: Path, folder: Path, title: str) -> None:
    """Keep a run of `refold explore`: its inputs, and the longest log of a refold in it."""
    from replay.explore.saved import read_run, run_again, write_logs

    require_new(folder)
    saved = read_run(path)
    done = run_again(saved)
    violation = done.outcome().violation
    with TemporaryDirectory(prefix="refold-incident-") as scratch:
        logs = write_logs(done.cluster, Path(scratch)) if done.cluster is not None else []
        if not logs:
            raise ReplayError(f"{path}: no refold has run, so there is no log")
        sizes = {log: _events_of(log) for log in logs}
        longest = max(logs, key=lambda log: sizes[log])
        how = "refold new-incident: a run that refold explore found"
        if saved.violation is not None:
            how += f"; it broke {saved.violation.invariant}"
        keep_incident(longest, folder, IncidentDescription(title, how))
        (folder / _RUN_FILE).write_bytes(_run_file(path).read_bytes())
    typer.echo(f"{folder}: {sizes[longest]} events; read {folder / TRANSCRIPT}")
    if violation is not None:
        typer.echo(f"{violation.invariant} does not hold yet: the test fails until it does")


def _run_file(path: Path) -> Path:
    return path / _RUN_FILE if path.is_dir() else path


def _events_of(log: Path) -> int:
    with open_reader(log) as reader:
        return reader.last_seq


def _keep(
    log: Path,
    folder: Path,
    title: str,
    between: tuple[LogPosition, LogPosition],
    partition: str | None,
    *,
    redact: bool,
) -> None:
    require_new(folder)
    (first_seq, first_ns), (last_seq, last_ns) = between
    with TemporaryDirectory(prefix="refold-incident-") as scratch, ExitStack() as opened:
        reader = opened.enter_context(open_reader(log))
        refuse_broker_log(reader.header)
        first = seq_at(reader, first_seq or reader.header.first_seq, first_ns)
        last = seq_at(reader, last_seq, last_ns)
        if partition is not None:
            first, last = _events_about(reader, partition, first, last)
        if last < first:
            raise ReplayError(f"event {first} is after event {last}")
        made = cut_log(reader, Path(scratch) / "log", first, last)
        shorter = Path(scratch) / "log"
        if redact:
            [shorter], _ = opened.enter_context(redacted_logs([shorter]))
        origin = f"refold new-incident: events {made.first} to {made.last} of a log"
        about = IncidentDescription(
            title, f"{origin}, redacted" if redact else origin, partition or ""
        )
        if redact and partition:
            about.matters = ""
        keep_incident(shorter, folder, about)
    typer.echo(f"{folder}: {made.events} events; read {folder / TRANSCRIPT}")


def _events_about(reader: LogReader, partition: str, first: int, last: int) -> tuple[int, int]:
    """The first and the last event about a partition."""
    from replay.logs.subject_index import SubjectsOfRecords

    named_partition(partition, "--partition")
    wanted = EventFilter(first_seq=first, last_seq=last, subject=partition)
    found = [event.seq for event in reader.events(wanted, SubjectsOfRecords(reader))]
    if not found:
        raise ReplayError(f"no event between {first} and {last} is about {partition}")
    return found[0], found[-1]


def _update(folders: list[Path]) -> None:
    for incident in incidents_in(folders):
        if update_incident(incident):
            typer.echo(f"{incident / TRANSCRIPT} changed")
