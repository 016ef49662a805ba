"""Spark's filters as SQL conditions on the tables of events and commands of a segment.

A column that one of the tables lacks is null there, as it is in the rows. SQLite and Spark both use
three-valued logic, so Spark does not have to evaluate a pushed filter again.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from replay.fleet.columns import COMMAND, EVENT

_EVENTS: Final = {
    "record": f"'{EVENT}'",
    "seq": "seq",
    "wall_ns": "wall_ns",
    "mono_ns": "mono_ns",
    "term": "term",
    "kind": "kind",
    "schema": "schema",
    "channel": "channel",
    "origin": "origin",
    "cause": "cause",
    "target": "null",
}
_COMMANDS: Final = {
    "record": f"'{COMMAND}'",
    "seq": "cause",
    "term": "term",
    "kind": "kind",
    "schema": "null",
    "channel": "null",
    "origin": "null",
    "cause": "cause",
    "target": "target",
}
EXACT: Final = frozenset(_EVENTS) & frozenset(_COMMANDS)
"""Columns whose filters become conditions on both tables. A filter on a column that only the events
table has becomes a condition there; Spark evaluates it for the commands."""

_COMPARED: Final[Mapping[type[Filter], str]] = {
    EqualTo: "=",
    EqualNullSafe: "is",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_TIMES: Final = (EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)
_NS_IN_US: Final = 1000

_PLANNING: Final = "pyspark.sql.worker.plan_data_source_read"
_PUSHING: Final = "pyspark.sql.worker.data_source_pushdown_filters"
"""Spark's worker modules that ask for a reader; only the second one passes filters."""


class SqlConditions(Struct):
    """SQL conditions for `Segment.event_rows` and `Segment.command_rows`, with their parameters."""

    events: list[str]
    commands: list[str]
    parameters: dict[str, Any]


class PushedFilters(Struct):
    """The pushed filters: conditions on the tables, and the clusters and logs that may match."""

    conditions: SqlConditions
    clusters: frozenset[str] | None = None
    logs: frozenset[str] | None = None

    def may_match(self, cluster: str, log: str) -> bool:
        """Whether a log can have matching records."""
        by_cluster = self.clusters is None or cluster in self.clusters
        return by_cluster and (self.logs is None or log in self.logs)


def has_filters_to_push() -> bool:
    """Whether the current process may pass filters to a reader.

    If spark.sql.python.filterPushdown.enabled is false, which is Spark's default, Spark rejects a
    reader with `pushFilters`. The reader does not see this setting. A reader without `pushFilters`
    is used only in a process that is known to plan without filters.
    """
    main = getattr(sys.modules["__main__"], "__spec__", None)
    running = {getattr(main, "name", None), *sys.modules}
    # A worker that Spark's daemon forked has its module among the imported ones.
    return _PUSHING in running or _PLANNING not in running


def push(filters: Iterable[Filter]) -> tuple[PushedFilters, list[Filter]]:
    """Convert filters, all of which must hold. Returns the pushed filters and those that Spark has
    to evaluate itself, because they cannot be converted, or not for both tables."""
    pushed = PushedFilters(SqlConditions([], [], {}))
    left = [one for one in filters if not _add_filter(pushed, one)]
    return pushed, left


def _add_filter(pushed: PushedFilters, condition: Filter) -> bool:
    """Add a filter; returns whether it is pushed for both tables."""
    column = _column(condition)
    if column in ("cluster", "log"):
        return _add_origin_filter(pushed, column, condition)
    if column == "time":
        _add_time_filter(pushed.conditions, condition)
        return False
    conditions = pushed.conditions
    is_whole = column in EXACT
    for columns, into in ((_EVENTS, conditions.events), (_COMMANDS, conditions.commands)):
        if column not in columns:
            continue
        text = _condition(condition, columns[column], conditions.parameters)
        if text is None:
            return False
        into.append(text)
    return is_whole


def _column(condition: Filter) -> str:
    inner = condition.child if isinstance(condition, Not) else condition
    path: Sequence[str] = getattr(inner, "attribute", ())
    return path[0] if len(path) == 1 else ""


def _add_origin_filter(pushed: PushedFilters, column: str, condition: Filter) -> bool:
    match condition:
        case IsNotNull():
            return True
        case EqualTo(value=str(value)):
            values = frozenset((value,))
        case In(value=given):
            values = frozenset(one for one in given if one is not None)
        case _:
            return False
    if column == "cluster":
        pushed.clusters = values if pushed.clusters is None else pushed.clusters & values
    else:
        pushed.logs = values if pushed.logs is None else pushed.logs & values
    return True


def _add_time_filter(conditions: SqlConditions, condition: Filter) -> None:
    """Rows have microseconds, the log has nanoseconds: the condition covers all that may match. A
    command has the time of its cause, which the commands table does not have."""
    value = getattr(condition, "value", None)
    if not isinstance(condition, _TIMES) or not isinstance(value, datetime):
        return
    ns = round(value.timestamp() * 1_000_000) * _NS_IN_US
    if not isinstance(condition, (LessThan, LessThanOrEqual)):
        conditions.events.append(f"wall_ns >= :{_bind(conditions.parameters, ns)}")
    if not isinstance(condition, (GreaterThan, GreaterThanOrEqual)):
        conditions.events.append(f"wall_ns < :{_bind(conditions.parameters, ns + _NS_IN_US)}")


def _condition(condition: Filter, column: str, parameters: dict[str, Any]) -> str | None:
    """A filter as an SQL condition on a column; None if it cannot be converted."""
    match condition:
        case Not(child=child):
            inner = _condition(child, column, parameters)
            return None if inner is None else f"not ({inner})"
        case IsNull():
            return f"{column} is null"
        case IsNotNull():
            return f"{column} is not null"
        case In(value=values):
            return f"{column} in ({', '.join(f':{_bind(parameters, one)}' for one in values)})"
        case StringStartsWith(value=text):
            return f"substr({column}, 1, length(:{_bind(parameters, text)})) = :{_last(parameters)}"
        case StringEndsWith(value=text) if text:
            return f"substr({column}, -length(:{_bind(parameters, text)})) = :{_last(parameters)}"
        case StringContains(value=text):
            return f"instr({column}, :{_bind(parameters, text)}) > 0"
        case _:
            sign = _COMPARED.get(type(condition))
            if sign is None:
                return None
            return f"{column} {sign} :{_bind(parameters, getattr(condition, 'value', None))}"


def _bind(parameters: dict[str, Any], value: Any) -> str:
    name = f"pushed_{len(parameters)}"
    parameters[name] = value
    return name


def _last(parameters: dict[str, Any]) -> str:
    return f"pushed_{len(parameters) - 1}"
