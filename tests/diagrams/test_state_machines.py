"""The drawn state machines are those of the code."""

from tools.diagrams.__main__ import PAGE
from tools.diagrams.state_machines import page


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tools.diagrams"


def test_every_allowed_change_is_an_arrow() -> None:
    text = page()
    assert "    NEW --> ONLINE" in text
    assert "    OFFLINE --> DELETION_STARTED" in text
    assert "    NON_EXISTENT --> ONLINE" not in text
