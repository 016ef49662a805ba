"""The cluster as lines and tables, for `refold inspect` and `refold debug`."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from controller.core.values import format_brokers
from replay.cluster_view.views import NO_BROKER, ClusterView, PartitionView
from replay.description.phrases import session_name
from replay.inspect.changes import Change
from replay.names import broker_name

Changed = Collection[tuple[str, str]]
"""Fields that changed, each as the subject and the field of a `Change`."""

_KINDS: Final = {"recorded": "recorded", "world-backed": "imported"}
"""The names that people read for the kinds of logs in headers."""
_CREATED_AND_REMOVED: Final = {
    "broker": ("registered", "unregistered"),
    "procedure": ("started", "ended"),
    "reassignment": ("started", "ended"),
    "deletion": ("started", "ended"),
    "replica": ("started", "closed"),
}
"""The text that `--to` prints for a subject that is new, and for one that no longer exists."""

_HIGHLIGHT: Final = "bold reverse"
_PARTITION_FIELDS: Final = (
    "",
    "status",
    "leader",
    "leader_epoch",
    "isr",
    "replicas",
    "adding",
    "removing",
    "offline_replicas",
    "partition_epoch",
)
NOT_CONTROLLER: Final = "The daemon is not the controller, so its log does not show the cluster"
_BROKER_FIELDS: Final = ("", "epoch", "endpoints", "rack", "is_shutting_down")


def heading(cluster: ClusterView, to_choose: str = "") -> Iterator[str]:
    """The controller and what it does, in lines. `to_choose` are the `events_to_choose`."""
    yield f"after event {cluster.seq}, {cluster.time}, {_KINDS[cluster.log]} log"
    yield f"controller: {_controller(cluster)}"
    if to_choose:
        yield f"{NOT_CONTROLLER}: {to_choose}."
    if cluster.procedure is not None:
        one = cluster.procedure
        yield f"procedure: {one.name} since event {one.since}, {one.rule}: {one.asked}"
    if cluster.queued:
        yield f"queued: {', '.join(cluster.queued)}"
    if cluster.requests:
        yield f"unanswered: {', '.join(cluster.requests)}"


def tables(
    cluster: ClusterView, changed: Changed = (), partitions_max: int | None = None
) -> Iterator[Table]:
    """The tables that have rows. Fields that changed are highlighted, and with `partitions_max` the
    partitions of changed fields come first."""
    for table in _tables(cluster, changed, partitions_max):
        if table.row_count:
            yield table


def changes_table(found: Sequence[Change]) -> Table:
    """A table of changes."""
    table = Table("subject", "what", "before", "after")
    for one in found:
        table.add_row(one.subject, *_change(one))
    return table


def _highlighted_row(
    subject: str, row: Sequence[str], fields: Sequence[str], changed: Changed
) -> list[str | Text]:
    """A row, in which the fields that changed, or all of a new subject, are highlighted."""
    is_new = (subject, "") in changed
    return [
        Text(text, style=_HIGHLIGHT) if is_new or (field and (subject, field) in changed) else text
        for text, field in zip(row, fields, strict=True)
    ]


def _controller(cluster: ClusterView) -> str:
    one = cluster.controller
    session = session_name(one.session)
    if one.broker == NO_BROKER:
        return f"{'none' if one.role == 'observed' else one.role}, {session}"
    role = "" if one.role == "observed" else f", {one.role}"
    return f"{one.name}, epoch {one.epoch}{role}, {session}"


def _tables(cluster: ClusterView, changed: Changed, partitions_max: int | None) -> Iterator[Table]:
    brokers = Table(
        "id", "epoch", "endpoints", "rack", "status", title="brokers", title_justify="left"
    )
    for broker in cluster.brokers:
        state = "shutting down" if broker.is_shutting_down else ""
        endpoints = ", ".join(broker.endpoints)
        row = [str(broker.id), str(broker.epoch), endpoints, broker.rack or "", state]
        brokers.add_row(*_highlighted_row(broker_name(broker.id), row, _BROKER_FIELDS, changed))
    yield brokers
    yield _partitions(cluster, changed, partitions_max)
    moves = Table(
        "partition", "from", "to", "waits for", title="reassignments", title_justify="left"
    )
    for move in cluster.reassignments:
        waits = ", ".join(f"{broker}: {why}" for broker, why in move.waits_for.items())
        if move.becoming:
            waits = f"{move.status}: new replicas {format_brokers(move.becoming)}"
        origin, target = format_brokers(move.origin), format_brokers(move.target)
        moves.add_row(move.partition, origin, target, waits)
    yield moves
    deletions = Table(
        "topic", "status", "offline brokers", "waits for", title="deletions", title_justify="left"
    )
    for deletion in cluster.deletions:
        offline = format_brokers(deletion.offline_brokers)
        waits_for = format_brokers(deletion.waits_for)
        deletions.add_row(deletion.topic, deletion.status, offline, waits_for)
    yield deletions
    yield _replica_deletions(cluster)


def _replica_deletions(cluster: ClusterView) -> Table:
    table = Table(
        "partition", "broker", "waits for", title="deletions of replicas", title_justify="left"
    )
    for one in cluster.replica_deletions:
        waits = "the broker's confirmation" if one.is_live else "the broker, which is not alive"
        table.add_row(one.partition, str(one.broker), waits)
    return table


def _partitions(cluster: ClusterView, changed: Changed, partitions_max: int | None) -> Table:
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
    shown = cluster.partitions()
    if partitions_max is not None:
        subjects = {subject for subject, _ in changed}
        # A stable sort: the rest stays in order.
        shown.sort(key=lambda one: f"partition {one.name}" not in subjects)
        if len(shown) > partitions_max:
            table.caption = f"{len(shown) - partitions_max} more partitions: set a filter"
        shown = shown[:partitions_max]
    for one in shown:
        row = _row(one)
        table.add_row(*_highlighted_row(f"partition {one.name}", row, _PARTITION_FIELDS, changed))
    return table


def _row(one: PartitionView) -> list[str]:
    has_state = one.leader_epoch != NO_BROKER
    return [
        one.name,
        one.status + (", recovering" if one.is_recovering else ""),
        "none" if one.leader == NO_BROKER else str(one.leader),
        str(one.leader_epoch) if has_state else "",
        format_brokers(one.isr),
        format_brokers(one.replicas),
        format_brokers(one.adding),
        format_brokers(one.removing),
        format_brokers(one.offline_replicas),
        str(one.partition_epoch) if has_state else "",
    ]


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
