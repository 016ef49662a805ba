"""`refold agree`: compare a stock cluster's decisions with those that the fold derives."""

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path
from typing import Annotated, Final

import typer

from controller.cli.output import print_result
from eventstore.folders import segments_in
from replay.agreement.comparison import Rules, agree, imported
from replay.agreement.results import (
    AgreementResult,
    Divergence,
    Side,
    kinds_in_order,
)
from replay.agreement.search.event_order import RUNS_MAX
from replay.cli.exit_status import errors_in_one_line, unwound_by_sigterm
from replay.cli.import_source import UTC, Chroot, Zone, selection_of
from replay.cli.options import BrokerConfig, From, Json, To, broker_settings
from replay.cli.progress import progress
from replay.escape_path import escape_path

_AGREES, _DIVERGES, _INCOMPLETE = 0, 1, 3
_SHOWN: Final = 50
_FILES_SHOWN: Final = 10

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="agree")
def agree_command(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE|LOG",
            help="A folder, .tar, .tar.gz or .tar.xz as for refold import, or an imported log.",
        ),
    ],
    as_json: Json = False,
    rules: Annotated[
        Rules,
        typer.Option(help="Decide by Kafka's rules, or by refold's, which deviate from them."),
    ] = "kafka",
    broker_config: BrokerConfig = None,
    orders: Annotated[
        int,
        typer.Option(
            min=0, help="How many other event orders to try, at most, if a decision does not agree."
        ),
    ] = RUNS_MAX,
    chroot: Chroot = None,
    first: From = None,
    last: To = None,
    zone: Zone = UTC,
) -> None:
    """Derive the decisions of a stock cluster's controllers from the files of ZooKeeper and the
    brokers, and compare them with the decisions in these files.

    Exit status: 0 all decisions and requests agree or are explained; 1 a decision or request does
    not agree, or a transaction was changed; 2 SOURCE cannot be used; 3 all judged decisions and
    requests agree, but some could not be judged. The report has the reason: SOURCE is cut,
    transactions are out of order or missing, a term began earlier, or no log shows whether requests
    were sent.
    """
    selection = selection_of(chroot, first, last, zone)
    settings = broker_settings(broker_config)
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
            f"{source} is a log: these options are for refold import, which made it",
            param_hint=", ".join(of_source),
        )
    with errors_in_one_line("agree"), unwound_by_sigterm(), progress() as report:
        opened = nullcontext(source) if is_log else imported(source, selection, report)
        with opened as log:
            result = agree(log, rules, settings, report, orders)
    result.source = escape_path(source)
    print_result(result, lambda: _print(result), as_json=as_json)
    raise typer.Exit(_status(result))


def _status(result: AgreementResult) -> int:
    if not result.is_explained or result.altered:
        return _DIVERGES
    return _AGREES if result.is_whole else _INCOMPLETE


def _print(result: AgreementResult) -> None:
    for note in result.notes:
        typer.echo(note)
    _print_divergences(result.divergences)
    assumed = ", ".join(f"{key}={value}" for key, value in result.settings.items())
    typer.echo(f"broker settings: {assumed or 'unknown'}")
    typer.echo(
        f"decisions: {_counts(result)}; {result.warm} before the first election, "
        f"{result.inputs} inputs"
    )
    _print_kinds(result)
    if result.requests.decisions or result.requests.extra or result.requests.unjudged:
        unjudged = result.requests.unjudged
        more = f", {unjudged} cannot tell" if unjudged else ""
        typer.echo(f"requests to brokers: {_counts(result.requests)}{more}")
        _print_kinds(result.requests)
    typer.echo(f"{result.source}: {_verdict(result)}; {_judged(result)}{_damage(result)}")


def _verdict(result: AgreementResult) -> str:
    if not result.is_explained:
        return "does not agree"
    if result.altered:
        return f"altered: {result.altered} transactions were changed or repeated"
    if result.passed_over:
        return f"incomplete: {result.passed_over} transactions are out of order"
    if result.missing_transactions:
        return f"incomplete: {result.missing_transactions} transactions are missing"
    if result.is_cut:
        return "incomplete: the source is cut"
    if not (result.decisions or result.requests.decisions):
        return "nothing was judged"
    return "agrees" if result.is_whole else "agrees as far as judged"


def _judged(result: AgreementResult) -> str:
    """The numbers of decisions and requests that were judged, and that were not."""
    requests = result.requests
    text = f"judged: {result.decisions} decisions, {requests.decisions} requests"
    left = [f"{requests.unjudged} requests"] if requests.unjudged else []
    if result.warm:
        left.insert(0, f"{result.warm} decisions before the first election")
    return f"{text}; not judged: {', '.join(left)}" if left else text


def _damage(result: AgreementResult) -> str:
    """The damaged files, for the end of the line with the verdict."""
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
    """Print a request to several brokers once."""
    alike = groupby(
        divergences, key=lambda one: (one.batch_key, one.verdict, one.epoch, one.explained)
    )
    groups = [list(each) for _, each in alike]
    for first, *others in groups[:_SHOWN]:
        _print_divergence(first)
        for one in others:
            typer.echo(f"  also at {one.seq}: {'; '.join(one.differences)}")
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
        typer.echo(f"  the fold was processing {one.cause}, since {one.since}")
    _print_indented(one.between)


def _print_indented(texts: Sequence[str]) -> None:
    for text in texts:
        typer.echo(f"  {text}")
