"""`refold inspect`: the cluster at a moment of a log, or what changed between two."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.table import Table

from controller.cli.output import OutputFault, print_table
from eventstore.errors import LogError
from replay.cli.moments import moment
from replay.cli.progress import progress
from replay.cli.subjects import partition as named_partition
from replay.cluster_view.selecting import selected
from replay.cluster_view.views import NO_BROKER, Cluster, PartitionView
from replay.errors import ReplayError
from replay.inspect.at import cluster_at
from replay.inspect.changes import Change, changes
from replay.logs.open_log import open_log, seq_at
from replay.stock_clusters.imported_log.reading import ImportedLog, unfinished_notes

_UNUSABLE: Final = 2

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="inspect")
def inspect(
    log: Annotated[
        str,
        typer.Argument(
            metavar="LOG",
            help='A log of the daemon or an imported one, also packed, an incident, or "-".',
        ),
    ],
    at: Annotated[
        str | None,
        typer.Option(metavar="SEQ|TIME", help="The moment; the end of the log if none is given."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="SEQ|TIME", help="A later moment: show what changed up to it."),
    ] = None,
    topic: Annotated[str | None, typer.Option(metavar="T", help="This topic only.")] = None,
    partition: Annotated[
        str | None, typer.Option(metavar="T-0", help="This partition only.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show brokers, topics, partitions, reassignments, deletions, the controller and the procedure
    that runs, as they are after the event of a moment.

    A recorded log's state is what its daemon knew; an imported one's is what stood in ZooKeeper,
    what its controller worked at is not known. In a long log the first call makes snapshots; then
    any moment opens at once.

    Exit status: 0 done, 2 LOG cannot be used, or there is no such partition.
    """
    name = named_partition(partition, "--partition")
    start, end = moment(at, "--at"), moment(to, "--to")
    try:
        with open_log(log) as opened, progress() as report:
            first = cluster_at(opened, seq_at(opened.reader, *start), report)
            last = cluster_at(opened, seq_at(opened.reader, *end), report) if to else None
            notes = unfinished_notes(opened) if isinstance(opened, ImportedLog) else []
        if last is not None and last.seq < first.seq:
            raise typer.BadParameter(f"{to} is before --at", param_hint="--to")
        if last is None:
            first = selected(first, topic, name)
        else:
            last = selected(last, topic, name)
            first = selected(first, topic, name, is_required=False)
    except (LogError, ReplayError) as error:
        typer.echo(f"refold inspect: {error}", err=True)
        raise typer.Exit(_UNUSABLE) from None
    for note in notes:
        typer.echo(f"refold inspect: {note}", err=True)
    with suppress(OutputFault):
        if last is None:
            _show(first, as_json)
        else:
            _show_changes(first, last, as_json)


def _show(cluster: Cluster, as_json: bool) -> None:
    if as_json:
        typer.echo(msgspec.json.encode(cluster).decode())
        return
    typer.echo(f"after event {cluster.seq}, {cluster.time}, {cluster.log} log")
    typer.echo(f"controller: {_controller(cluster)}")
    if cluster.controller.role == "standby":
        typer.echo("While it is not controller the daemon knows nothing: see an earlier moment.")
    if cluster.procedure is not None:
        one = cluster.procedure
        typer.echo(f"procedure: {one.name} since event {one.since}, at {one.rule}: {one.asked}")
    if cluster.queued:
        typer.echo(f"waiting: {', '.join(cluster.queued)}")
    if cluster.requests:
        typer.echo(f"not answered yet: {', '.join(cluster.requests)}")
    for table in _tables(cluster):
        if table.row_count:
            print_table(table)


def _controller(cluster: Cluster) -> str:
    one = cluster.controller
    session = f"session 0x{one.session & (2**64 - 1):x}"
    if one.broker == NO_BROKER:
        return f"{'nobody' if one.role == 'observed' else one.role}, {session}"
    role = "" if one.role == "observed" else f", {one.role}"
    return f"broker {one.broker}, epoch {one.epoch}{role}, {session}"


def _tables(cluster: Cluster) -> Iterator[Table]:
    brokers = Table("id", "epoch", "endpoints", "rack", "", title="brokers", title_justify="left")
    for broker in cluster.brokers:
        state = "shutting down" if broker.is_shutting_down else ""
        endpoints = ", ".join(broker.endpoints)
        brokers.add_row(str(broker.id), str(broker.epoch), endpoints, broker.rack or "", state)
    yield brokers
    yield _partitions(cluster)
    moves = Table(
        "partition", "from", "to", "waits for", title="reassignments", title_justify="left"
    )
    for move in cluster.reassignments:
        waits = ", ".join(f"{broker}: {why}" for broker, why in move.waits_for.items())
        if move.becoming:
            waits = f"is {move.course}: gets {_ids(move.becoming)}"
        moves.add_row(move.partition, _ids(move.origin), _ids(move.target), waits)
    yield moves
    deletions = Table(
        "topic", "", "offline brokers", "waits for", title="deletions", title_justify="left"
    )
    for deletion in cluster.deletions:
        offline, waits_for = _ids(deletion.offline_brokers), _ids(deletion.waits_for)
        deletions.add_row(deletion.topic, deletion.status, offline, waits_for)
    yield deletions


def _partitions(cluster: Cluster) -> Table:
    table = Table(
        "partition",
        "",
        "leader",
        "leader epoch",
        "ISR",
        "replicas",
        "adding",
        "removing",
        "offline",
        "version",
        title="partitions",
        title_justify="left",
    )
    for one in cluster.partitions():
        table.add_row(*_row(one))
    return table


def _row(one: PartitionView) -> list[str]:
    has_state = one.leader_epoch != NO_BROKER
    return [
        one.name,
        one.status + (", recovering" if one.is_recovering else ""),
        "none" if one.leader == NO_BROKER else str(one.leader),
        str(one.leader_epoch) if has_state else "",
        _ids(one.isr),
        _ids(one.replicas),
        _ids(one.adding),
        _ids(one.removing),
        _ids(one.offline_replicas),
        str(one.partition_epoch) if has_state else "",
    ]


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))


def _show_changes(first: Cluster, last: Cluster, as_json: bool) -> None:
    found = changes(first, last)
    if as_json:
        whole = {"from": first.seq, "to": last.seq, "changes": found}
        typer.echo(msgspec.json.encode(whole).decode())
        return
    typer.echo(
        f"from event {first.seq}, {first.time}, to event {last.seq}, {last.time}: "
        f"{len(found)} changes"
    )
    table = Table("subject", "what", "before", "after")
    for one in found:
        table.add_row(one.subject, *_change(one))
    if found:
        print_table(table)


def _change(one: Change) -> tuple[str, str, str]:
    if one.what:
        return one.what, _value(one.before), _value(one.after)
    return ("is new", "", _value(one.after)) if one.before is None else ("is gone", "", "")


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        shown = {key: each for key, each in value.items() if each not in (None, [], (), {}, "")}
        return ", ".join(f"{key} {_value(each)}" for key, each in shown.items())
    return "" if value is None else str(value)
