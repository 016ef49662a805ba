"""Each planted defect breaks an invariant in its directed run, and the right code breaks none."""

import pytest

from replay.explore.run import run
from tests.races.catalogue import DEFECTS
from tests.races.defect import Defect
from tests.races.planting import take_reached


@pytest.mark.parametrize("defect", DEFECTS.values(), ids=DEFECTS)
def test_planted_defect_breaks_an_invariant_in_its_directed_run(defect: Defect) -> None:
    assert defect.directed is not None, "a defect needs a directed run"
    scenario, inputs = defect.directed()
    with defect.plant():
        outcome = run(scenario, inputs)
        assert take_reached(), f"the run does not have what the race needs: {defect.needs}"
    assert outcome.violation is not None
    assert outcome.violation.invariant in defect.invariants, outcome.violation


@pytest.mark.sampled
@pytest.mark.parametrize("defect", DEFECTS.values(), ids=DEFECTS)
def test_code_without_the_defect_breaks_nothing_in_the_directed_run(defect: Defect) -> None:
    assert defect.directed is not None, "a defect needs a directed run"
    scenario, inputs = defect.directed()
    assert run(scenario, inputs).violation is None
