"""Counts and quantiles of measured values."""

from controller.core.distribution import Distribution


def of(*values: float) -> Distribution:
    distribution = Distribution()
    for one in values:
        distribution.add(one)
    return distribution


def test_quantiles_between_two_values_are_interpolated() -> None:
    median, third, *higher = of(8, 1, 4, 2).quantiles()
    assert (median, third) == (3, 7)
    assert higher == [8, 8, 8, 8]


def test_only_value_is_every_quantile() -> None:
    assert of(5).quantiles() == [5] * 6


def test_quantile_at_the_place_of_the_last_value_is_that_value() -> None:
    assert of(1, 2, 4).quantiles()[1] == 4


def test_cleared_distribution_counts_from_zero() -> None:
    distribution = of(1, 2)
    assert distribution.count == 2
    distribution.clear()
    assert (distribution.count, distribution.quantiles()) == (0, [0] * 6)
