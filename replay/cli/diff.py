"""`refold diff`: what two versions of the code decide otherwise on the same logs."""

import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.output import OutputFault
from eventstore.errors import LogError
from replay.cli.progress import progress
from replay.diff.accepted import accept, read_accepted
from replay.diff.comparing import Comparison, Group, compare
from replay.diff.logs import opened
from replay.diff.references import WORKING_TREE, cache_folder, find_version
from replay.errors import ReplayError

_SAME, _DIFFERS, _UNUSABLE = 0, 1, 2


class Format(StrEnum):
    """How it is told."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    GITHUB = "github"


class FailOn(StrEnum):
    """What makes the exit status 1."""

    CHANGED = "changed"
    ANY = "any"
    NONE = "none"


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="diff")
def diff_command(
    logs: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG...",
            help="Logs of the daemon or imported ones, packed ones (.tar.xz), recordings as for"
            " refold import (folders or packed), incidents, or folders of these.",
        ),
    ],
    base: Annotated[
        str,
        typer.Option(
            metavar="REF",
            help="A git ref, working-tree, installed, a wheel, or a folder with the code.",
        ),
    ],
    head: Annotated[str, typer.Option(metavar="REF", help="As --base.")] = WORKING_TREE,
    as_format: Annotated[Format, typer.Option("--format", help="How it is told.")] = Format.TEXT,
    out: Annotated[
        Path | None, typer.Option(help="A file for the report, instead of standard output.")
    ] = None,
    fail_on: Annotated[
        FailOn,
        typer.Option(help="changed: what differs in effect; any: another order, too; none."),
    ] = FailOn.CHANGED,
    accepted: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Changes that are wanted, with the reason (TOML)."),
    ] = None,
    broker_config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="A setting of an imported log's brokers, as for refold agree."
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes that fold at once; one a core if not set.")
    ] = None,
) -> None:
    """Fold each log by two versions of refold and tell which decisions differ, by which rule, with
    the first cause and what came of it.

    Each version runs in processes of its own. Where one asks for what is not in the log, it goes
    on in a world of its own: what happens to the cluster keeps its times, brokers answer as they
    did, or with success. What was supposed is printed. So it does with an imported log.

    Exit status: 0 the same, 1 decisions differ, 2 a version, a log or FILE cannot be used.
    """
    settings = dict(map(_setting, broker_config or ()))
    try:
        entries = read_accepted(accepted) if accepted is not None else []
        cache = cache_folder()
        versions = [find_version(one, Path(), cache) for one in (base, head)]
        with opened(logs) as found, progress(what=f"{len(found)} logs") as report:
            comparison = compare(found, versions[0], versions[1], settings, report, jobs)
    except (LogError, ReplayError) as error:
        typer.echo(f"refold diff: {error}", err=True)
        raise typer.Exit(_UNUSABLE) from None
    except KeyboardInterrupt:
        raise typer.Exit(_UNUSABLE) from None
    accept(comparison, entries)
    failing = comparison.left(with_harmless=fail_on is FailOn.ANY)
    text = _report(comparison, failing, as_format)
    with suppress(OutputFault):
        _write(text, out)
    for text in comparison.errors:
        typer.echo(f"refold diff: {text}", err=True)
    if comparison.errors:
        raise typer.Exit(_UNUSABLE)
    raise typer.Exit(_DIFFERS if failing and fail_on is not FailOn.NONE else _SAME)


def _setting(text: str) -> tuple[str, str]:
    key, is_pair, value = text.partition("=")
    if not is_pair or not key:
        raise typer.BadParameter(f"{text} is not KEY=VALUE", param_hint="--broker-config")
    return key.strip(), value.strip()


def _report(comparison: Comparison, failing: list[Group], as_format: Format) -> str:
    if as_format is Format.JSON:
        from replay.diff.reports.as_json import as_json

        return as_json(comparison, failing)
    if as_format is Format.MARKDOWN:
        from replay.diff.reports.markdown import markdown

        return markdown(comparison)
    if as_format is Format.JUNIT:
        from replay.diff.reports.junit import junit

        return junit(comparison, failing)
    if as_format is Format.GITHUB:
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
        raise typer.Exit(_UNUSABLE) from None
