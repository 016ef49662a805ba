"""The source tree that is mutated."""

from pathlib import Path

import pytest

from tests.tools.mutations.mutated_tree import LISTS, PROJECT, REVIEWED, RULE, TESTS, write


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The source tree, with one mutant that survives and is reviewed."""
    write(tmp_path, "pyproject.toml", PROJECT)
    write(tmp_path, "product/__init__.py", "")
    write(tmp_path, "product/rule.py", RULE)
    write(tmp_path, "tests/test_rule.py", TESTS)
    write(tmp_path, f"{LISTS}/survivors.toml", REVIEWED)
    return tmp_path
