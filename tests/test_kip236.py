"""Every sentence of KIP-236 has tests or a reason in docs/rows/kip-236.md."""

from tests.sentences import ROOT, assert_complete, assert_reasons, assert_shown
from tools.mutations.settings import read_settings

PAGE = ROOT / "docs/rows/kip-236.md"
CORE = "tests/controller/core"
FOLDERS = (CORE, "tests/controller/operator/reassignment", "tests/lab/interrupted")
COUNTS = {"M": 13, "P": 6, "C": 29, "E": 8, "Q": 27, "F": 6, "D": 17, "X": 5}
"""The number of sentences in each section of the document."""


def test_every_sentence_is_there_once_and_in_order() -> None:
    assert_complete(PAGE, COUNTS)


def test_every_sentence_has_tests_that_exist_or_a_reason() -> None:
    assert_shown(PAGE, FOLDERS)


def test_reason_has_several_words() -> None:
    assert_reasons(PAGE)


def test_tests_that_the_page_names_are_checked_by_mutation_testing() -> None:
    """`make mutations` requires that every test in CORE that the page names notices a mutant."""
    settings = read_settings(ROOT)
    assert any(PAGE.relative_to(ROOT).match(pattern) for pattern in settings.pages)
    assert CORE in settings.tests
