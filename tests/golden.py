"""Texts that are committed, and compared with what the code makes now."""

from difflib import unified_diff
from pathlib import Path

import pytest


def assert_golden(path: Path, text: str, *, is_written: bool) -> None:
    """Fail with the difference between a text and a committed file; first write it, if asked to."""
    if is_written:
        path.write_text(text, encoding="utf-8")
    golden = path.read_text(encoding="utf-8")
    differs = unified_diff(golden.split("\n"), text.split("\n"), path.name, "now", lineterm="")
    if found := list(differs):
        pytest.fail("\n".join(found), pytrace=False)
