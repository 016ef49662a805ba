"""--generate and --generate-extra. Proposals follow calculateAssignment of Kafka's
ReassignPartitionsCommand."""

import random
from collections.abc import Callable, Sequence

from controller.core.errors import RequestRefused
from controller.core.replica_assignment import assign_replicas, check_counts, lacks_racks
from controller.core.values import Broker, format_brokers
from controller.operator.reassignment.cluster import ClusterConnection
from controller.operator.reassignment.damaged_znodes import unreadable_topics
from controller.operator.reassignment.documents import (
    Partition,
    Targets,
    as_document,
    format_partitions,
    write_targets,
)
from controller.operator.reassignment.errors import ReassignmentRefused
from controller.operator.reassignment.report import ProgressReport

RandomBelow = Callable[[int], int]
"""A random number from 0 up to but not including its bound."""


async def generate(
    cluster: ClusterConnection,
    report: ProgressReport,
    topics: Sequence[str],
    brokers: Sequence[int],
    *,
    rack_aware: bool,
) -> None:
    """Print the current assignment of topics and a proposed one. Changes nothing.

    For a partition that is being reassigned, the current assignment is its original one. Raises
    ReassignmentRefused.
    """
    state = await cluster.admin.describe(topics)
    found = {topic for topic, _ in state.assignments} | state.unreadable_topics.keys()
    wrong = [f"Topic {one} not found." for one in topics if one not in found]
    wrong += unreadable_topics(state, topics)
    if wrong:
        raise ReassignmentRefused("\n".join(wrong))
    unknown = [one for one in brokers if one not in state.brokers]
    if unknown:
        own = state.controller.broker
        text = f" ({own} is the controller, which holds no replicas)" if own in unknown else ""
        raise ReassignmentRefused(f"--broker-list: not alive: {format_brokers(unknown)}{text}")
    current = state.origins(sorted(one for one in state.assignments if one[0] in topics))
    chosen = [state.brokers[one] for one in brokers]
    proposed = propose(current, chosen, random.randrange, rack_aware=rack_aware)
    on_their_way = [one for one in current if state.route(one)]
    report.data |= {"current": as_document(current), "proposed": as_document(proposed)}
    report.print_line(f"Current partition replica assignment\n{write_targets(current)}\n")
    report.print_line(f"Proposed partition reassignment configuration\n{write_targets(proposed)}")
    if on_their_way:
        text = "being reassigned; their current assignment is the original one"
        report.warn(f"{format_partitions(on_their_way)}: {text}")


def propose(
    current: Targets, brokers: Sequence[Broker], random_below: RandomBelow, *, rack_aware: bool
) -> dict[Partition, tuple[int, ...]]:
    """Propose new replicas for every partition of these topics, as many as the first one has. Pure.

    Raises ReassignmentRefused if the brokers cannot hold them.
    """
    if rack_aware and lacks_racks(brokers):
        raise ReassignmentRefused(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to "
            "make replica assignment without rack information."
        )
    candidates = sorted(brokers, key=lambda one: one.id)
    if not rack_aware:
        candidates = [Broker(one.id, one.epoch, one.endpoints) for one in candidates]
    proposed: dict[Partition, tuple[int, ...]] = {}
    for topic, partitions in _by_topic(current).items():
        replication_factor = len(current[partitions[0]])
        try:
            check_counts(candidates, len(partitions), replication_factor)
        except RequestRefused as refused:
            raise ReassignmentRefused(f"topic {topic}: {refused}") from None
        start, shift = random_below(len(candidates)), random_below(len(candidates))
        assigned = assign_replicas(candidates, len(partitions), replication_factor, start, shift)
        proposed |= dict(zip(partitions, assigned, strict=True))
    return proposed


def _by_topic(partitions: Targets) -> dict[str, list[Partition]]:
    found: dict[str, list[Partition]] = {}
    for one in sorted(partitions):
        found.setdefault(one[0], []).append(one)
    return found
