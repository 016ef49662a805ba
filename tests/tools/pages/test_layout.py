"""docs/layout.md names what exists, and every folder of the code."""

import re
from itertools import chain

import pytest

from tools.pages.imports import LAYOUT_PAGE, PACKAGES, ROOT

TEXT = LAYOUT_PAGE.read_text(encoding="utf-8").partition("<!-- imports")[0]
NAMED = frozenset(re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:/[a-z_]+\.py)?)`", TEXT))
"""Paths from the root of the repository, and names that are no paths."""


def test_paths_that_the_page_names_exist() -> None:
    paths = [one for one in NAMED if "/" in one]
    assert paths
    assert [one for one in paths if not (ROOT / one).exists()] == []


@pytest.mark.parametrize("package", ["controller", "replay", "eventstore"])
def test_every_folder_is_on_the_page(package: str) -> None:
    folders = chain([ROOT / package], (ROOT / package).iterdir())
    parts = {
        str(one.relative_to(ROOT))
        for one in folders
        if (one / "__init__.py").exists() and one.name not in PACKAGES
    }
    assert sorted(parts - NAMED) == []
