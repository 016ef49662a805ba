"""Topics and partitions that were created during an incident.

A request may leave the replicas to the controller, or be rejected, and a tool may write the topic's
znode. The partitions that appear show what was created.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from replay.what_if.causes import ExternalCause
from replay.what_if.history import ClusterHistory, PartitionChange
from replay.world.inputs import CreatePartitions, CreateTopic

_TOGETHER_MS: Final = 2_000
"""Partitions of a topic that appear within this time were created together."""

_REQUEST_BEFORE_MS: Final = 10_000
"""A request is at most this much older than the partitions that it created."""


def with_creations(
    history: ClusterHistory, causes: Sequence[ExternalCause], begin_seq: int
) -> list[ExternalCause]:
    """The causes, with the creations of topics and partitions as they appear in the history."""
    requests = [one for one in causes if isinstance(one.what, CreateTopic | CreatePartitions)]
    kept = [one for one in causes if one not in requests]
    groups: list[_NewPartitions] = []
    of_topic: dict[str, _NewPartitions] = {}
    known: dict[str, dict[int, None]] = {}
    for change in history.changes:
        if not isinstance(change, PartitionChange):
            continue
        topic, number = change.name
        numbers = known.setdefault(topic, {})
        if change.now is None:
            numbers.pop(number, None)
            of_topic.pop(topic, None)
            continue
        if number in numbers:
            continue
        if change.seq > begin_seq:
            group = of_topic.get(topic)
            if group is None or change.at_ms - group.changes[0].at_ms > _TOGETHER_MS:
                group = of_topic[topic] = _NewPartitions(bool(numbers), [])
                groups.append(group)
            group.changes.append(change)
        numbers[number] = None
    return [*kept, *(_creation(one, requests) for one in groups)]


class _NewPartitions(NamedTuple):
    """Partitions that appeared together. `are_added`: their topic had others before."""

    are_added: bool
    changes: list[PartitionChange]


def _creation(new: _NewPartitions, requests: Iterable[ExternalCause]) -> ExternalCause:
    """The cause of partitions that appeared together. It is certain: how likely an outage of a
    partition is that does not exist is no question."""
    first = new.changes[0]
    topic = first.name[0]
    ordered = sorted(new.changes, key=lambda one: one.name[1])
    replicas = tuple(one.now.assignment.origin for one in ordered if one.now is not None)
    wanted = CreatePartitions if new.are_added else CreateTopic
    before = [
        one
        for one in requests
        if isinstance(one.what, wanted)
        and one.what.topic == topic
        and one.seq <= first.seq
        and first.at_ms - one.at_ms <= _REQUEST_BEFORE_MS
    ]
    asked = before[-1] if before else None
    seq, at_ms = (asked.seq, asked.at_ms) if asked is not None else (first.seq, first.at_ms)
    is_api = asked is not None and getattr(asked.what, "route", "") == "api"
    if new.are_added:
        added = CreatePartitions(at_ms, topic, replicas, "api" if is_api else "znode")
        return ExternalCause(seq, at_ms, added, first.seq, is_certain=True)
    configs = asked.what.configs if asked and isinstance(asked.what, CreateTopic) else {}
    created = CreateTopic(at_ms, topic, replicas, configs, "api" if is_api else "znode_with_id")
    return ExternalCause(seq, at_ms, created, first.seq, is_certain=True)
