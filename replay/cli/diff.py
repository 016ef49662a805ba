"""`refold diff`: compare the decisions of two versions of the code on the same logs."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from controller.cli.output import OutputFault
from replay.cli.exit_status import UNUSABLE, errors_in_one_line
from replay.cli.options import BrokerConfig, broker_settings
from replay.cli.progress import progress
from replay.diff.accepted import AcceptedChange, accept, read_accepted
from replay.diff.comparing import PATIENCE_S, Comparison, Group, compare
from replay.diff.logs import open_logs
from replay.diff.references import WORKING_TREE, cache_folder, find_version

_SAME, _DIFFERS = 0, 1


class DiffFormat(StrEnum):
    """The format of the report."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    GITHUB = "github"


class FailOn(StrEnum):
    """The differences for which the exit status is 1."""

    CHANGED = "changed"
    ANY = "any"
    UNCOVERED = "uncovered"
    UNDISTINGUISHED = "undistinguished"
    NONE = "none"


Jobs = Annotated[
    int | None,
    typer.Option(min=1, help="The number of processes, at least four; default: one per core."),
]
Patience = Annotated[
    float,
    typer.Option(
        min=1,
        metavar="SECONDS",
        help="Stop a version that stays at one event of a log for this time.",
    ),
]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="diff")
def diff_command(
    logs: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG",
            help="Logs of the daemon or imported logs, may be packed (.tar.xz); recordings as for"
            " refold import (folders or packed); incidents; or folders of these.",
        ),
    ],
    base: Annotated[
        str,
        typer.Option(
            metavar="REF",
            help="A git ref, working-tree, installed, a wheel, or a folder of the code.",
        ),
    ],
    head: Annotated[str, typer.Option(metavar="REF", help="As --base.")] = WORKING_TREE,
    as_format: Annotated[
        DiffFormat, typer.Option("--format", help="The format of the report.")
    ] = DiffFormat.TEXT,
    out: Annotated[
        Path | None, typer.Option(help="Write the report to this file, not to standard output.")
    ] = None,
    fail_on: Annotated[
        FailOn,
        typer.Option(
            help="Exit with 1 for: changed decisions; any difference, also harmless reorderings;"
            " uncovered: also changes that no log executes, and changed conditions with one"
            " outcome; undistinguished: also changes executed without a difference; or none."
        ),
    ] = FailOn.CHANGED,
    accepted: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Intended changes with their reasons (TOML)."),
    ] = None,
    broker_config: BrokerConfig = None,
    jobs: Jobs = None,
    patience: Patience = PATIENCE_S,
) -> None:
    """Fold each log with two versions of refold, and report the decisions that differ, with their
    rules, the first cause and the consequences. It ends with changes that no log executes or shows.

    Each version folds each log in two processes with different hash seeds, and the report names a
    version that does not agree with itself. After its first decision that is not in the log, a
    version continues in a simulated cluster. There the events of the cluster keep their times, and
    brokers answer as in the log, or with success. The report lists the assumptions.

    Exit status: 0 no decision differs, 1 decisions differ (see --fail-on) or a version does not
    agree with itself, 2 a version, a log or FILE cannot be used, or a version was stopped.
    """
    settings = broker_settings(broker_config)
    try:
        with errors_in_one_line("diff"):
            entries = read_accepted(accepted) if accepted is not None else []
            cache = cache_folder()
            versions = [find_version(one, Path(), cache) for one in (base, head)]
            with open_logs(logs) as found, progress(what=f"{len(found)} logs") as report:
                comparison = compare(
                    found, versions[0], versions[1], settings, report, jobs, cache, patience
                )
    except KeyboardInterrupt:
        raise typer.Exit(UNUSABLE) from None
    report_comparison(comparison, entries, as_format, out, fail_on)


def report_comparison(
    comparison: Comparison,
    accepted: Sequence[AcceptedChange] = (),
    as_format: DiffFormat = DiffFormat.TEXT,
    out: Path | None = None,
    fail_on: FailOn = FailOn.CHANGED,
) -> NoReturn:
    """Write the report, and exit with the status of the comparison."""
    accept(comparison, accepted)
    failing = comparison.unaccepted(with_harmless=fail_on is FailOn.ANY)
    uncovered = _coverage_failures(comparison, fail_on)
    with suppress(OutputFault):
        _write(_report(comparison, failing, uncovered, as_format), out)
    for text in comparison.errors:
        typer.echo(f"refold diff: {text}", err=True)
    raise typer.Exit(_exit_status(comparison, failing, uncovered, fail_on))


def _coverage_failures(comparison: Comparison, fail_on: FailOn) -> list[str]:
    """The changes without a difference that fail the comparison, as sentences."""
    from replay.diff.reports import sentences

    found: list[str] = []
    if fail_on in (FailOn.UNCOVERED, FailOn.UNDISTINGUISHED):
        found += map(sentences.never_executed, comparison.uncovered)
        found += map(sentences.with_one_outcome, comparison.one_sided)
        found += map(sentences.not_measured, comparison.unmeasured)
    if fail_on is FailOn.UNDISTINGUISHED:
        found += map(sentences.without_difference, comparison.undistinguished)
    return found


def _exit_status(
    comparison: Comparison, failing: list[Group], uncovered: list[str], fail_on: FailOn
) -> int:
    if comparison.errors:
        return UNUSABLE
    if fail_on is FailOn.NONE:
        return _SAME
    return _DIFFERS if failing or comparison.nondeterminism or uncovered else _SAME


def _report(
    comparison: Comparison, failing: list[Group], uncovered: list[str], as_format: DiffFormat
) -> str:
    if as_format is DiffFormat.JSON:
        from replay.diff.reports.as_json import as_json

        return as_json(comparison, failing)
    if as_format is DiffFormat.MARKDOWN:
        from replay.diff.reports.markdown import markdown

        return markdown(comparison)
    if as_format is DiffFormat.JUNIT:
        from replay.diff.reports.junit import junit

        return junit(comparison, failing, uncovered)
    if as_format is DiffFormat.GITHUB:
        from replay.diff.reports.github import github

        return github(comparison, failing)
    from replay.diff.reports.text import text

    return text(comparison)


def _write(report: str, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(report)
        return
    try:
        out.write_text(report, encoding="utf-8")
    except OSError as error:
        typer.echo(f"refold diff: {out} cannot be written: {error.strerror}", err=True)
        raise typer.Exit(UNUSABLE) from None
