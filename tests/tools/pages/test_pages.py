"""Pages that are made from the code, or show its output, are up to date."""

import pytest

from tools.pages import PAGES, ROOT


# For a page with examples, each of their commands runs in a separate process.
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", PAGES)
def test_page_is_up_to_date(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == PAGES[name]()
