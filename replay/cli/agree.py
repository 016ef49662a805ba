"""`refold agree`: whether a stock cluster's controller decided as the fold does."""

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path
from typing import Annotated, Final

import typer

from controller.cli.output import print_result
from eventstore.errors import LogError
from eventstore.folders import segments_in
from replay.cli.ending import unwound_by_sigterm
from replay.cli.import_source import UTC, Chroot, Zone, selection_of
from replay.cli.moments import From, To
from replay.cli.progress import progress
from replay.errors import ReplayError
from replay.escape_path import escape_path
from replay.stock_clusters.agreement.comparison import Rules, agree, imported
from replay.stock_clusters.agreement.results import (
    AgreementResult,
    Divergence,
    Side,
    kinds_in_order,
)
from replay.stock_clusters.agreement.search.event_order import RUNS_MAX

_AGREES, _DIVERGES, _UNUSABLE = 0, 1, 2
_SHOWN: Final = 50
_FILES_SHOWN: Final = 10

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="agree")
def agree_command(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE|LOG",
            help="A folder, .tar.gz or .tar.xz as for refold import, or a log that it made.",
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    rules: Annotated[
        Rules, typer.Option(help="The rules to decide by; refold's say what it does better.")
    ] = "kafka",
    broker_config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="A setting of the brokers that changes decisions and is in no log, as"
            " unclean.leader.election.enable=true. May be given several times.",
        ),
    ] = None,
    orders: Annotated[
        int,
        typer.Option(
            min=0, help="How many other orders are tried, at most, where something does not agree."
        ),
    ] = RUNS_MAX,
    chroot: Chroot = None,
    first: From = None,
    last: To = None,
    zone: Zone = UTC,
) -> None:
    """Derive the decisions of a stock cluster's controllers from what ZooKeeper and the brokers
    kept, and compare them with what was decided.

    Exit status: 0 all decisions and requests agree or are explained, 1 some do not, or
    transactions are out of order or missing, or SOURCE is cut, 2 SOURCE cannot be used.
    """
    selection = selection_of(chroot, first, last, zone)
    settings = dict(map(_setting, broker_config or ()))
    is_log = source.is_dir() and bool(segments_in(source))
    given = {
        "--chroot": chroot,
        "--from": first,
        "--to": last,
        "--zone": zone if zone != UTC else None,
    }
    of_source = [name for name, value in given.items() if value is not None]
    if is_log and of_source:
        raise typer.BadParameter(
            f"{source} is a log: what of a source is imported was chosen when it was made",
            param_hint=", ".join(of_source),
        )
    try:
        with unwound_by_sigterm(), progress() as report:
            opened = nullcontext(source) if is_log else imported(source, selection, report)
            with opened as log:
                result = agree(log, rules, settings, report, orders)
    except (LogError, ReplayError) as error:
        typer.echo(f"refold agree: {error}", err=True)
        raise typer.Exit(_UNUSABLE) from None
    result.source = escape_path(source)
    print_result(result, lambda: _print(result), as_json=as_json)
    raise typer.Exit(_AGREES if result.agrees else _DIVERGES)


def _setting(text: str) -> tuple[str, str]:
    key, is_pair, value = text.partition("=")
    if not is_pair or not key:
        raise typer.BadParameter(f"{text} is not KEY=VALUE", param_hint="--broker-config")
    return key.strip(), value.strip()


def _print(result: AgreementResult) -> None:
    for note in result.notes:
        typer.echo(note)
    _print_divergences(result.divergences)
    assumed = ", ".join(f"{key}={value}" for key, value in result.settings.items())
    typer.echo(f"settings of the brokers: {assumed or 'no controller shows any'}")
    typer.echo(
        f"decisions: {_counts(result)}; {result.warm} before the first election, "
        f"{result.inputs} were asked for"
    )
    _print_kinds(result)
    if result.requests.decisions or result.requests.extra or result.requests.unjudged:
        unjudged = result.requests.unjudged
        more = f"; {unjudged} more cannot be judged" if unjudged else ""
        typer.echo(f"requests to brokers: {_counts(result.requests)}{more}")
        _print_kinds(result.requests)
    typer.echo(f"{result.source}: {_verdict(result)}{_damage(result)}")


def _verdict(result: AgreementResult) -> str:
    requests = result.requests
    if not (result.decisions or result.extra or requests.decisions or requests.extra):
        return "nothing was judged"
    if not result.is_explained:
        return "does not agree"
    if result.passed_over:
        return f"not all was judged, {result.passed_over} transactions are out of order"
    if result.missing_transactions:
        return f"not all was judged, {result.missing_transactions} transactions are missing"
    if result.altered:
        return f"not all is as it was, {result.altered} transactions were changed or come again"
    if result.is_cut:
        return "not all was judged, the source is cut"
    return "agrees"


def _damage(result: AgreementResult) -> str:
    """What of the source could not be used, behind the verdict."""
    if not result.damaged:
        return ""
    files = [f"{count} in {name}" for name, count in result.damaged.items()]
    shown, left = files[:_FILES_SHOWN], len(files) - _FILES_SHOWN
    more = f" and {left} more files" if left > 0 else ""
    return f"; damaged lines, transactions or snapshots: {', '.join(shown)}{more}"


def _counts(side: Side) -> str:
    explained = sum(len(one.zxids) for one in side.explained)
    text = (
        f"{side.decisions}, {side.agreed} agreed, {side.differs} differ, {side.missing} missing,"
        f" {side.extra} extra"
    )
    return f"{text}, {explained} of these explained" if explained else text


def _print_kinds(side: Side) -> None:
    for kind, one in kinds_in_order(side):
        diverging = ""
        if one.diverging:
            diverging = f" ({one.differs} differ, {one.missing} missing, {one.extra} extra)"
        typer.echo(f"  {kind}: {one.agreed} agreed{diverging}")


def _print_divergences(divergences: Sequence[Divergence]) -> None:
    """A request to several brokers once."""
    alike = groupby(
        divergences, key=lambda one: (one.batch_key, one.verdict, one.epoch, one.explained)
    )
    groups = [list(each) for _, each in alike]
    for first, *others in groups[:_SHOWN]:
        _print_divergence(first)
        for one in others:
            typer.echo(f"  so at {one.seq}: {'; '.join(one.differences)}")
    left = sum(map(len, groups[_SHOWN:]))
    if left:
        typer.echo(f"... and {left} more; --json lists all")


def _print_divergence(one: Divergence) -> None:
    explained = f", explained by {one.explained}" if one.explained else ""
    zxid = f" zxid {one.zxid:#x}" if one.zxid else ""
    what = " ".join(one.paths)
    typer.echo(
        f"{one.verdict} {one.kind} at {one.seq}{zxid}, broker {one.broker} epoch {one.epoch}"
        f"{explained}: {what}".rstrip(": ")
    )
    _print_indented(one.differences)
    if one.cause:
        typer.echo(f"  the fold was at {one.cause}, since {one.since}")
    _print_indented(one.between)


def _print_indented(texts: Sequence[str]) -> None:
    for text in texts:
        typer.echo(f"  {text}")
