"""`refold fleet replay` and `refold fleet divergences`: fold a table's logs with other versions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from controller.cli.output import print_result, print_table
from controller.escaping import escape_unprintable
from replay.cli.fleet.completeness import INCOMPLETE, print_incomplete
from replay.cli.fleet.options import (
    Conf,
    Master,
    Table,
    fleet_errors,
    settings_of,
    task_progress,
)
from replay.cli.options import Json

if TYPE_CHECKING:
    from replay.fleet.replaying.divergence_list import ListedDivergence
    from replay.fleet.replaying.summary import ReplayResult

_PATIENCE_S: Final = 600.0
_SPLIT_EVENTS: Final = 500_000
_RULES_SHOWN: Final = 40


def replay(
    table: Table,
    versions: Annotated[
        str,
        typer.Option(
            metavar="A,B,C",
            help="Each a git ref, working-tree, installed, a wheel, or a folder of the code.",
        ),
    ],
    patience: Annotated[
        float,
        typer.Option(
            min=1, metavar="SECONDS", help="Stop a version that makes no progress for this time."
        ),
    ] = _PATIENCE_S,
    split_above: Annotated[
        int,
        typer.Option(min=1, metavar="EVENTS", help="Split longer logs at their segments."),
    ] = _SPLIT_EVENTS,
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Fold each log with each version, and compare decisions.

    Results are stored in DIR/replays and are not derived again; `refold fleet divergences` lists
    them. The command can be killed at any time: run it again. A log that a version cannot fold is
    reported with the reason, and tried again at the next call.

    Exit status: 0 done, with or without differences; 1 a log could not be replayed or is
    incomplete, or an input is set aside; 2 a version, DIR or Spark cannot be used.
    """
    settings = settings_of(conf)
    with fleet_errors("replay", into=table / "replays"):
        from replay.fleet.replaying.replay import replay as fold_all
        from replay.fleet.replaying.versions import find_versions
        from replay.fleet.session import spark_session
        from replay.fleet.table import check_table

        check_table(table)
        with task_progress() as progress:
            progress("finding versions", 0, None)
            found = find_versions(versions.split(","))
            progress("starting Spark", 0, None)
            with spark_session(master, settings, is_brief=True) as spark:
                result = fold_all(
                    spark, table, found, progress, patience_s=patience, split_events=split_above
                )
    print_result(result, lambda: print_replayed(result), as_json=as_json)
    if result.failed or result.incomplete or result.set_aside:
        raise typer.Exit(INCOMPLETE)


def divergences(
    table: Table,
    version: Annotated[
        str | None, typer.Option(help="Only of this version, by its name in `replay`.")
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(help="Only divergences of this rule, and those that follow from them."),
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Only of this cluster.")] = None,
    log: Annotated[str | None, typer.Option(help="Only in this log.")] = None,
    partition: Annotated[
        str | None, typer.Option(metavar="T-0", help="Only about this partition.")
    ] = None,
    seq: Annotated[int | None, typer.Option(help="Only at this event.")] = None,
    with_harmless: Annotated[
        bool, typer.Option("--all", help="Include harmless and explained divergences.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="The maximum number of divergences.")] = 20,
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """List the divergences that replays found.

    A divergence has the event, the decision of the log, and the decision of the version.

    Exit status: 0 done, 2 DIR or Spark cannot be used.
    """
    settings = settings_of(conf)
    with fleet_errors("divergences", "run the command again"):
        from replay.fleet.replaying.divergence_list import DivergenceFilter, list_divergences
        from replay.fleet.replaying.results import check_replays
        from replay.fleet.session import spark_session

        check_replays(table)
        criteria = DivergenceFilter(version, rule, cluster, log, partition, seq, with_harmless)
        with spark_session(master, settings, is_brief=True) as spark:
            count, found = list_divergences(spark, table, criteria, limit)
    result = {"count": count, "divergences": found}
    print_result(result, lambda: _list(count, found), as_json=as_json)


def print_replayed(result: "ReplayResult") -> None:
    """Print what is missing or failed, and a table of versions and one of their rules."""
    from rich.markup import escape
    from rich.table import Table as Grid

    print_incomplete(result.examples, result.set_aside, result.incomplete_logs, result.incomplete)
    for one in result.failures:
        where = f"cluster {escape_unprintable(one.cluster)}, log {one.log}"
        typer.echo(f"failed: {where}, version {one.version}: {one.reason}")
    if result.failed > len(result.failures):
        typer.echo(f"failed: {result.failed - len(result.failures)} more")
    versions = Grid(
        "version", "logs", "failed", "decisions", "agreed", "divergences", "harmless", "explained",
        "unjudged", "logs left", title="versions", title_justify="left",
    )  # fmt: skip
    for of in result.versions:
        counts = (of.logs, of.failed, of.decisions, of.agreed, of.divergences, of.harmless)
        more = (of.explained, of.unjudged, of.left)
        name = escape(escape_unprintable(f"{of.version} ({of.code})"))
        versions.add_row(name, *map(str, (*counts, *more)))
    print_table(versions)
    for of in result.versions:
        if of.incomplete:
            typer.echo(
                f"{of.version}: {of.decisions_of_incomplete} of {of.decisions} decisions are from"
                f" {of.incomplete} incomplete logs"
            )
        if of.uncompared:
            typer.echo(
                f"{of.version} is too old to report agreement with stock clusters' logs:"
                f" {of.uncompared} are not counted"
            )
    if result.rules:
        rules = Grid(
            "version", "rule", "cluster", "logs", "decisions", "agreed", "divergences", "first",
            "following", "one of them", title="rules", title_justify="left",
        )  # fmt: skip
        for rule in result.rules[:_RULES_SHOWN]:
            decided = (rule.logs, rule.decisions, rule.agreed)
            sizes = map(str, (*decided, rule.divergences, rule.first, rule.following))
            place = "" if rule.log is None else f"{rule.log} event {rule.seq}"
            names = (rule.version, rule.rule or "(none)", rule.cluster)
            rules.add_row(*(escape(escape_unprintable(name)) for name in names), *sizes, place)
        print_table(rules)
        if result.all_rules > _RULES_SHOWN:
            typer.echo(
                f"... and {result.all_rules - _RULES_SHOWN} more rows with fewer divergences;"
                " replay.fleet.replaying.results.by_rule reads all"
            )
    added = "nothing new" if result.batch is None else f"batch {result.batch}"
    typer.echo(
        f"{result.table}: {result.todo} logs replayed by a version, {added},"
        f" {result.failed} failed; {result.seconds:.1f} s"
    )


def _list(count: int, found: "Sequence[ListedDivergence]") -> None:
    for one in found:
        about = f" ({', '.join(one.partitions)})" if one.partitions else ""
        typer.echo(
            f"cluster {escape_unprintable(one.cluster)}, log {one.log}, event {one.seq} "
            f"at {one.time}, version {one.version}:"
        )
        typer.echo(f"  {one.what} {one.kind} {one.target}{about}, by {one.rule or 'no rule'}")
        if not one.is_first:
            typer.echo(f"  follows from {one.first_rule} at event {one.first_seq}")
        for part in one.differences:
            typer.echo(f"  {part.part}: {part.recorded} in the log, {part.version} by the version")
        for text in one.details:
            typer.echo(f"  {text}")
        if one.explained:
            typer.echo(f"  explained by {one.explained}")
    if count > len(found):
        typer.echo(f"... and {count - len(found)} more; use more options, or --limit")
    if not count:
        typer.echo("no divergence")
