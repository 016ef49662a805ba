"""Long work in parts, between which urgent controller events are handled."""

from collections.abc import Iterator, Sequence, Sized
from typing import Final, TypeVar

from controller.core.batch import RequestBatch
from controller.core.controller import Controller
from controller.core.deviations import LONG_WORK_INTERRUPTED, REASSIGNMENTS_TOGETHER
from controller.core.outcomes import PAUSE, SLICE, suspend

SLICE_SIZE: Final = 5_000
"""Items that long work handles before it lets the daemon ping and flush (outcomes.SLICE)."""

TOGETHER_MAX: Final = 100
"""Reassignments that are handled together: one part of the work stays below 1 s."""

_SLICE_MAX: Final = 2_000
"""The size of a slice of work that Kafka does in one go."""

T = TypeVar("T")


async def send_in_slices(controller: Controller, batch: RequestBatch) -> None:
    """Send a batch whose requests are so large that each is made in a separate slice."""
    requests = []
    for request in batch.requests():
        requests.append(request)
        await suspend(SLICE)
    controller.send_requests(requests, batch.rule)


async def pause(controller: Controller) -> None:
    """Let urgent controller events in the queue go first (LONG_WORK_INTERRUPTED).

    Values that were read before may be out of date afterwards; the term is the same.
    """
    if LONG_WORK_INTERRUPTED.applies(controller.configuration):
        await suspend(PAUSE)


def has_parts(items: Sized) -> bool:
    """Whether these reassignments are more than one part of the work."""
    return len(items) > TOGETHER_MAX


def parts(controller: Controller, items: Sequence[T]) -> Iterator[list[T]]:
    """The items in parts that are handled together; single items under Kafka's rules
    (REASSIGNMENTS_TOGETHER)."""
    is_together = REASSIGNMENTS_TOGETHER.applies(controller.configuration)
    if is_together and len(items) > 1:
        controller.observer.deviates(REASSIGNMENTS_TOGETHER, "")
    size = TOGETHER_MAX if is_together else 1
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def slices(controller: Controller, items: Sequence[T]) -> Iterator[list[T]]:
    """The items in slices, to pause between them; all items at once under Kafka's rules
    (LONG_WORK_INTERRUPTED)."""
    is_sliced = LONG_WORK_INTERRUPTED.applies(controller.configuration)
    size = _SLICE_MAX if is_sliced else max(len(items), 1)
    for start in range(0, max(len(items), 1), size):
        yield list(items[start : start + size])
