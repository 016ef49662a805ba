"""The diagrams in docs/layout.md and docs/design.md show what the code imports."""

import tomllib

from tools.pages.imports import ROOT, SPINE, diagram, imports, spine_diagram, spine_imports


def products() -> set[str]:
    """The layer of products in the import contract of replay."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one.get("containers") == ["replay"])
    return {f"replay.{one}" for one in layers[1].split(" | ")}


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


def test_module_that_imports_folders_is_a_box_apart_from_those_that_import_none() -> None:
    found = imports()
    assert "replay.znode_tree" in found["replay.subjects"]
    assert found["replay"] == frozenset()
    assert '    replay_subjects["replay/subjects.py"]' in diagram(found)


def test_imports_of_the_code_have_no_circle() -> None:
    found = imports()
    waiting = dict(found)
    while free := {one for one, imported in waiting.items() if not imported & waiting.keys()}:
        waiting = {one: imported for one, imported in waiting.items() if one not in free}
    assert waiting == {}


def test_core_imports_no_other_folder() -> None:
    assert imports()["controller.core"] == frozenset()


def test_every_product_is_a_box_of_the_spine() -> None:
    assert set(SPINE["Products"]) == products()


def test_every_box_of_the_spine_has_code() -> None:
    assert set(spine_imports()) == {one for boxes in SPINE.values() for one in boxes}


def test_arrow_of_the_spine_leads_to_the_code_that_imports() -> None:
    found = {one: frozenset[str]() for boxes in SPINE.values() for one in boxes}
    found["replay.verify"] = frozenset({"replay.logs.recorded_fold"})
    assert "    replay_logs_recorded_fold --> replay_verify" in spine_diagram(found)
