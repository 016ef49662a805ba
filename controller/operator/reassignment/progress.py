"""How far a partition is on its way. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from controller.core.topic_configs import MIN_INSYNC_REPLICAS
from controller.operator.reassignment.documents import Partition, listed, spelt
from controller.operator.reassignment.view import View

Sizes = Mapping[int, Mapping[Partition, int]]
"""How many bytes of a partition each broker has; a broker that did not tell is missing."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_LINES_MAX = 20


class Progress(Struct, frozen=True):
    """`caught_up` and `lagging` are the replicas of the target that are in the ISR and those that
    are not; `bytes_left` is what those have less than the leader, None where nobody tells. Of a
    partition that is `cancelled` the target is what it goes back to; `waits_for_originals` is how
    many originals must be alive and in sync before a rollback goes on, 0 if it does not wait, None
    if only the controller's configuration says that."""

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

    @property
    def line(self) -> str:
        """For people."""
        name = spelt((self.topic, self.partition))
        text = f"{name}: {len(self.caught_up)} of {len(self.target)} replicas caught up"
        if self.lagging:
            text += f", waits for {listed(self.lagging)}"
        if self.offline:
            text += f" (not alive: {listed(self.offline)})"
        if self.bytes_left is not None:
            text += f", {spelt_bytes(self.bytes_left)} left"
        needed = self.waits_for_originals
        if needed is None:
            text += "; the rollback waits until enough originals are alive and in sync "
            text += f"({MIN_INSYNC_REPLICAS} of the controller's configuration)"
        elif needed:
            text += f"; the rollback waits until {needed} original"
            text += " is" if needed == 1 else "s are"
            text += " alive and in sync"
        return f"{text} ({self.route}{', cancelled' if self.cancelled else ''})"


def progress_of(view: View, partitions: Iterable[Partition], sizes: Sizes) -> list[Progress]:
    """Of those partitions that are on their way."""
    return [_progress(view, one, sizes) for one in partitions if view.route(one)]


def lines_of(progress: Sequence[Progress]) -> list[str]:
    """For people who wait: a line for each, or one for all where these were too many."""
    if len(progress) <= _LINES_MAX:
        return [one.line for one in progress]
    caught_up = sum(len(one.caught_up) for one in progress)
    wanted = sum(len(one.target) for one in progress)
    text = f"{len(progress)} partitions: {caught_up} of {wanted} replicas caught up"
    told = [one.bytes_left for one in progress if one.bytes_left is not None]
    if len(told) == len(progress):
        text += f", {spelt_bytes(sum(told))} left"
    return [text]


def _progress(view: View, partition: Partition, sizes: Sizes) -> Progress:
    target = view.target(partition)
    leadership = view.leaderships.get(partition)
    isr = leadership.isr if leadership else ()
    lagging = tuple(one for one in target if one not in isr)
    bytes_left: int | None = None
    if leadership and leadership.leader in sizes:
        whole = sizes[leadership.leader].get(partition, 0)
        told = [one for one in lagging if one in sizes]
        missing = (whole - sizes[one].get(partition, 0) for one in told)
        bytes_left = sum(max(one, 0) for one in missing) if len(told) == len(lagging) else None
    caught_up = tuple(one for one in target if one in isr)
    return Progress(
        *partition,
        view.route(partition),
        target,
        caught_up,
        lagging,
        tuple(one for one in lagging if one not in view.brokers),
        bytes_left,
        view.is_cancelled(partition),
        view.waits_for_originals(partition),
    )


def spelt_bytes(count: int) -> str:
    """A number of bytes for people."""
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit else f"{count} B"
