"""The end of the active part: often a refold gets the role back.

Under a stock controller, few of the invariants about recovery are checked
(docs/invariants.md#after-the-last-fault).
"""

from collections.abc import Sequence
from typing import Final

from replay.explore.numbers import RandomNumbers
from replay.world.inputs import (
    NONE,
    CrashController,
    Input,
    KillController,
    StartController,
    StopBroker,
)
from replay.world.scenario import Scenario

_PERCENT: Final = 80


def with_refold_at_end(
    scenario: Scenario, inputs: Sequence[Input], numbers: RandomNumbers
) -> list[Input]:
    """The inputs, and those that give the role to a refold if it may have lost it permanently."""
    stock = {
        one.process: one.configuration.broker_id
        for one in scenario.controllers
        if one.configuration.is_broker
    }
    refolds = [one.process for one in scenario.controllers if one.process not in stock]
    started = _started_controllers(inputs)
    if not refolds or not any(one == NONE or one in stock for one in started):
        return list(inputs)
    if not numbers.chance(_PERCENT):
        return list(inputs)
    end_ms = scenario.active_ms - 1
    made: list[Input] = [StartController(max(0, end_ms - 2_000), numbers.choice(refolds))]
    # A stock controller gives up the role when its broker shuts down.
    made += [StopBroker(end_ms, stock[one], 0) for one in stock if one in started]
    return sorted([*inputs, *made], key=lambda one: one.at_ms)


def _started_controllers(inputs: Sequence[Input]) -> list[str]:
    """The controllers that inputs start, and "none" if a controller stays down."""
    found: list[str] = []
    for one in inputs:
        match one:
            case CrashController(successor=successor) | KillController(successor=successor):
                found.append(successor)
            case StartController(process=process):
                found.append(process)
            case _:
                pass
    return found
