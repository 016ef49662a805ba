"""Mutation testing of a small source tree."""

import time
from pathlib import Path

import pytest

from tests.tools.mutations.mutated_tree import (
    ENDLESS,
    LISTS,
    PROJECT,
    REVIEWED,
    RULE,
    TEST_OF_ENDLESS,
    TESTS,
    commit,
    mutations,
    replace,
    write,
)


def test_score_and_reviewed_survivors_are_printed(tree: Path) -> None:
    write(tree, "product/rule.py", RULE + ENDLESS)
    write(tree, "tests/test_wait.py", TEST_OF_ENDLESS)
    status, output = mutations(tree)
    assert status == 0
    assert "score 90.9 %: 10 of 11 mutants are noticed (1 by a time-out)" in output
    assert "survivors: 0 new, 1 justified, 0 without a test" in output
    assert (tree / "product/rule.py").read_text(encoding="utf-8") == RULE + ENDLESS


@pytest.mark.long
def test_test_that_waits_for_ever_notices(tree: Path) -> None:
    waiting = """
from threading import Event

def ready() -> Event:
    event = Event()
    event.set()
    return event
"""
    test = "from product.rule import ready\n\ndef test_ready():\n    ready().wait()\n"
    write(tree, "product/rule.py", RULE + waiting)
    write(tree, "tests/test_ready.py", test)
    started = time.monotonic()
    assert "1 of 1 mutants are noticed" in mutations(tree, "--only", "ready")[1]
    assert time.monotonic() - started < 60


def test_functions_that_the_suite_froze_are_mutated(tree: Path) -> None:
    """`gc.freeze` hides objects from a search for the functions of the process."""
    write(
        tree,
        "tests/conftest.py",
        "import gc\n\n\ndef pytest_collection_finish():\n    gc.freeze()\n",
    )
    status, output = mutations(tree)
    assert (status, "score 83.3 %" in output) == (0, True), output


@pytest.mark.long
def test_unchanged_statements_are_not_mutated(tree: Path) -> None:
    pausing = RULE.replace(
        "        total += 1", "        total += 1\n        if total > 5:\n            pause()"
    ).replace("def larger", "def pause() -> None: ...\n\n\ndef larger")
    write(tree, "product/rule.py", pausing)
    status, output = mutations(tree)
    assert (status, "count: remove: pause()" in output) == (1, True), output
    write(tree, "pyproject.toml", PROJECT + 'unchanged = ["pause()"]\n')
    status, output = mutations(tree)
    assert (status, "survivors: 0 new" in output) == (0, True), output


@pytest.mark.long
def test_named_test_runs_although_it_does_not_run_the_function(tree: Path) -> None:
    """A line with the name of a test stays while the test notices."""
    write(
        tree,
        "tests/test_equal.py",
        """
import inspect

from product import rule

BEFORE = rule.larger.__code__.co_code


def test_code_is_the_same():
    assert rule.larger.__code__.co_code == BEFORE
""",
    )
    named = "test: tests/test_equal.py::test_code_is_the_same"
    listed = REVIEWED.replace("equivalent: equal numbers are the same either way", named)
    write(tree, f"{LISTS}/survivors.toml", listed)
    status, output = mutations(tree, "--only", "larger", "--write")
    assert (status, "score 100.0 %" in output, "can go" in output) == (0, True, False), output
    assert named in (tree / f"{LISTS}/survivors.toml").read_text(encoding="utf-8")
    replace(tree, "tests/test_equal.py", "== BEFORE", "!= None")
    status, output = mutations(tree, "--only", "larger")
    assert (status, "new survivor: rule.larger: compare" in output) == (1, True), output
    (tree / "tests/test_equal.py").unlink()
    status, output = mutations(tree, "--only", "larger")
    assert (status, "which is no test of the suite" in output) == (2, True), output


@pytest.mark.long
def test_mutants_with_a_named_test_are_tried_even_without_time(tree: Path) -> None:
    commit(tree)
    named = "test: tests/test_rule.py::test_first_is_larger"
    listed = REVIEWED.replace("equivalent: equal numbers are the same either way", named)
    write(tree, f"{LISTS}/survivors.toml", listed)
    status, output = mutations(tree, "--base", "HEAD", "--minutes", "1e-9")
    assert (status, "new survivor: rule.larger: compare" in output) == (1, True), output
    assert "no time for 5 mutants" in output


@pytest.mark.long
def test_new_survivor_gets_the_tests_outside_of_its_sample(tree: Path) -> None:
    """The one test that notices runs more lines than 600 others."""
    write(tree, "product/rule.py", RULE + "\n\ndef limit(a: int) -> int:\n    return min(a, 9)\n")
    notices = "    assert (count('small'), limit(10)) == (1, 9)"
    write(
        tree,
        "tests/test_limit.py",
        f"""
import pytest
from product.rule import count, limit


@pytest.mark.parametrize("number", range(600))
def test_idle(number):
    limit(number)


def test_limit():
{notices}
""",
    )
    status, output = mutations(tree, "--only", "limit")
    assert (status, "2 of 2 mutants are noticed" in output) == (0, True), output
    assert "not in the sample; name it to save time: rule.limit: call" in output
    assert "tests/test_limit.py::test_limit" in output
    replace(tree, "tests/test_limit.py", notices, "    assert (count('small'), limit(10))")
    status, output = mutations(tree, "--only", "limit")
    assert (status, "new survivor: rule.limit: call" in output) == (1, True), output
    status, output = mutations(tree, "--only", "limit", "--minutes", "1e-9")
    assert (status, "no time for 2 mutants" in output) == (0, True), output


@pytest.mark.long
def test_closure_that_exists_before_the_change_is_changed(tree: Path) -> None:
    closure = """

def at_least(least: int):
    def check(value: int) -> bool:
        return value >= least

    return check


is_positive = at_least(1)
"""
    test = """

def test_positive():
    assert (rule.is_positive(0), rule.is_positive(1)) == (False, True)
"""
    write(tree, "product/rule.py", RULE + closure)
    write(tree, "tests/test_rule.py", "from product import rule" + TESTS + test)
    status, output = mutations(tree, "--only", "at_least")
    assert status == 0
    assert "1 of 1 mutants are noticed" in output


@pytest.mark.parametrize("rest", ["    return a", "    else:\n        a = a\n    return a"])
def test_condition_that_always_holds_is_tried_by_the_tests_for_which_it_does_not_hold(
    tree: Path, rest: str
) -> None:
    """Both tests evaluate the condition, and test_large would run first."""
    write(tree, "product/rule.py", f"def limit(a):\n    if a > 9:\n        a = 9\n{rest}\n")
    if "else" not in rest:
        replace(tree, "product/rule.py", "a = 9", "return 9")
    tests = "import os\nfrom product.rule import limit\n"
    for name, number in (("large", 10), ("small", 1)):
        tests += f"""

def test_{name}():
    with open("build/{name}", "a") as processes:
        processes.write(f"{{os.getpid()}} ")
    limit({number})
"""
    write(tree, "tests/test_rule.py", tests)
    write(tree, "build/small", "")
    write(tree, f"{LISTS}/survivors.toml", "")
    mutations(tree, "--only", "limit", "--jobs", "1")
    large, small = (set((tree / "build" / name).read_text().split()) for name in ("large", "small"))
    assert len(small - large) == 1


@pytest.mark.long
def test_page_names_a_test_that_notices_nothing(tree: Path) -> None:
    replace(
        tree,
        "tests/test_rule.py",
        "def test_small",
        "def test_idle():\n    larger(1, 1)\n\n\ndef test_small",
    )
    write(
        tree, "page.md", "`tests/test_rule.py::test_idle`, `tests/test_rule.py::test_small_counts`"
    )
    status, output = mutations(tree)
    assert status == 1
    assert "notices no mutant: tests/test_rule.py::test_idle" in output
    assert "tests that pages name: 2, 1 notice no mutant, no time for 0" in output
    commit(tree)
    status, output = mutations(tree, "--base", "HEAD", "--minutes", "1e-9")
    assert status == 0
    assert "tests that pages name: 2, 0 notice no mutant, no time for 2" in output


# Limited time -------------------------------------------------------------------------------------


@pytest.mark.long
def test_functions_that_a_change_touches_are_tried_first(tree: Path) -> None:
    commit(tree)
    replace(tree, "product/rule.py", "total = 0", "total = int()")
    replace(tree, "tests/test_rule.py", '(count("none"), count("small")) == (0, 1)', "count")
    status, output = mutations(tree, "--base", "HEAD", "--minutes", "1e-9")
    assert status == 0
    assert "no time for 5 mutants" in output
    status, output = mutations(tree, "--base", "HEAD")
    assert status == 1
    assert output.index("rule.count") < output.index("score")


@pytest.mark.long
def test_map_of_an_equal_tree_is_used_again(tree: Path) -> None:
    commit(tree)
    first, second = mutations(tree, "--only", "larger"), mutations(tree, "--only", "larger")
    assert first[0] == second[0] == 0
    (kept,) = (tree / "build/mutations").iterdir()
    replace(tree, "product/rule.py", "total = 0", "total = int()")
    assert mutations(tree, "--only", "larger")[0] == 0
    assert kept not in (tree / "build/mutations").iterdir()


@pytest.mark.long
def test_only_tests_of_changed_files_are_measured_again(tree: Path) -> None:
    counted = """

def test_runs_are_counted():
    with open("build/{name}", "a") as runs:
        runs.write("x")
"""
    write(tree, "tests/test_rule.py", TESTS + counted.format(name="rule"))
    write(tree, "tests/test_other.py", counted.format(name="other"))
    write(tree, "build/rule", "")
    commit(tree)
    runs = [tree / "build/rule", tree / "build/other"]
    assert mutations(tree, "--only", "count")[0] == 0
    assert [one.read_text() for one in runs] == ["x", "x"]
    replace(tree, "tests/test_rule.py", "assert (count", "assert True or (count")
    status, output = mutations(tree, "--only", "count")
    assert [one.read_text() for one in runs] == ["xx", "x"]
    assert (status, "score 0.0 %" in output) == (1, True), output


def test_base_that_git_does_not_know_is_an_error(tree: Path) -> None:
    commit(tree)
    status, output = mutations(tree, "--base", "nowhere")
    assert status == 2
    assert "git diff: " in output
