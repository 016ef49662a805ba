import pytest

from tools.design_comparison.broker_failure import (
    CASES,
    FORMULAS,
    TITLES,
    Case,
    extrapolated,
    measure_failure,
)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("partitions", [10, 50])
def test_measured_operations_are_those_of_the_formulas(case: Case, partitions: int) -> None:
    failure = measure_failure(case, partitions)
    assert (failure.led, failure.followed) == (partitions // 5, partitions // 5 * 2)
    measured = {name: getattr(failure.operations, name) for name in FORMULAS[case]}
    assert measured == {name: formula.of(failure) for name, formula in FORMULAS[case].items()}


def test_every_case_has_a_title_and_formulas() -> None:
    assert list(TITLES) == list(FORMULAS) == list(CASES)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_formula_extrapolates_from_ten_to_a_hundred_partitions(case: Case) -> None:
    small = measure_failure(case, 10)
    large = extrapolated(small, 100)
    writes = {"0.8": 160, "controller": 60, "controller dies": 82}
    assert large.operations.writes == writes[case] == measure_failure(case, 100).operations.writes


def test_controller_needs_fewer_watches_and_no_wait() -> None:
    without, with_controller = measure_failure("0.8", 10), measure_failure("controller", 10)
    assert without.elected_ms > 1000 > 100 > with_controller.elected_ms
    assert with_controller.operations.events == 2 < without.operations.events
