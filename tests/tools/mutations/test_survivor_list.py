"""The list of survivors of a small source tree."""

from pathlib import Path

import pytest

from tests.tools.mutations.mutated_tree import LISTS, REVIEWED, RULE, mutations, replace, write


def test_survivor_that_is_not_in_the_list_fails_the_run(tree: Path) -> None:
    replace(tree, "tests/test_rule.py", "larger(1, 2) == 2", "larger(1, 2)")
    status, output = mutations(tree, "--only", "rule.larger")
    assert status == 1
    assert "new survivor: rule.larger: always: if a > b" in output


@pytest.mark.long
def test_code_that_no_test_runs_survives(tree: Path) -> None:
    replace(tree, "tests/test_rule.py", 'assert (count("none"), count("small")) == (0, 1)', "pass")
    status, output = mutations(tree, "--only", "count")
    assert status == 1
    assert "new survivor: rule.count: remove: total += 1" in output
    assert "no test runs 3" in output


@pytest.mark.long
def test_written_list_keeps_reasons_and_marks_what_is_new(tree: Path) -> None:
    replace(tree, "tests/test_rule.py", "larger(1, 2) == 2", "larger(1, 2)")
    replace(tree, f"{LISTS}/survivors.toml", '["rule.larger"]', '["rule.larger"]\n"gone" = "x"')
    assert mutations(tree, "--write")[0] == 0
    listed = (tree / LISTS / "survivors.toml").read_text(encoding="utf-8")
    assert '"always: if a > b" = "unreviewed"' in listed
    assert "equal numbers are the same" in listed
    assert "gone" not in listed
    status, output = mutations(tree)
    assert status == 0
    assert "1 justified, 0 without a test that is wanted, 1 unreviewed" in output


@pytest.mark.long
def test_module_that_was_never_tried_as_a_whole_fails_no_run(tree: Path) -> None:
    replace(tree, "tests/test_rule.py", "larger(1, 2) == 2", "larger(1, 2)")
    write(tree, f"{LISTS}/survivors.toml", REVIEWED + '\n["product.rule"]\n"*" = "unreviewed"\n')
    status, output = mutations(tree)
    assert status == 0
    assert "1 justified, 0 without a test that is wanted, 1 unreviewed" in output
    assert mutations(tree, "--write")[0] == 0
    assert '"*"' not in (tree / LISTS / "survivors.toml").read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.parametrize("module", ["numbers.rule", "order"])
def test_function_that_moves_keeps_its_survivors(tree: Path, module: str) -> None:
    write(tree, f"product/{module.replace('.', '/')}.py", RULE)
    (tree / "product/rule.py").unlink()
    replace(tree, "tests/test_rule.py", "product.rule", f"product.{module}")
    assert mutations(tree)[0] == 0
