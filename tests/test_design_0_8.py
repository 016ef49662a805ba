"""Every sentence of the 0.8 replication design has tests or a reason in docs/rows/design-0.8.md."""

from tests.sentences import ROOT, assert_complete, assert_reasons, assert_shown

PAGE = ROOT / "docs/rows/design-0.8.md"
FOLDERS = ("tests/controller/kafka_0_8", "tests/replay/explore/kafka_0_8")
COUNTS = {"Z": 25, "K": 19, "N": 8, "B": 11}
"""The number of sentences in each section of the document."""


def test_every_sentence_is_there_once_and_in_order() -> None:
    assert_complete(PAGE, COUNTS)


def test_every_sentence_has_tests_that_exist_or_a_reason() -> None:
    assert_shown(PAGE, FOLDERS)


def test_reason_has_several_words() -> None:
    assert_reasons(PAGE)
