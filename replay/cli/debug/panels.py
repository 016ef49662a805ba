"""The panels of the debugger: the line above the events, an event, the state, the decisions."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from replay.cli.debug.session import DebugView
from replay.cli.decisions import decision_lines
from replay.cli.inspect_tables import changes_table, heading, tables
from replay.cli.why_report import link_lines
from replay.cluster_view.selecting import selected
from replay.cluster_view.views import ClusterView
from replay.debug.conditions import EventCondition
from replay.debug.cursor import Cursor
from replay.debug.event_view import EventView
from replay.errors import ReplayError
from replay.names import is_broker, partition_named
from replay.times import nanoseconds_of
from replay.why.explanations.explanation import Explanation

_PARTITIONS_MAX: Final = 200
_DECISION, _BEGIN, _STOP, _NONE = "◆", "▶", "●", " "
_STYLES: Final = {_DECISION: "bold cyan", _BEGIN: "bold green", _STOP: "bold red"}


def event_line(one: EventView, start: str, stops: Sequence[EventCondition]) -> Text:
    """An event in the list: marks for a breakpoint, a procedure that begins and a decision, the
    number, the time since the log began, the text."""
    marks = (
        _STOP if any(not each.is_of_state and each.holds(one) for each in stops) else _NONE,
        _BEGIN if one.begun else _NONE,
        _DECISION if one.decided else _NONE,
    )
    line = Text(no_wrap=True, overflow="ellipsis")
    for mark in marks:
        line.append(mark, style=_STYLES.get(mark, ""))
    seconds = (nanoseconds_of(one.listed.time) - nanoseconds_of(start)) / 1e9
    line.append(f"{one.seq:>7}", style="bold")
    line.append(f" {seconds:>9.3f} ", style="dim")
    line.append(one.listed.text)
    return line


def position_line(log: str, view: DebugView, cursor: Cursor) -> Text:
    """The log, the position, the filter and the breakpoints."""
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"event {cursor.seq}", style="bold")
    line.append(f" of {cursor.last_seq}  {view.event.listed.time}  term {view.event.listed.term}")
    if cursor.filter:
        line.append("  filter: ")
        line.append(cursor.filter, style="bold yellow")
    if cursor.breakpoints:
        line.append("  breakpoints: ")
        line.append(", ".join(map(str, cursor.breakpoints)), style="bold red")
    line.append(f"  {log}", style="dim")
    return line


def state_panel(view: DebugView, shown: str) -> RenderableType:
    """The state after the event with its changes highlighted; with a filter by topic or partition
    only those partitions."""
    cluster = _filtered_cluster(view.after, shown)
    fields = {(one.subject, one.what) for one in view.changes}
    parts: list[RenderableType] = [Text(line) for line in heading(cluster, view.to_choose)]
    shown_tables = list(tables(cluster, fields, _PARTITIONS_MAX))
    for one in shown_tables:
        _make_narrow(one)
    # Brokers seldom change, and a small screen has room for one table.
    ordered = sorted(shown_tables, key=lambda one: one.title == "brokers")
    return Group(*parts, *ordered)


def _make_narrow(table: Table) -> None:
    """Leave out frames and empty columns; names are not cut while there is room elsewhere."""
    table.box, table.pad_edge, table.collapse_padding = SIMPLE_HEAD, False, True
    table.columns = [one for one in table.columns if any(map(str, one.cells))]
    for column in table.columns:
        column.overflow = "fold"
    for column in table.columns[:2]:
        column.no_wrap = True


def changes_panel(view: DebugView) -> RenderableType:
    """The changes of the event."""
    if not view.changes:
        return Text("This event changes nothing.")
    table = changes_table(view.changes)
    _make_narrow(table)
    return Group(Text(f"changes by event {view.after.seq}: {len(view.changes)}"), table)


def event_panel(view: DebugView) -> RenderableType:
    """The whole event, the procedures that it begins, and its decisions with their rules."""
    return Text("\n".join(_event_lines(view.event)))


def _event_lines(one: EventView) -> Iterator[str]:
    yield f"event {one.seq}, {one.listed.kind}, {one.listed.time}, {one.listed.channel}"
    yield one.listed.text
    if one.causes:
        yield f"caused by {_events(one.causes)} (u: go there)"
    for begun in one.begun:
        yield f"begins: {begun.procedure}" + (
            f", because of {_events(begun.causes)}" if begun.causes else ""
        )
    for each in one.decided:
        yield ""
        yield decision_lines(each)
    steps = len(one.decisions) - len(one.decided)
    if steps:
        yield ""
        yield f"reads, timers and channels: {steps}"


def _events(numbers: Sequence[int]) -> str:
    what = "event" if len(numbers) == 1 else "events"
    return f"{what} {', '.join(map(str, numbers))}"


def link_line(found: Explanation, place: int) -> Text:
    """A cause in the explanation."""
    return Text("\n".join(link_lines(found.chain[place])))


def _filtered_cluster(cluster: ClusterView, shown: str) -> ClusterView:
    """The cluster without the partitions that a filter excludes; a filter by broker excludes
    none."""
    if not shown or is_broker(shown):
        return cluster
    try:
        if cluster.topic(shown) is not None:
            return selected(cluster, [shown])
        return selected(cluster, partition=partition_named(shown))
    except (ReplayError, ValueError):
        return cluster
