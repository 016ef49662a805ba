"""What a state machine of Kafka's keeps when it is fenced in the middle of a change (KB 12.2.1).

The requests of the change stay in its batch, no later change of that machine begins while they are
there, and nothing takes them out while the process lives. So Kafka's controller, when it is elected
once more, moves no replica, or no partition, any more. Deviation BATCH_BEGUN_ANEW.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from controller.core.batch import RequestBatch
from controller.core.controller import Controller
from controller.core.deviations import BATCH_BEGUN_ANEW
from controller.core.errors import ControllerMovedError

REPLICAS: Final = "replica state machine"
PARTITIONS: Final = "partition state machine"


def has_unsent(controller: Controller, machine: str, target: str) -> bool:
    """Whether the machine can change nothing any more; the operator is told."""
    if machine not in controller.unsent:
        return False
    text = f"nothing is moved to {target}: requests of an earlier change were never sent"
    controller.notice("error", "batch_not_empty", machine, text)
    return True


@contextmanager
def unsent_kept(controller: Controller, machine: str, batch: RequestBatch) -> Iterator[None]:
    """A change that is fenced leaves what it wanted to send behind."""
    try:
        yield
    except ControllerMovedError:
        if not BATCH_BEGUN_ANEW.applies(controller.configuration) and not batch.is_empty:
            controller.unsent[machine] = None
        raise
