"""Every deviation has tests."""

import re
from pathlib import Path

import pytest

from controller.core.deviations import ALL, Deviation
from tools.pages.deviations import page, shown_by_section


@pytest.mark.parametrize("deviation", ALL, ids=lambda one: one.name)
def test_every_deviation_has_its_tests(deviation: Deviation) -> None:
    assert shown_by_section().get(deviation.name)


def test_every_deviation_has_a_test_that_it_is_observed() -> None:
    """A report has the deviations of which the fold notifies its observer."""
    modules = Path("tests/controller/core").rglob("test_*.py")
    marked = [
        name
        for module in modules
        for name in re.findall(r'@pytest\.mark\.deviates\("(.+)"\)', module.read_text())
    ]
    assert {*marked} == {one.name for one in ALL}


def test_page_names_the_tests_of_a_deviation() -> None:
    tests = shown_by_section()["daemon-id-repaired"]
    assert all(f"  - `{one}`" in page().splitlines() for one in tests)
