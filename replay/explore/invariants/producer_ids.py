"""Invariants of producer ids."""

from typing import ClassVar

from controller.core import znodes
from controller.core.api_requests import ApiRequest, ApiResponse
from controller.core.api_requests.producer_ids import AllocateProducerIdsResponse
from controller.core.error_codes import NONE
from controller.core.errors import ZnodeError
from replay.explore.invariants.invariant import Invariant, Report
from replay.explore.invariants.known_cluster import KnownCluster
from replay.names import is_broker
from replay.world.processes import is_controller


class ProducerIdsUnique(Invariant):
    """Source: KIP-730, KB 11.4. With the same id, the records of two idempotent producers can be
    taken for duplicates of each other."""

    NAME: ClassVar[str] = "producer-ids-unique"
    STATEMENT: ClassVar[str] = (
        "A block of producer ids that a controller answers never overlaps another one, nor one "
        "that a broker has allocated itself, unless a tool has changed /latest_producer_id_block."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._given: list[tuple[str, range]] = []
        """All blocks, each with the process that gave it out."""
        self._is_changed_by_tool = False

    def answered(self, process: str, request: ApiRequest | None, response: ApiResponse) -> None:
        if isinstance(response, AllocateProducerIdsResponse) and response.error == NONE:
            self._give(process, range(response.start, response.start + response.length))

    def producer_ids_written(self, data: bytes | None, process: str) -> None:
        if not process or is_controller(process):
            return
        block = _block(data) if is_broker(process) else None
        if block is None:
            self._is_changed_by_tool = True
        else:
            self._give(process, block)

    def _give(self, process: str, block: range) -> None:
        for other, given in self._given:
            is_apart = block.stop <= given.start or given.stop <= block.start
            if not is_apart and not self._is_changed_by_tool:
                self.violated(
                    znodes.PRODUCER_IDS,
                    f"{process} gave out {_text(block)}, and {other} gave out {_text(given)} "
                    "before",
                )
        self._given.append((process, block))


def _block(data: bytes | None) -> range | None:
    """The ids of a block's znode; None if it has none."""
    try:
        block = znodes.read_producer_ids(data or b"")
    except ZnodeError:
        return None
    return range(block.first, block.last + 1)


def _text(block: range) -> str:
    return f"the ids {block.start} to {block.stop - 1}"
