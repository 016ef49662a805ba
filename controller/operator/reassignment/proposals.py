"""--generate: where the partitions of topics would go (calculateAssignment of Kafka's
ReassignPartitionsCommand). Pure: the dice are given."""

from collections.abc import Callable, Sequence

from controller.core.errors import RequestRefused
from controller.core.replica_assignment import assign_replicas, check_counts, lacks_racks
from controller.core.values import Broker
from controller.operator.reassignment.documents import Partition, Targets
from controller.operator.reassignment.errors import Refused

Dice = Callable[[int], int]
"""A random number from 0 to below its bound."""


def propose(
    current: Targets, brokers: Sequence[Broker], dice: Dice, *, rack_aware: bool
) -> dict[Partition, tuple[int, ...]]:
    """New replicas for every partition of these topics, as many as the first has now.

    Raises Refused where the brokers cannot hold them.
    """
    if rack_aware and lacks_racks(brokers):
        raise Refused(
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
            raise Refused(f"topic {topic}: {refused}") from None
        start, shift = dice(len(candidates)), dice(len(candidates))
        assigned = assign_replicas(candidates, len(partitions), replication_factor, start, shift)
        proposed |= dict(zip(partitions, assigned, strict=True))
    return proposed


def _by_topic(partitions: Targets) -> dict[str, list[Partition]]:
    found: dict[str, list[Partition]] = {}
    for one in sorted(partitions):
        found.setdefault(one[0], []).append(one)
    return found
