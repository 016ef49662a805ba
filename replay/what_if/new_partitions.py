"""Topics and partitions that were created during an incident.

A request may leave the replicas to the controller, or be rejected, and a tool may write the topic's
znode. What was created is known from the partitions that appear.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from controller.core.znodes import Name
from replay.what_if.causes import Cause
from replay.what_if.history import History, PartitionChange
from replay.world.inputs import CreatePartitions, CreateTopic

_TOGETHER_MS: Final = 2_000
"""Partitions of a topic that appear within this time were created together."""

_REQUEST_BEFORE_MS: Final = 10_000
"""A request is at most this much older than the partitions that it created."""


def with_creations(history: History, causes: Sequence[Cause], begin_seq: int) -> list[Cause]:
    """The causes, with the creations of topics and partitions as they appear in the history."""
    requests = [one for one in causes if isinstance(one.what, CreateTopic | CreatePartitions)]
    kept = [one for one in causes if one not in requests]
    exists: dict[str, int] = {}
    groups: list[list[PartitionChange]] = []
    of_topic: dict[str, list[PartitionChange]] = {}
    known: dict[Name, None] = {}
    for change in history.changes:
        if not isinstance(change, PartitionChange):
            continue
        topic = change.name[0]
        if change.now is None:
            known.pop(change.name, None)
            exists[topic] = sum(name[0] == topic for name in known)
            continue
        if change.name in known:
            continue
        known[change.name] = None
        if change.seq <= begin_seq:
            exists[topic] = exists.get(topic, 0) + 1
            continue
        group = of_topic.get(topic)
        if group is None or change.at_ms - group[0].at_ms > _TOGETHER_MS:
            group = of_topic[topic] = []
            groups.append(group)
        group.append(change)
    for group in groups:
        topic = group[0].name[0]
        count = exists.get(topic, 0)
        kept.append(_creation(group, count, requests))
        exists[topic] = count + len(group)
    return kept


def _creation(group: Sequence[PartitionChange], count: int, requests: Iterable[Cause]) -> Cause:
    """The cause of partitions that appeared together in a topic that had `count` before. It is
    certain: how likely an outage of a partition is that does not exist is no question."""
    topic, first = group[0].name[0], group[0]
    ordered = sorted(group, key=lambda one: one.name[1])
    replicas = tuple(one.now.assignment.origin for one in ordered if one.now is not None)
    asked = next(
        (
            one
            for one in requests
            if getattr(one.what, "topic", "") == topic
            and one.seq <= first.seq
            and first.at_ms - one.at_ms <= _REQUEST_BEFORE_MS
        ),
        None,
    )
    seq, at_ms = (asked.seq, asked.at_ms) if asked is not None else (first.seq, first.at_ms)
    is_api = asked is not None and getattr(asked.what, "route", "") == "api"
    if count:
        added = CreatePartitions(at_ms, topic, replicas, "api" if is_api else "znode")
        return Cause(seq, at_ms, added, first.seq, is_certain=True)
    configs = asked.what.configs if asked and isinstance(asked.what, CreateTopic) else {}
    created = CreateTopic(at_ms, topic, replicas, configs, "api" if is_api else "znode_with_id")
    return Cause(seq, at_ms, created, first.seq, is_certain=True)
