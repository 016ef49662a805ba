"""Spark's filters as SQL conditions on the two tables of a segment.

A column that a table lacks is null there, as it is in the rows: SQL's three-valued logic is
Spark's, so a filter that becomes a condition needs no second look.
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
"""The columns of which a filter is a condition on either table; of those that only the table of
events has, it is one there, and Spark looks at the commands."""

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
"""Spark's processes that ask for a reader; the second one has filters for it."""


class Conditions(Struct):
    """SQL for `Segment.event_rows` and `Segment.command_rows`, with its parameters."""

    events: list[str]
    commands: list[str]
    parameters: dict[str, Any]


class Pushed(Struct):
    """What is wanted of a log: conditions on its tables, and the origins that may be wanted."""

    conditions: Conditions
    clusters: frozenset[str] | None = None
    logs: frozenset[str] | None = None

    def wants(self, cluster: str, log: str) -> bool:
        """Whether anything of a log can be wanted."""
        by_cluster = self.clusters is None or cluster in self.clusters
        return by_cluster and (self.logs is None or log in self.logs)


def brings_filters() -> bool:
    """Whether the process that asks for a reader has filters to push.

    Where spark.sql.python.filterPushdown.enabled is false, as it is by default, Spark refuses a
    reader that would take filters, and tells it nothing of the setting. Only a process that is
    known to plan without filters counts as one.
    """
    main = getattr(sys.modules["__main__"], "__spec__", None)
    running = {getattr(main, "name", None), *sys.modules}
    # Forked by Spark's daemon it is a module among others; the second one imports the first.
    return _PUSHING in running or _PLANNING not in running


def push(filters: Iterable[Filter]) -> tuple[Pushed, list[Filter]]:
    """What the filters, all of which must hold, want of a log; and those that Spark has to look
    at itself, because they are not understood or not by both tables."""
    pushed = Pushed(Conditions([], [], {}))
    left = [one for one in filters if not _take(pushed, one)]
    return pushed, left


def _take(pushed: Pushed, wanted: Filter) -> bool:
    """Add a filter; whether it is wholly taken."""
    column = _column(wanted)
    if column in ("cluster", "log"):
        return _take_origin(pushed, column, wanted)
    if column == "time":
        _take_time(pushed.conditions, wanted)
        return False
    conditions = pushed.conditions
    is_whole = column in EXACT
    for columns, into in ((_EVENTS, conditions.events), (_COMMANDS, conditions.commands)):
        if column not in columns:
            continue
        text = _condition(wanted, columns[column], conditions.parameters)
        if text is None:
            return False
        into.append(text)
    return is_whole


def _column(wanted: Filter) -> str:
    inner = wanted.child if isinstance(wanted, Not) else wanted
    path: Sequence[str] = getattr(inner, "attribute", ())
    return path[0] if len(path) == 1 else ""


def _take_origin(pushed: Pushed, column: str, wanted: Filter) -> bool:
    match wanted:
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


def _take_time(conditions: Conditions, wanted: Filter) -> None:
    """Times of rows are in microseconds, those of the log in nanoseconds: a range that holds all
    that can be wanted. A command has the time of its cause, which its table does not know."""
    value = getattr(wanted, "value", None)
    if not isinstance(wanted, _TIMES) or not isinstance(value, datetime):
        return
    ns = round(value.timestamp() * 1_000_000) * _NS_IN_US
    if not isinstance(wanted, (LessThan, LessThanOrEqual)):
        conditions.events.append(f"wall_ns >= :{_bind(conditions.parameters, ns)}")
    if not isinstance(wanted, (GreaterThan, GreaterThanOrEqual)):
        conditions.events.append(f"wall_ns < :{_bind(conditions.parameters, ns + _NS_IN_US)}")


def _condition(wanted: Filter, column: str, parameters: dict[str, Any]) -> str | None:
    """A filter as a condition on a column; None where it cannot be one."""
    match wanted:
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
            sign = _COMPARED.get(type(wanted))
            if sign is None:
                return None
            return f"{column} {sign} :{_bind(parameters, getattr(wanted, 'value', None))}"


def _bind(parameters: dict[str, Any], value: Any) -> str:
    name = f"pushed_{len(parameters)}"
    parameters[name] = value
    return name


def _last(parameters: dict[str, Any]) -> str:
    return f"pushed_{len(parameters) - 1}"
