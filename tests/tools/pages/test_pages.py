"""Pages that are drawn from the code are as the code is."""

import pytest

from tools.pages import PAGES, ROOT


@pytest.mark.parametrize("name", PAGES)
def test_page_is_fresh(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == PAGES[name]()
