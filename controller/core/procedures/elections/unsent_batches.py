"""The requests that Kafka's state machine keeps when it is fenced during a change (KB 12.2.1).

The requests of the change stay in its batch. No later change of that machine begins while the batch
has requests, and nothing removes them while the process lives. Therefore, if the same process is
elected again, Kafka's controller changes no replica state, or no partition state. Deviation
BATCH_BEGINS_EMPTY.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from controller.core.batch import RequestBatch
from controller.core.controller import Controller
from controller.core.deviations import BATCH_BEGINS_EMPTY
from controller.core.errors import ControllerMovedError

REPLICAS: Final = "replica state machine"
PARTITIONS: Final = "partition state machine"


def report_unsent(controller: Controller, machine: str, target: str) -> bool:
    """Report that the machine cannot change anything any more. Returns whether that is so."""
    if machine not in controller.unsent:
        return False
    text = f"nothing is moved to {target}: requests of an earlier change were never sent"
    controller.notice("error", "batch_not_empty", machine, text)
    return True


@contextmanager
def unsent_kept(controller: Controller, machine: str, batch: RequestBatch) -> Iterator[None]:
    """If the change is fenced, keep the machine's unsent requests."""
    try:
        yield
    except ControllerMovedError:
        begins_empty = BATCH_BEGINS_EMPTY.applies(controller.configuration)
        if not batch.is_empty and begins_empty:
            controller.observer.deviates(BATCH_BEGINS_EMPTY, "")
        elif not batch.is_empty:
            controller.unsent[machine] = None
        raise
