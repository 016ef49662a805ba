"""Pages that are made from the code, or show its output, are up to date."""

from pathlib import Path

import pytest

from tools.pages import PAGES, ROOT
from tools.pages.marked import with_parts


# For a page with examples, each of their commands runs in a separate process.
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", PAGES)
def test_page_is_up_to_date(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == PAGES[name]()


def test_written_part_replaces_only_itself(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x: y -->\nold\n<!-- end of x -->\nb\n", encoding="utf-8")
    assert with_parts(page, {"x": "new"}) == "a\n<!-- x: y -->\n\nnew\n\n<!-- end of x -->\nb\n"
