"""The diagrams of the state machines match the tables."""

from tools.pages.state_machines import page


def test_every_allowed_change_is_an_arrow() -> None:
    text = page()
    assert "    NEW --> ONLINE" in text
    assert "    OFFLINE --> DELETION_STARTED" in text
    assert "    NON_EXISTENT --> ONLINE" not in text
