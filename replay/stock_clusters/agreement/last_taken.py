"""The last event that was taken by choice, and how it goes on if it was not taken yet.

An event is taken as soon as it can have been. If the session then writes something else first, the
choice is taken back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from controller.core.triggers import Trigger

if TYPE_CHECKING:
    from replay.stock_clusters.agreement.controller_trace import ControllerTrace

_PARTITIONS_MAX: Final = 5_000
"""Of a cluster: to keep what a larger one was like costs more than it tells."""

Input = Callable[["ControllerTrace"], None]


class LastTaken:
    """How all was before an event was taken, and what has come since."""

    def __init__(self) -> None:
        self._before: ControllerTrace | None = None
        self._inputs: list[Input] = []
        self.taken: Trigger | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> LastTaken:
        """What goes on from a copy has taken nothing yet."""
        return LastTaken()

    def take(self, controller: ControllerTrace, event: Trigger) -> None:
        """An event is about to be taken."""
        self.forget()
        size = sum(
            len(one.partitions) for one in controller.fold.controller.context.topics.values()
        )
        if size <= _PARTITIONS_MAX:
            self._before, self.taken = _copied(controller), event

    def note(self, input: Input) -> None:
        """What comes behind it."""
        if self._before is not None:
            self._inputs.append(input)

    def forget(self) -> None:
        """It was taken, as shows."""
        self._before, self.taken, self._inputs = None, None, []

    def without(self, paths: Sequence[str]) -> ControllerTrace | None:
        """How it goes on if the event, which writes these znodes, was not taken so far."""
        if self._before is None or self.taken is None:
            return None
        controller = _copied(self._before)
        controller.hold(self.taken, paths)
        for input in self._inputs:
            input(controller)
        return controller


def _copied(controller: ControllerTrace) -> ControllerTrace:
    """The same in a world that is shared."""
    shared = (*controller.world, controller.fold.sent, controller.judgements)
    copied = copy.deepcopy(controller, {id(one): one for one in shared})
    # Both go on from the same beginning, each for itself.
    copied.fold.sent = list(controller.fold.sent)
    copied.compared.judgements = list(controller.judgements)
    return copied
