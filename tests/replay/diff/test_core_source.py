"""The code that a changed core uses: through packages, in functions of functions, as types of
fields."""

from pathlib import Path

import pytest

from replay.diff.core_source import CoreSource, read_core
from replay.diff.uncovered import CoreChanges, UncoveredCode, changes_between, uncovered
from tests.replay.diff.test_uncovered import changes, core, found


def core_with_package(folder: Path, package: str, value: str) -> CoreSource:
    """A core whose function `f` uses LIMIT of a package with a module `schema`."""
    user = "from controller.core.znodes import LIMIT\n\ndef f():\n    return LIMIT\n"
    core(folder, user=user)
    core(folder / "znodes", __init__=package, schema=value)
    return read_core(folder)


@pytest.mark.parametrize(
    ("package", "schema", "file"),
    [
        ("from controller.core.znodes.schema import LIMIT\n", "LIMIT = {}\n", "znodes/schema.py"),
        ("from controller.core.znodes.schema import MOST as LIMIT\n", "MOST = {}\n", ""),
        ("LIMIT = {}\n", "", "znodes/__init__.py"),
    ],
    ids=["imported by the package", "under another name", "of the package"],
)
def test_value_of_a_package_is_used(tmp_path: Path, package: str, schema: str, file: str) -> None:
    base, head = (
        core_with_package(tmp_path / one, package.format(limit), schema.format(limit))
        for one, limit in (("base", 1), ("head", 2))
    )
    changed = changes_between(base, head)
    assert uncovered(changed, head, {}, {"user.py": frozenset({4})}) == []
    name, file = ("LIMIT", file) if file else ("MOST", "znodes/schema.py")
    assert uncovered(changed, head, {}, {}) == [UncoveredCode(file, name, "head")]


@pytest.mark.parametrize(
    "inner",
    [
        "def g(limit=MOST):\n        pass",
        "def g(*, limit=MOST, other):\n        pass",
        "@limited(MOST)\n    def g():\n        pass",
    ],
    ids=["default value", "default value of a keyword", "decorator"],
)
def test_value_in_the_header_of_a_function_in_a_function_is_used(
    tmp_path: Path, inner: str
) -> None:
    text = f"MOST = 1\n\ndef f():\n    {inner}\n    return g\n"
    head = text.replace("= 1", "= 2")
    assert found(tmp_path / "a", text, head, 4) == []
    assert found(tmp_path / "b", text, head) == [UncoveredCode("m.py", "MOST", "head")]


FIELDS = "class A(Struct):\n    a: int\n\ndef f(one):\n    return one.a\n"


@pytest.mark.parametrize(
    ("old", "new"), [("int", "str"), ("int", "int = 0"), ("a: int", "a: int\n    b: int")]
)
def test_changed_or_new_field_is_changed(tmp_path: Path, old: str, new: str) -> None:
    assert changes(tmp_path, {"m": FIELDS}, {"m": FIELDS.replace(old, new)}) != CoreChanges()


def test_type_of_a_field_is_covered_where_the_field_is_used(tmp_path: Path) -> None:
    head = FIELDS.replace("int", "str")
    assert found(tmp_path / "a", FIELDS, head, 5) == []
    assert found(tmp_path / "b", FIELDS, head) == [UncoveredCode("m.py", "A.a", "head")]


def test_type_that_a_used_field_names_is_used(tmp_path: Path) -> None:
    text = f"Number = Annotated[int, Meta(ge=0)]\n\n{FIELDS.replace('int', 'Number')}"
    head = text.replace("ge=0", "ge=1")
    assert found(tmp_path / "a", text, head, 7) == []
    assert found(tmp_path / "b", text, head) == [UncoveredCode("m.py", "Number", "head")]


def test_annotation_of_a_class_without_bases_is_not_compared(tmp_path: Path) -> None:
    base = FIELDS.replace("(Struct)", "")
    assert changes(tmp_path, {"m": base}, {"m": base.replace("int", "str")}) == CoreChanges()


@pytest.mark.parametrize("scope", ["nonlocal", "global"])
def test_name_that_becomes_local_is_changed(tmp_path: Path, scope: str) -> None:
    base = (
        "a = 0\n\ndef f():\n    a = 1\n    def g():\n"
        f"        {scope} a\n        a = 2\n    g()\n    return a\n"
    )
    head = base.replace(f"        {scope} a\n", "")
    assert changes(tmp_path, {"m": base}, {"m": head}) != CoreChanges()
