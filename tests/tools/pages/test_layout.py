"""docs/layout.md and CONTRIBUTING.md name what exists; the former names every folder, and every
module that is directly in `controller`, `controller/core` or `replay`."""

import re
from itertools import chain
from pathlib import Path

import pytest

from tools.pages.imports import LAYOUT_PAGE, PACKAGES, ROOT

CONTRIBUTING_PAGE = ROOT / "CONTRIBUTING.md"
_PATH = re.compile(r"`([a-z_]+(?:/[a-z_0-9]+)*(?:/[a-z_0-9]+\.(?:py|toml))?)`")
"""A path from the root of the repository, or a name that is no path."""


def _text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("<!-- imports")[0]


NAMED = frozenset(_PATH.findall(_text_of(LAYOUT_PAGE)))


@pytest.mark.parametrize("page", [LAYOUT_PAGE, CONTRIBUTING_PAGE], ids=lambda one: one.name)
def test_paths_that_a_page_names_exist(page: Path) -> None:
    paths = [one for one in _PATH.findall(_text_of(page)) if "/" in one]
    assert paths
    assert [one for one in paths if not (ROOT / one).exists()] == []


def test_constants_that_a_checklist_names_are_in_its_files() -> None:
    rows = [one for one in _text_of(CONTRIBUTING_PAGE).splitlines() if one.startswith("| ")]
    missing = []
    for row in rows:
        files = [ROOT / one for one in _PATH.findall(row) if one.endswith(".py")]
        code = "".join(file.read_text(encoding="utf-8") for file in files)
        names = re.findall(r"`(_?[A-Z][A-Z_]+)`", row) if files else []
        missing += [one for one in names if not re.search(rf"^{one}\b", code, re.MULTILINE)]
    assert missing == []


@pytest.mark.parametrize("folder", ["controller/core", "controller/core/procedures"])
def test_every_part_of_the_core_is_on_the_page(folder: str) -> None:
    parts = [
        one.name
        for one in (ROOT / folder).iterdir()
        if (one / "__init__.py").exists() or (one.suffix == ".py" and one.name != "__init__.py")
    ]
    core = _text_of(LAYOUT_PAGE).partition("\n### The core\n")[2].partition("\n## ")[0]
    assert [one for one in parts if f"`{one}`" not in core] == []


def test_every_module_that_the_table_of_the_core_names_exists() -> None:
    core = _text_of(LAYOUT_PAGE).partition("\n### The core\n")[2].partition("\n| part of ")[0]
    modules = re.findall(r"`([a-z_0-9]+\.py)`", core)
    assert modules
    assert [one for one in modules if not (ROOT / "controller/core" / one).exists()] == []


@pytest.mark.parametrize("package", ["controller", "replay", "eventstore"])
def test_every_folder_is_on_the_page(package: str) -> None:
    folders = chain([ROOT / package], (ROOT / package).iterdir())
    parts = {
        str(one.relative_to(ROOT))
        for one in folders
        if (one / "__init__.py").exists() and one.name not in PACKAGES
    }
    assert sorted(parts - NAMED) == []


@pytest.mark.parametrize("package", ["controller", "replay"])
def test_every_module_directly_in_a_package_is_on_the_page(package: str) -> None:
    modules = {str(one.relative_to(ROOT)) for one in (ROOT / package).glob("*.py")}
    assert sorted(modules - NAMED - {f"{package}/__init__.py"}) == []
