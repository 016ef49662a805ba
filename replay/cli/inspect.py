"""`refold inspect`: the cluster at a moment of a log, or the changes between two moments."""

from typing import Annotated

import msgspec
import typer
from rich.table import Table

from controller.cli.output import print_result, print_table
from controller.core.values import format_brokers
from replay.cli.exit_status import errors_in_one_line
from replay.cli.inspect_tables import NOT_CONTROLLER, changes_table, heading, tables
from replay.cli.log_notes import note_changed_commands
from replay.cli.options import At, Json, Log, LogPosition, log_position, named_partition
from replay.cli.progress import progress
from replay.cli.single_options import SingleOptions
from replay.cluster_view.selecting import selected
from replay.cluster_view.views import ClusterView
from replay.errors import ReplayError
from replay.index.history import headline_by
from replay.index.opening import index_of
from replay.index.store import has_index
from replay.inspect.at import cluster_at
from replay.inspect.broker import InspectedBroker, broker_at, broker_changes
from replay.inspect.changes import Change, changes
from replay.logs.open_log import OpenedLog, open_any_log, seq_at
from replay.logs.opened_broker_log import BrokerLog
from replay.stock_clusters.imported_log.reading import ImportedLog, unfinished_notes
from replay.why.daemon_terms import events_to_choose

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="inspect", cls=SingleOptions)
def inspect(
    log: Log,
    at: At = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="SEQ|TIME", help="A later moment: show the changes between the two."),
    ] = None,
    topic: Annotated[str | None, typer.Option(metavar="T", help="Only this topic.")] = None,
    partition: Annotated[
        str | None, typer.Option(metavar="T-0", help="Only this partition.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show brokers, topics, partitions, reassignments, deletions, the controller and its running
    procedure at a moment of a log.

    The state of a recorded log is what its daemon knew. The state of an imported log is what
    ZooKeeper contained; the running procedure is unknown. The first call on a long log makes its
    index and snapshots, so that later calls are fast.

    Exit status: 0 done; 2 LOG cannot be used, or there is no such topic, partition or event.
    """
    name, named = named_partition(partition, "--partition"), partition or topic
    start, end = log_position(at, "--at"), log_position(to, "--to")
    with errors_in_one_line("inspect"), open_any_log(log, is_checked=has_index) as opened:
        if not isinstance(opened, BrokerLog):
            _inspect_cluster(opened, start, end, to, topic, name, as_json=as_json)
            note_changed_commands("inspect", log, opened)
            return
        moments = [start, end] if to is not None else [start]
        with progress() as report:
            views = [
                _with_replicas(broker_at(opened, seq_at(opened.reader, *one), report), named)
                for one in moments
            ]
        note_changed_commands("inspect", log, opened)
    if len(views) == 1:
        (view,) = views
        print_result(msgspec.to_builtins(view), lambda: _print_broker(view), as_json=as_json)
        return
    first, last = views
    if last.seq < first.seq:
        raise typer.BadParameter(f"{to} is before --at", param_hint="--to")
    found = broker_changes(first, last)
    result = {"from": first.seq, "to": last.seq, "changes": found}
    print_result(result, lambda: _print_changes(first, last, found), as_json=as_json)


def _with_replicas(view: InspectedBroker, named: str | None) -> InspectedBroker:
    """A broker with the replicas of a topic or partition; None: all."""
    shown = [one for one in view.replicas if named in (None, one.name, one.topic)]
    return msgspec.structs.replace(view, replicas=shown)


def _inspect_cluster(
    opened: OpenedLog,
    start: LogPosition,
    end: LogPosition,
    to: str | None,
    topic: str | None,
    name: tuple[str, int] | None,
    *,
    as_json: bool,
) -> None:
    with progress() as report, index_of(opened, report) as index:
        first = cluster_at(opened, seq_at(opened.reader, *start), report)
        last = cluster_at(opened, seq_at(opened.reader, *end), report) if to else None
        headline = headline_by(index, opened, first, report) if last is None else ""
        to_choose = events_to_choose(opened.reader, first)
        notes = unfinished_notes(opened) if isinstance(opened, ImportedLog) else []
    if last is not None and last.seq < first.seq:
        raise typer.BadParameter(f"{to} is before --at", param_hint="--to")
    topics = [] if topic is None else [topic]
    try:
        if last is None:
            first = selected(first, topics, name)
        else:
            last = selected(last, topics, name)
            first = selected(first, topics, name, is_required=False)
    except ReplayError as error:
        why = f". {NOT_CONTROLLER}: {to_choose}" if last is None and to_choose else ""
        raise ReplayError(f"{error}{why}") from None
    for note in notes:
        typer.echo(f"refold inspect: {note}", err=True)
    if last is None:
        print_result(
            {"headline": headline, **msgspec.to_builtins(first)},
            lambda: _print(first, headline, to_choose),
            as_json=as_json,
        )
        return
    found = changes(first, last)
    result = {"from": first.seq, "to": last.seq, "changes": found}
    print_result(result, lambda: _print_changes(first, last, found), as_json=as_json)


def _print_broker(broker: InspectedBroker) -> None:
    typer.echo(f"after event {broker.seq}, {broker.time}, log of a broker of the 0.8 design")
    session = "connected to ZooKeeper" if broker.is_connected else "not connected to ZooKeeper"
    typer.echo(f"broker {broker.broker}: {session}")
    if broker.running:
        typer.echo(f"procedure: {broker.running}")
    titles = ("replica", "role", "leader", "epoch", "hw", "leo", "ISR", "CUR", "RAR", "commitQ")
    table = Table(*titles)
    for one in broker.replicas:
        sets = [format_brokers(each) for each in (one.isr, one.cur, one.rar)]
        leader = "none" if one.leader < 0 else str(one.leader)
        numbers = map(str, (one.epoch, one.hw, one.leo))
        table.add_row(one.name, one.role, leader, *numbers, *sets, str(one.waiting_requests))
    if table.row_count:
        print_table(table)


def _print(cluster: ClusterView, headline: str, to_choose: str) -> None:
    lines = heading(cluster, to_choose)
    for line in [headline, *lines] if headline else lines:
        typer.echo(line)
    for table in tables(cluster):
        print_table(table)


def _print_changes(
    first: ClusterView | InspectedBroker, last: ClusterView | InspectedBroker, found: list[Change]
) -> None:
    typer.echo(
        f"from event {first.seq}, {first.time}, to event {last.seq}, {last.time}: "
        f"{len(found)} changes"
    )
    if found:
        print_table(changes_table(found))
