"""`refold report`: a log as one page that opens offline."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import structs

from controller.cli.output import print_result
from controller.core.values import counted
from replay.cli.exit_status import errors_in_one_line, unwound_by_sigterm
from replay.cli.log_notes import note_changed_commands
from replay.cli.options import Log
from replay.cli.progress import progress
from replay.cli.redacted import Redact, redacted_logs
from replay.errors import ReplayError
from replay.logs.saved_runs import logs_of_run

if TYPE_CHECKING:
    from replay.report.document import Report

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class FormatOption(StrEnum):
    """The values of --format: the keys of `replay.report.writing.FORMATS`."""

    html = "html"
    perfetto = "perfetto"
    markdown = "markdown"


Out = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--out",
        metavar="FILE",
        help="The file to write, or - for standard output. Default: report.html,"
        " report.perfetto.json or report.md.",
    ),
]
Format = Annotated[
    FormatOption | None,
    typer.Option(
        help="A page; a trace for ui.perfetto.dev and chrome://tracing; or text for a ticket."
        " Default: html."
    ),
]


@app.command(name="report")
def report(
    log: Log,
    out: Out = None,
    format: Format = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="OTHER", help="Another log or saved run, shown below LOG."),
    ] = None,
    futures: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The point of no return: the output of what-if --invariant --json."
        ),
    ] = None,
    diff: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Decisions that differ: the output of diff LOG --format json."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite a file that is not a report.")
    ] = False,
    redact: Redact = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the findings as one JSON object; write no file.")
    ] = False,
) -> None:
    """Write a log as one HTML page: findings in sentences, a time line, and each decision with its
    why. The page needs no network and no server. It has all logs of a saved run.

    Exit status: 0 written, 2 LOG, OTHER, FILE or an option cannot be used.
    """
    from replay.report.writing import FORMATS, require_writable, write_report

    if as_json and (out is not None or format is not None):
        raise typer.BadParameter("not together with --out or --format", param_hint="--json")
    if futures is not None and format not in (None, FormatOption.html):
        raise typer.BadParameter("only with --format html", param_hint="--futures")
    for option, given in (("--futures", futures), ("--diff", diff)):
        if given is not None and redact:
            text = f"not together with {option}, which has names: first `refold log copy --redact`"
            raise typer.BadParameter(text, param_hint="--redact")
    chosen = FORMATS[(format or FormatOption.html).value]
    file = out or Path(chosen.file)
    is_file = not as_json and str(file) != "-"
    with errors_in_one_line("report"), unwound_by_sigterm():
        if is_file:
            require_writable(file, chosen, force=force)
        reports = _reports(log, against, redact=redact)
        _add(reports[0], futures, diff)
        if as_json:
            from replay.report.summary import summary_of

            print_result(summary_of(reports), lambda: None, as_json=True)
            return
        text = chosen.write(reports)
        if not is_file:
            typer.echo(text, nl=False)
            return
        write_report(file, text)
    bad = sum(one.severity == "bad" for each in reports for one in each.findings)
    count = sum(len(one.findings) for one in reports)
    typer.echo(f"{file}: {counted(count, 'finding')}, {bad} of them bad")


def _add(report: "Report", futures: Path | None, diff: Path | None) -> None:
    """Add what the options name: a point of no return, and differing decisions. Raises
    ReplayError."""
    if futures is not None:
        from replay.report.futures import read_futures

        report.futures = read_futures(futures, report)
    if diff is not None:
        from replay.report.differing_decisions import add_differing_decisions

        add_differing_decisions(report, diff)


def _reports(log: str, against: str | None, *, redact: bool) -> "list[Report]":
    """The reports of a log or of all logs of a saved run; then those of what it is compared
    with."""
    from replay.report.building import put_on_one_clock
    from replay.report.comparing import compare

    sources = _sources(log)
    others = _sources(against) if against is not None else []
    reports = _read_reports([*sources, *others], redact=redact)
    if others:
        compare(reports[: len(sources)], reports[len(sources) :])
    else:
        put_on_one_clock(reports)
    return reports


def _sources(path: str) -> list[str]:
    """The logs of a saved run, or the log that a path names."""
    return [str(one) for one in logs_of_run(Path(path))] or [path]


def _read_reports(sources: list[str], *, redact: bool) -> "list[Report]":
    if not redact:
        return [_read_report(one, one, one) for one in sources]
    with redacted_logs(sources) as other:
        # The path of a log may have the name of a host.
        titles = ["redacted log", *(f"redacted log {n}" for n in range(2, len(sources) + 1))]
        reports = [_read_report(*one) for one in zip(sources, other.logs, titles, strict=True)]
    for one in reports:
        # A reader has neither the log nor its names, so no command can be run.
        one.findings = [structs.replace(each, look_at="") for each in one.findings]
    return reports


def _read_report(path: str, source: Path | str, title: str) -> "Report":
    from replay.logs.open_log import open_log
    from replay.report.building import report_of
    from replay.what_if.saved_run import continuing_log

    with progress() as show, open_log(source, show) as opened:
        if not opened.reader.last_seq:
            raise ReplayError(f"{path} has no events: there is nothing to report")
        found = report_of(opened, title, show)
        found.continues = continuing_log(path)
        note_changed_commands("report", path, opened)
        return found
