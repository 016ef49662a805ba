"""The topics, partitions and brokers that a log has, to say that one does not exist."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from controller.suggestions import there_are
from eventstore.reader import LogReader
from replay.cluster_view.selecting import (
    partitions_by_topic,
    require_among,
    require_broker_among,
)
from replay.errors import ReplayError
from replay.inspect.at import cluster_at
from replay.logs.open_log import OpenedLog
from replay.logs.opened_broker_log import BrokerLog
from replay.logs.subject_index import SubjectsOfRecords
from replay.names import broker_name, broker_named, is_broker, partition_named

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
"""Timers have other names."""
_ID: Final = re.compile(r"[0-9a-f]{32}")
"""A topic's id: records may name a topic by it."""


class KnownNames:
    """The names in a log, as the options of refold's commands name them."""

    def __init__(
        self,
        reader: LogReader,
        opened: OpenedLog | BrokerLog | None,
        in_records: Iterable[str] | None = None,
    ) -> None:
        """`in_records` are the subjects of the events and the brokers of the decisions; None: read
        the whole log. Without `opened`, names that are only in its first state are unknown. Raises
        ReplayError, LogError."""
        names = set(_names_in_records(reader) if in_records is None else in_records)
        if opened is not None and not isinstance(opened, BrokerLog):
            cluster = cluster_at(opened, reader.last_seq)
            names.update(one.name for one in cluster.topics)
            names.update(one.name for one in cluster.partitions())
            names.update(map(broker_name, cluster.known_brokers()))
        self._names = names
        self.brokers = {one for one in names if is_broker(one)}
        legal = {one for one in names if _NAME.fullmatch(one) and not _is_of_id(one)}
        self.partitions = {one for one in legal if _topic_of(one) in legal}
        self.topics = legal - self.partitions

    def require(self, kind: str, name: str) -> None:
        """Check that the log has a topic, partition or broker (`kind`) of this name; "subject"
        means any of them. Raises ReplayError, which names what the log has."""
        # A topic can have a name like that of a partition.
        if name in self._names:
            return
        absent = "the log has no {}"
        if kind == "topic":
            require_among(self._by_topic(), name, None, absent)
        elif kind == "partition":
            require_among(self._by_topic(), *partition_named(name), absent)
        elif kind == "broker":
            known_ids = map(broker_named, self.brokers)
            require_broker_among(known_ids, broker_named(name), absent)
        known = self.topics | self.partitions | self.brokers
        raise ReplayError(f"{absent.format(f'{kind} {name}')}; {there_are('names', name, known)}")

    def _by_topic(self) -> dict[str, set[int]]:
        of_topics: dict[str, set[int]] = {one: set() for one in self.topics}
        return of_topics | partitions_by_topic(map(partition_named, self.partitions))


def _names_in_records(reader: LogReader) -> Iterator[str]:
    subjects_of = SubjectsOfRecords(reader)
    for record in reader.events():
        yield from subjects_of(record)
    # Other subjects of a command may be no names: those of a notice are parts of a text.
    for command in reader.commands():
        yield from filter(is_broker, subjects_of.of_command(command))


def _is_of_id(name: str) -> bool:
    return _ID.fullmatch(_topic_of(name) or name) is not None


def _topic_of(name: str) -> str:
    with suppress(ValueError):
        return partition_named(name)[0]
    return ""
