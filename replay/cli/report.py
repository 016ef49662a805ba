"""`refold report`: a log as one page that opens offline."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replay.cli.exit_status import errors_in_one_line, unwound_by_sigterm
from replay.cli.log_notes import note_changed_commands
from replay.cli.options import Log
from replay.cli.progress import progress
from replay.errors import ReplayError

if TYPE_CHECKING:
    from replay.report.document import Report

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="report")
def report(
    log: Log,
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE", help="The file to write.")
    ] = Path("report.html"),
    against: Annotated[
        str | None,
        typer.Option(metavar="OTHER", help="Another log or saved run, shown below the first."),
    ] = None,
    futures: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The point of no return: the output of what-if --invariant --json."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite a file that is not a report.")
    ] = False,
) -> None:
    """Write a log as one HTML page: findings in sentences, a time line, and each decision with its
    why. The page needs no network and no server.

    Exit status: 0 written, 2 LOG, OTHER or FILE cannot be used.
    """
    from replay.report.html import page_of
    from replay.report.writing import require_writable, write_page

    with errors_in_one_line("report"), unwound_by_sigterm():
        require_writable(out, force=force)
        reports = [_read(one) for one in (log, against) if one is not None]
        if futures is not None:
            from replay.report.futures import read_futures

            reports[0].futures = read_futures(futures)
        title = " against ".join(one.path for one in reports)
        write_page(out, page_of(reports, f"refold report: {title}"))
    bad = sum(one.severity == "bad" for each in reports for one in each.findings)
    count = sum(len(one.findings) for one in reports)
    typer.echo(f"{out}: {count} findings, {bad} of them bad")


def _read(path: str) -> "Report":
    from replay.logs.open_log import open_log
    from replay.report.building import report_of
    from replay.what_if.saved_run import log_of

    source = log_of(path)
    with progress() as show, open_log(source, show) as opened:
        if not opened.reader.last_seq:
            raise ReplayError(f"{path} has no events: there is nothing to report")
        found = report_of(opened, source, show)
        note_changed_commands("report", source, opened)
        return found
