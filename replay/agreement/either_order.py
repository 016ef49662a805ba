"""Where no log tells which of two waiting events was taken first: the other order, tried out.

The order that is chosen does not look at what Kafka decided. Only when the fold's decision is not
Kafka's is the choice taken back, to see whether the other order fits: then it explains the
divergence (explaining.EITHER_ORDER), and the fold goes on in that order.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from controller.core.triggers import ApiCall, ConfigChange, Trigger

if TYPE_CHECKING:
    from replay.agreement.stock_controller import StockController

_CHOICES_MAX: Final = 4
_PARTITIONS_MAX: Final = 5_000
"""Of a cluster: to keep what a larger one was like costs more than it tells."""

Input = Callable[["StockController"], None]


class Choice:
    """The last choice of an event: how all was before it, and what has come since."""

    def __init__(self) -> None:
        self._before: StockController | None = None
        self._others: Sequence[Trigger] = ()
        self._inputs: list[Input] = []
        self.chosen: Trigger | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Choice:
        """What goes on from a copy has not chosen yet."""
        return Choice()

    def make(self, controller: StockController, chosen: Trigger, waiting: list[Trigger]) -> None:
        """An event is taken, maybe while others wait, too."""
        self.forget()
        size = sum(
            len(one.partitions) for one in controller.fold.controller.context.topics.values()
        )
        if size <= _PARTITIONS_MAX:
            self._before, self.chosen = _copied(controller), chosen
            if not isinstance(chosen, _ELSEWHERE):
                others = [
                    one for one in waiting if one != chosen and not isinstance(one, _ELSEWHERE)
                ]
                self._others = others[:_CHOICES_MAX]

    def note(self, input: Input) -> None:
        """What comes after the choice."""
        if self._before is not None:
            self._inputs.append(input)

    def forget(self) -> None:
        """The choice was right."""
        self._before, self.chosen, self._others, self._inputs = None, None, (), []

    def alternatives(self) -> Iterator[StockController]:
        """How it would have gone on with another event first."""
        for other in self._others:
            yield self._otherwise(partial(_take_first, other))

    def without(self, paths: Sequence[str]) -> StockController | None:
        """How it would have gone on without the event, which writes these znodes, so far."""
        chosen = self.chosen
        if chosen is None:
            return None
        return self._otherwise(lambda one: one.hold(chosen, paths))

    def _otherwise(self, choose: Input) -> StockController:
        assert self._before is not None, "nothing was chosen"
        controller = _copied(self._before)
        choose(controller)
        for input in self._inputs:
            input(controller)
        return controller


def _take_first(trigger: Trigger, controller: StockController) -> None:
    controller.take_first(trigger)


_ELSEWHERE: Final = (ApiCall, ConfigChange)
"""Events whose time is known, or that only refold has."""


def _copied(controller: StockController) -> StockController:
    """The same in a world that is shared."""
    shared = (*controller.world, controller.fold.sent, controller.judgements)
    copied = copy.deepcopy(controller, {id(one): one for one in shared})
    # Both go on from the same beginning, each for itself.
    copied.fold.sent = list(controller.fold.sent)
    copied.judgements = list(controller.judgements)
    return copied
