"""Every sentence of the 0.8 replication design has tests or a reason in docs/rows/design-0.8.md."""

import re
from collections.abc import Iterator
from typing import Final

from tests.sentences import ROOT, assert_complete, assert_reasons, assert_shown, rows

PAGE = ROOT / "docs/rows/design-0.8.md"
DOCUMENT = ROOT / "tests/documents/design-0.8.txt"
"""The document, from its first statement to its end."""
FOLDERS = ("tests/controller/kafka_0_8", "tests/replay/explore/kafka_0_8")
COUNTS = {"Z": 25, "K": 19, "N": 8, "B": 11}
"""The number of sentences in each section of the document."""

SECTIONS: Final = {"Key data structures": "K", "Key algorithms": "N", "Broker startup": "B"}
"""The headings in the document that begin a section; the first section, Z, has none."""
CODE: Final = "Code Block"
HEADINGS: Final = (CODE, "Configuration parameters", "brokerStartup()", "{", "}")
"""Lines that state nothing: they introduce, open or close what follows."""
_ITEM: Final = re.compile(r"^\s*\d+\. +")
_STRUCTURE: Final = re.compile(r"^(\w+) \{ *//.*$")


def test_every_sentence_is_there_once_and_in_order() -> None:
    assert_complete(PAGE, COUNTS)


def test_sentences_are_those_of_the_document() -> None:
    listed = [(one.section, plain(one.sentence)) for one in rows(PAGE)]
    assert listed == list(sentences(DOCUMENT.read_text(encoding="utf-8")))


def test_every_sentence_has_tests_that_exist_or_a_reason() -> None:
    assert_shown(PAGE, FOLDERS)


def test_reason_has_several_words() -> None:
    assert_reasons(PAGE)


def plain(text: str) -> str:
    """A text without markup, line breaks and typographic apostrophes."""
    return " ".join(text.replace("`", "").replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())


def sentences(document: str) -> Iterator[tuple[str, str]]:
    """Each sentence and each line of code, with its section. A field begins with the name of its
    structure; an item below one that ends with a colon begins with that."""
    section, before, is_code = "Z", "", False
    for line in document.splitlines():
        text = plain(_ITEM.sub("", line))
        if text in SECTIONS:
            section, before, is_code = SECTIONS[text], "", False
        elif opened := _STRUCTURE.match(text):
            before = f"{opened[1]}: "
        elif text.endswith(":"):
            before = f"{text} "
        elif text in HEADINGS:
            is_code, before = is_code or text == CODE, ""
        elif text:
            is_code = is_code and not (section == "Z" and _ITEM.match(line))
            # An item that is not below the one with the colon.
            if section == "N" and not line.startswith("    "):
                before = ""
            parts = [text.removeprefix("// ")] if is_code else re.split(r"(?<=\.) ", text)
            yield from ((section, f"{before}{part}") for part in parts)
