"""`refold inspect`: the cluster at a moment of a log, or the changes between two moments."""

from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.table import Table

from controller.cli.output import print_result, print_table
from replay.cli.exit_status import errors_in_one_line
from replay.cli.log_notes import note_changed_commands
from replay.cli.options import At, Json, Log, LogPosition, log_position, named_partition
from replay.cli.progress import progress
from replay.cluster_view.selecting import selected
from replay.cluster_view.views import NO_BROKER, Cluster, PartitionView
from replay.description.phrases import session_name
from replay.inspect.at import cluster_at
from replay.inspect.broker import BrokerView, broker_at
from replay.inspect.changes import Change, changes
from replay.logs.open_log import OpenedLog, open_any_log, seq_at
from replay.logs.opened_broker_log import BrokerLog
from replay.stock_clusters.imported_log.reading import ImportedLog, unfinished_notes
from replay.why.headline import headline_of

_KINDS: Final = {"recorded": "recorded", "world-backed": "imported"}
"""The names that people read for the kinds of logs in headers."""
_CREATED_AND_REMOVED: Final = {
    "broker": ("registered", "unregistered"),
    "procedure": ("started", "ended"),
    "reassignment": ("started", "ended"),
    "deletion": ("started", "ended"),
}
"""The text that `--to` prints for a subject that is new, and for one that no longer exists."""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="inspect")
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
    ZooKeeper contained; the running procedure is unknown. The first call on a long log makes
    snapshots, so that later calls are fast.

    Exit status: 0 done, 2 LOG cannot be used, or there is no such partition.
    """
    name = named_partition(partition, "--partition")
    start, end = log_position(at, "--at"), log_position(to, "--to")
    with errors_in_one_line("inspect"), open_any_log(log) as opened:
        if not isinstance(opened, BrokerLog):
            _inspect_cluster(opened, start, end, to, topic, name, as_json=as_json)
            note_changed_commands("inspect", log, opened)
            return
        if to is not None:
            text = "changes between two moments are not shown for a log of the 0.8 design yet"
            raise typer.BadParameter(text, param_hint="--to")
        with progress() as report:
            broker = broker_at(opened, seq_at(opened.reader, *start), report)
        note_changed_commands("inspect", log, opened)
    named = partition or topic
    shown = [one for one in broker.replicas if named in (None, one.name, one.topic)]
    broker = msgspec.structs.replace(broker, replicas=shown)
    print_result(msgspec.to_builtins(broker), lambda: _print_broker(broker), as_json=as_json)


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
    with progress() as report:
        first = cluster_at(opened, seq_at(opened.reader, *start), report)
        last = cluster_at(opened, seq_at(opened.reader, *end), report) if to else None
        headline = headline_of(opened, first, report) if last is None else ""
        notes = unfinished_notes(opened) if isinstance(opened, ImportedLog) else []
    if last is not None and last.seq < first.seq:
        raise typer.BadParameter(f"{to} is before --at", param_hint="--to")
    if last is None:
        first = selected(first, topic, name)
    else:
        last = selected(last, topic, name)
        first = selected(first, topic, name, is_required=False)
    for note in notes:
        typer.echo(f"refold inspect: {note}", err=True)
    if last is None:
        print_result(
            {"headline": headline, **msgspec.to_builtins(first)},
            lambda: _print(first, headline),
            as_json=as_json,
        )
        return
    found = changes(first, last)
    result = {"from": first.seq, "to": last.seq, "changes": found}
    print_result(result, lambda: _print_changes(first, last, found), as_json=as_json)


def _print_broker(broker: BrokerView) -> None:
    typer.echo(f"after event {broker.seq}, {broker.time}, log of a broker of the 0.8 design")
    session = "connected to ZooKeeper" if broker.is_connected else "not connected to ZooKeeper"
    typer.echo(f"broker {broker.broker}: {session}")
    if broker.running:
        typer.echo(f"procedure: {broker.running}")
    titles = ("replica", "role", "leader", "epoch", "hw", "leo", "ISR", "CUR", "RAR", "commitQ")
    table = Table(*titles)
    for one in broker.replicas:
        sets = [",".join(map(str, each)) for each in (one.isr, one.cur, one.rar)]
        leader = "none" if one.leader < 0 else str(one.leader)
        numbers = map(str, (one.epoch, one.hw, one.leo))
        table.add_row(one.name, one.role, leader, *numbers, *sets, str(one.waiting_requests))
    if table.row_count:
        print_table(table)


def _print(cluster: Cluster, headline: str) -> None:
    if headline:
        typer.echo(headline)
    typer.echo(f"after event {cluster.seq}, {cluster.time}, {_KINDS[cluster.log]} log")
    typer.echo(f"controller: {_controller(cluster)}")
    if cluster.controller.role == "standby":
        typer.echo("A standby daemon knows nothing of the cluster: choose an earlier moment.")
    if cluster.procedure is not None:
        one = cluster.procedure
        typer.echo(f"procedure: {one.name} since event {one.since}, {one.rule}: {one.asked}")
    if cluster.queued:
        typer.echo(f"queued: {', '.join(cluster.queued)}")
    if cluster.requests:
        typer.echo(f"unanswered: {', '.join(cluster.requests)}")
    for table in _tables(cluster):
        if table.row_count:
            print_table(table)


def _controller(cluster: Cluster) -> str:
    one = cluster.controller
    session = session_name(one.session)
    if one.broker == NO_BROKER:
        return f"{'none' if one.role == 'observed' else one.role}, {session}"
    role = "" if one.role == "observed" else f", {one.role}"
    return f"broker {one.broker}, epoch {one.epoch}{role}, {session}"


def _tables(cluster: Cluster) -> Iterator[Table]:
    brokers = Table(
        "id", "epoch", "endpoints", "rack", "status", title="brokers", title_justify="left"
    )
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
            waits = f"{move.status}: new replicas {_ids(move.becoming)}"
        moves.add_row(move.partition, _ids(move.origin), _ids(move.target), waits)
    yield moves
    deletions = Table(
        "topic", "status", "offline brokers", "waits for", title="deletions", title_justify="left"
    )
    for deletion in cluster.deletions:
        offline, waits_for = _ids(deletion.offline_brokers), _ids(deletion.waits_for)
        deletions.add_row(deletion.topic, deletion.status, offline, waits_for)
    yield deletions
    yield _replica_deletions(cluster)


def _replica_deletions(cluster: Cluster) -> Table:
    table = Table(
        "partition", "broker", "waits for", title="deletions of replicas", title_justify="left"
    )
    for one in cluster.replica_deletions:
        waits = "the broker's confirmation" if one.is_live else "the broker, which is not alive"
        table.add_row(one.partition, str(one.broker), waits)
    return table


def _partitions(cluster: Cluster) -> Table:
    table = Table(
        "partition",
        "status",
        "leader",
        "leader\nepoch",
        "ISR",
        "replicas",
        "adding",
        "removing",
        "offline",
        "partition\nepoch",
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


def _print_changes(first: Cluster, last: Cluster, found: list[Change]) -> None:
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
        return one.what, _value_of(one.what, one.before), _value_of(one.what, one.after)
    came, went = _CREATED_AND_REMOVED.get(one.subject.split()[0], ("created", "removed"))
    return (came, "", _value(one.after)) if one.before is None else (went, "", "")


def _value_of(field: str, value: Any) -> str:
    return "none" if field == "leader" and value == NO_BROKER else _value(value)


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        shown = {key: each for key, each in value.items() if each not in (None, [], (), {}, "")}
        return ", ".join(f"{key} {_value(each)}" for key, each in shown.items())
    return "" if value is None else str(value)
