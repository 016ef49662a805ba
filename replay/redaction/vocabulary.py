"""The words that logs have whatever the names in the cluster are: those of the format of the log,
of Kafka's znodes and of configurations.

A topic may have such a name. Where a name is expected, it is replaced as every other one; elsewhere
the word remains, because it is in every log and says nothing.
"""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import inspect

from controller.core.events import ANSWERS, REFUSES, SILENT, Event
from controller.core.procedures.brokers.registration_checks import TIMER as REGISTRATIONS
from controller.core.procedures.reassignment.replica_deletion import TIMER as DELETIONS
from controller.core.standby import FOLLOW_TIMER
from controller.core.topic_configs import TOPIC_CONFIGS
from replay.redaction.shapes import words as words_of_znodes
from replay.stock_clusters.imported_log.events import ImportedEvent

_OF_DAEMONS: Final = (
    *("SIGTERM", "SIGINT", "created", "deleted", "data", "children"),
    *("unreachable", "version", "closed", "recovered", ANSWERS, REFUSES, SILENT),
    *(word for timer in (FOLLOW_TIMER, DELETIONS, REGISTRATIONS) for word in timer.split()),
)
"""The texts of events in fields that have no names."""


def _words_of(type_: Any, seen: set[type]) -> Iterator[str]:
    """The tags, the fields and the literals of a type, and of the types in it."""
    match type_:
        case inspect.StructType(cls=cls, tag=tag, fields=fields):
            if cls in seen:
                return
            seen.add(cls)
            yield str(tag)
            for field in fields:
                yield field.encode_name
                yield from _words_of(field.type, seen)
        case inspect.UnionType(types=types):
            for one in types:
                yield from _words_of(one, seen)
        case inspect.LiteralType(values=values):
            yield from map(str, values)
        case inspect.TupleType(item_types=types):
            for one in types:
                yield from _words_of(one, seen)
        case inspect.NamedTupleType(fields=fields):
            for field in fields:
                yield from _words_of(field.type, seen)
        case inspect.DictType(key_type=key, value_type=value):
            yield from _words_of(key, seen)
            yield from _words_of(value, seen)
        case inspect.ListType() | inspect.VarTupleType():
            yield from _words_of(type_.item_type, seen)


WORDS: Final = frozenset(
    (
        *_OF_DAEMONS,
        *words_of_znodes(),
        *_words_of(inspect.type_info(Event), set()),
        *_words_of(inspect.type_info(ImportedEvent), set()),
        *(key for one in TOPIC_CONFIGS for key in (one.name, *one.keys)),
    )
)
"""The words that may remain."""
