"""Every deviation has tests."""

import pytest

from controller.core.deviations import ALL, Deviation
from tools.pages.deviations import page, shown_by_section


@pytest.mark.parametrize("deviation", ALL, ids=lambda one: one.name)
def test_every_deviation_has_its_tests(deviation: Deviation) -> None:
    assert shown_by_section().get(deviation.name)


def test_page_names_the_tests_of_a_deviation() -> None:
    tests = shown_by_section()["daemon-id-repaired"]
    assert all(f"  - `{one}`" in page().splitlines() for one in tests)
