from pathlib import Path

from controller.settings.reference import page

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_the_page_is_fresh() -> None:
    made_by = "python -m controller.settings.reference > docs/settings.md"
    assert PAGE.read_text(encoding="utf-8") == page(), f"make it again: {made_by}"
