"""Defects that tests plant in the code at run time."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from controller.core import znodes
from controller.core.znodes import topics
from replay.explore.generators.scenarios import generic
from replay.explore.run import run
from replay.world.inputs import Input

Replace = Callable[[str, Any], None]


def leader_outside_of_isr(replace: Replace) -> None:
    """After the first leader epoch, the ISR is stored without the leader."""
    write_state = topics.write_state

    def without_leader(state: Any) -> bytes:
        if state.leader_epoch > 0 and state.leader >= 0 and len(state.isr) > 1:
            isr = tuple(one for one in state.isr if one != state.leader)
            state = structs.replace(state, isr=isr)
        return write_state(state)

    replace("controller.core.znodes.write_state", without_leader)


def plant() -> None:
    """Plant the defect in a worker process."""
    leader_outside_of_isr(lambda target, value: setattr(znodes, target.rpartition(".")[2], value))


def assert_defect_breaks(
    invariant: str, inputs: Sequence[Input], plant: Callable[[], None]
) -> None:
    """The inputs break an invariant once a defect is planted, and none before."""
    scenario = generic(standby=(False,))
    assert run(scenario, inputs).violation is None
    plant()
    found = run(scenario, inputs).violation
    assert found is not None
    assert found.invariant == invariant
