"""The diagram of imports in docs/design.md shows what the code imports."""

from tools.pages.imports import diagram, imports


def test_direct_import_is_an_arrow() -> None:
    assert "    a --> b" in diagram({"a": frozenset({"b"}), "b": frozenset()})


def test_import_that_follows_from_others_is_left_out() -> None:
    text = diagram({"a": frozenset({"b", "c"}), "b": frozenset({"c"}), "c": frozenset()})
    assert "    a --> c" not in text
    assert "    b --> c" in text


def test_mutual_imports_are_both_arrows() -> None:
    text = diagram({"a": frozenset({"b", "c"}), "b": frozenset({"a", "c"}), "c": frozenset()})
    assert "    a --> b" in text
    assert "    b --> a" in text
    assert "    a --> c" in text


def test_core_imports_no_other_folder() -> None:
    assert imports()["controller.core"] == frozenset()
