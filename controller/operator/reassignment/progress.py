"""The progress of reassignments. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from controller.core.topic_configs import MIN_INSYNC_REPLICAS
from controller.core.values import format_brokers
from controller.core.znodes import REASSIGN_CANCEL
from controller.operator.reassignment.cluster_state import ClusterState
from controller.operator.reassignment.documents import Partition, format_partition

Sizes = Mapping[int, Mapping[Partition, int]]
"""The size of partitions by broker in bytes. Brokers that did not answer are missing."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_LINES_MAX = 20


class PartitionProgress(Struct, frozen=True):
    """The progress of one partition.

    - `caught_up` and `lagging`: replicas of the target that are in the ISR, and those that are not.
    - `bytes_left`: how much less the lagging replicas have than the leader; None if unknown.
    - `cancelled`: the target is the original assignment.
    - `waits_to_start`: the reassignment starts when /admin/reassign_cancel is removed.
    - `next_target`: the partition goes there when /admin/reassign_cancel is removed; empty: no
      others were requested.
    - `waits_for_originals`: how many originals must be alive and in sync before the rollback
      continues; 0 if it does not wait, None if only the controller's configuration has the number.
    """

    topic: str
    partition: int
    route: str
    target: tuple[int, ...]
    caught_up: tuple[int, ...]
    lagging: tuple[int, ...]
    offline: tuple[int, ...] = ()
    bytes_left: int | None = None
    cancelled: bool = False
    waits_for_originals: int | None = 0
    waits_to_start: bool = False
    next_target: tuple[int, ...] = ()

    @property
    def line(self) -> str:
        """One line for people."""
        name = format_partition((self.topic, self.partition))
        if self.waits_to_start:
            target = format_brokers(self.target)
            return f"{name}: to {target}, starts after {REASSIGN_CANCEL} is removed ({self.route})"
        text = f"{name}: {len(self.caught_up)} of {len(self.target)} replicas caught up"
        if self.lagging:
            text += f", waits for {format_brokers(self.lagging)}"
        if self.offline:
            text += f" (not alive: {format_brokers(self.offline)})"
        if self.bytes_left is not None:
            text += f", {format_bytes(self.bytes_left)} left"
        needed = self.waits_for_originals
        if needed is None:
            text += "; the rollback waits until enough originals are alive and in sync "
            text += f"({MIN_INSYNC_REPLICAS} of the controller's configuration)"
        elif needed:
            text += f"; the rollback waits until {needed} original"
            text += " is" if needed == 1 else "s are"
            text += " alive and in sync"
        text += f" ({self.route}{', cancelled' if self.cancelled else ''})"
        if self.next_target:
            target = format_brokers(self.next_target)
            text += f"; goes to {target} after {REASSIGN_CANCEL} is removed"
        return text


def progress_of(
    state: ClusterState, partitions: Iterable[Partition], sizes: Sizes
) -> list[PartitionProgress]:
    """The progress of those partitions that are being reassigned."""
    return [_progress(state, one, sizes) for one in partitions if state.route(one)]


def lines_of(progress: Sequence[PartitionProgress]) -> list[str]:
    """Lines for people who wait: one per partition, or one for all if there are too many."""
    if len(progress) <= _LINES_MAX:
        return [one.line for one in progress]
    caught_up = sum(len(one.caught_up) for one in progress)
    wanted = sum(len(one.target) for one in progress)
    text = f"{len(progress)} partitions: {caught_up} of {wanted} replicas caught up"
    known = [one.bytes_left for one in progress if one.bytes_left is not None]
    if len(known) == len(progress):
        text += f", {format_bytes(sum(known))} left"
    return [text]


def _progress(state: ClusterState, partition: Partition, sizes: Sizes) -> PartitionProgress:
    target = state.target(partition)
    leadership = state.leaderships.get(partition)
    isr = leadership.isr if leadership else ()
    lagging = tuple(one for one in target if one not in isr)
    bytes_left: int | None = None
    if leadership and leadership.leader in sizes:
        whole = sizes[leadership.leader].get(partition, 0)
        measured = [one for one in lagging if one in sizes]
        missing = (whole - sizes[one].get(partition, 0) for one in measured)
        bytes_left = sum(max(one, 0) for one in missing) if len(measured) == len(lagging) else None
    caught_up = tuple(one for one in target if one in isr)
    return PartitionProgress(
        *partition,
        state.route(partition),
        target,
        caught_up,
        lagging,
        tuple(one for one in lagging if one not in state.brokers),
        bytes_left,
        state.is_cancelled(partition),
        state.waits_for_originals(partition),
        state.waits_to_start(partition),
        state.next_target(partition),
    )


def format_bytes(count: int) -> str:
    """A number of bytes in a readable unit."""
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit else f"{count} B"
