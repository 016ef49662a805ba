"""Checks the values of --kind."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple, get_args

import typer
from msgspec import Struct

from controller.core.canonical import EVENT_SCHEMAS, kind_of
from controller.core.commands import Command
from controller.kafka_0_8.canonical import BROKER_COMMANDS, BROKER_EVENT_SCHEMAS
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.logs.log_kinds import LogKind, kind_of_log
from replay.logs.open_log import open_reader
from replay.stock_clusters.imported_log.encoding import SCHEMAS
from replay.stock_clusters.imports.decisions import KINDS

_EVENT_KINDS: Final[Mapping[LogKind, Collection[str]]] = {
    LogKind.DAEMON: EVENT_SCHEMAS,
    LogKind.BROKER: BROKER_EVENT_SCHEMAS,
    LogKind.IMPORTED: SCHEMAS,
}
_DECISION_KINDS: Final[Mapping[LogKind, Collection[str]]] = {
    LogKind.DAEMON: tuple(map(kind_of, get_args(Command))),
    LogKind.BROKER: BROKER_COMMANDS,
    LogKind.IMPORTED: KINDS,
}


class UnknownKinds(Struct, frozen=True):
    """Kinds that a log does not have. `known` are those that logs of its kind can have."""

    what: str
    unknown: list[str]
    known: Collection[str]

    def refused(self) -> typer.BadParameter:
        """The error that names the first one."""
        text = (
            f"{self.unknown[0]!r} is not a kind of {self.what}; use one of: "
            f"{', '.join(sorted(self.known))}"
        )
        return typer.BadParameter(text, param_hint="--kind")


KindsCheck = Callable[[LogReader, Sequence[str]], UnknownKinds]


def unknown_event_kinds(reader: LogReader, kinds: Sequence[str]) -> UnknownKinds:
    """The kinds of events that neither this version nor the log has. Another version may have
    written the log. Raises LogError."""
    known = _EVENT_KINDS[kind_of_log(reader.header)]
    of_this_version = set(chain.from_iterable(_EVENT_KINDS.values()))
    unknown = [
        one
        for one in kinds
        if one not in known
        and (one in of_this_version or not any(reader.events(EventFilter(kinds=(one,)))))
    ]
    return UnknownKinds("event", unknown, known)


def unknown_decision_kinds(reader: LogReader, kinds: Sequence[str]) -> UnknownKinds:
    """The kinds of decisions that the log cannot have: this version derives the decisions, so it
    knows all kinds."""
    known = _DECISION_KINDS[kind_of_log(reader.header)]
    return UnknownKinds("decision", [one for one in kinds if one not in known], known)


def require_kinds(check: KindsCheck, reader: LogReader, kinds: Sequence[str]) -> None:
    """Refuse kinds that a log does not have. Raises typer.BadParameter, LogError."""
    found = check(reader, kinds)
    if found.unknown:
        raise found.refused()


class LogsWithKinds(NamedTuple):
    """The logs that have one of the kinds, and a sentence for each kind of log that lacks some."""

    logs: list[str]
    notes: list[str]


def logs_with_kinds(check: KindsCheck, logs: Sequence[str], kinds: Sequence[str]) -> LogsWithKinds:
    """Refuse a kind that none of the logs has. Raises typer.BadParameter, LogError, ReplayError."""
    checked: dict[str, UnknownKinds] = {}
    by_log_kind: dict[LogKind, list[UnknownKinds]] = defaultdict(list)
    for log in logs:
        with open_reader(log) as reader:
            checked[log] = check(reader, kinds)
            by_log_kind[kind_of_log(reader.header)].append(checked[log])
    if of_none := _in_none(checked.values()):
        raise of_none.refused()
    notes = [
        f"no {log_kind} has {one.what}s of kind {', '.join(one.unknown)}"
        for log_kind, found in by_log_kind.items()
        if (one := _in_none(found))
    ]
    having = [log for log, one in checked.items() if not kinds or {*kinds} > {*one.unknown}]
    return LogsWithKinds(having, notes)


def _in_none(found: Collection[UnknownKinds]) -> UnknownKinds | None:
    """The kinds that none of some logs has; None if each kind is in one of them."""
    first, *others = found
    unknown = [kind for kind in first.unknown if all(kind in one.unknown for one in others)]
    known = set(chain.from_iterable(one.known for one in found))
    return UnknownKinds(first.what, unknown, known) if unknown else None
