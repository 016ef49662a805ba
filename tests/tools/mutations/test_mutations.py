"""Mutation testing of a source tree with two functions, a table and three tests."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LISTS = "tests/tools/mutations"
PROJECT = """
[tool.pytest.ini_options]
pythonpath = ["."]
addopts = ["--import-mode=importlib"]
timeout = 60
markers = ["lab: servers", "slow: takes seconds"]
asyncio_default_fixture_loop_scope = "function"

[tool.mutations]
modules = ["product"]
tests = ["tests"]
pages = ["page.md"]
"""
RULE = """
SIZES = {"none": 0, "small": 1}


def larger(a: int, b: int) -> int:
    if a > b:
        return a
    return b


def count(size: str) -> int:
    total = 0
    for _ in range(SIZES[size]):
        total += 1
    return total
"""
ENDLESS = """

def wait(until: int) -> int:
    now = 0
    while now < until:
        now += 1
    return now
"""
"""Without its last statement, the loop does not end."""
TESTS = """
from product.rule import count, larger


def test_first_is_larger():
    assert larger(2, 1) == 2


def test_second_is_larger():
    assert larger(1, 2) == 2


def test_small_counts():
    assert (count("none"), count("small")) == (0, 1)
"""
TEST_OF_ENDLESS = """
from product.rule import wait


def test_wait():
    assert (wait(0), wait(1)) == (0, 1)
"""
REVIEWED = """
["rule.larger"]
"compare: a > b -> a >= b" = "equivalent: equal numbers are the same either way"
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The source tree, with one mutant that survives and is reviewed."""
    write(tmp_path, "pyproject.toml", PROJECT)
    write(tmp_path, "product/__init__.py", "")
    write(tmp_path, "product/rule.py", RULE)
    write(tmp_path, "tests/test_rule.py", TESTS)
    write(tmp_path, f"{LISTS}/survivors.toml", REVIEWED)
    return tmp_path


def write(tree: Path, name: str, text: str) -> None:
    (tree / name).parent.mkdir(exist_ok=True, parents=True)
    (tree / name).write_text(text, encoding="utf-8")


def replace(tree: Path, name: str, old: str, new: str) -> None:
    text = (tree / name).read_text(encoding="utf-8")
    assert old in text
    write(tree, name, text.replace(old, new))


def commit(tree: Path) -> None:
    git = ["git", "-C", str(tree), "-c", "user.name=n", "-c", "user.email=e"]
    write(tree, ".gitignore", "build/\n__pycache__/\n")
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "."]):
        subprocess.run([*git, *arguments], check=True)


def mutations(tree: Path, *options: str) -> tuple[int, str]:
    """Exit status and what is printed."""
    command = [sys.executable, "-m", "tools.mutations", *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


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


def test_run_that_is_stopped_writes_what_it_has_tried(tree: Path) -> None:
    """The second function is tried after the first one. Then a test opens the pipe."""
    waiting = """

def test_count_waits():
    import time
    if count("small") != 1:
        with open("begun", "w") as begun:
            begun.write("x")
        time.sleep(600)
"""
    replace(tree, "tests/test_rule.py", "larger(1, 2) == 2", "larger(1, 2)")
    write(tree, "tests/test_rule.py", (tree / "tests/test_rule.py").read_text() + waiting)
    os.mkfifo(tree / "begun")
    command = [sys.executable, "-m", "tools.mutations", "--only", "rule", "--write", "--jobs", "1"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=tree, env=environment, stderr=subprocess.DEVNULL) as run:
        assert (tree / "begun").read_text(encoding="utf-8") == "x"
        run.send_signal(signal.SIGTERM)
        assert run.wait(timeout=40) == 128 + signal.SIGTERM
    listed = (tree / LISTS / "survivors.toml").read_text(encoding="utf-8")
    assert '"always: if a > b" = "unreviewed"' in listed


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


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (f"{LISTS}/survivors.toml", "rule.larger", "rule.biggest", "no function rule.biggest"),
        (f"{LISTS}/survivors.toml", "a > b -> a >= b", "a < b", "[rule.larger] has no mutant"),
        ("pyproject.toml", '["product"]', '["products"]', "modules: there is no products"),
        ("pyproject.toml", '["tests"]', '["testing"]', "tests: there is no testing"),
        ("tests/test_rule.py", "(2, 1) == 2", "(2, 1) == 3", "fail without any change"),
        ("tests/test_rule.py", "import count", "import missing, count", "cannot collect"),
    ],
)
def test_rule_that_does_not_fit_the_code_is_named_in_the_error(
    tree: Path, name: str, old: str, new: str, said: str
) -> None:
    replace(tree, name, old, new)
    status, output = mutations(tree)
    assert status == 2
    assert said in output
    assert "Traceback (most recent call last)" not in output.partition("pytest cannot")[0]


# Rules by hand ------------------------------------------------------------------------------------

RESULT = """
[[rule]]
rule = "the larger number is the result"
function = "rule.larger"
result = "min(a, b, result)"
"""
BODY = """
[[rule]]
rule = "the larger number is the result"
function = "rule.larger"
body = "return min(a, b)"
"""
VALUE = """
[[rule]]
rule = "a small size counts once"
value = "rule.SIZES"
becomes = "old | {'small': 3}"
"""


def test_rules_that_their_tests_notice_are_counted(tree: Path) -> None:
    """Planted and innocuous changes are not tried."""
    others = RESULT.replace("[[rule]]", "[[planted]]") + RESULT.replace("[[rule]]", "[[innocuous]]")
    write(tree, f"{LISTS}/rules.toml", RESULT + BODY + VALUE + others)
    status, output = mutations(tree)
    assert status == 0
    assert "rules by hand: 3, 0 of them not noticed" in output


@pytest.mark.long
def test_rule_that_no_test_notices_fails_the_run(tree: Path) -> None:
    write(tree, f"{LISTS}/rules.toml", RESULT.replace("min(a, b, result)", "max(a, b)"))
    status, output = mutations(tree)
    assert status == 1
    assert "rule: the larger number is the result: no test notices" in output


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rule.larger", "rule.largest", "there is no function rule.largest"),
        (
            "result =",
            "value =",
            "needs function with body, result, mutant, or expression and becomes",
        ),
        ('result = "min(a, b, result)"', 'mutant = "not: a"', "larger has no mutant 'not: a'"),
        ("rule =", "rules =", "rules.toml"),
    ],
)
def test_rule_that_does_not_fit_the_code_is_named(
    tree: Path, old: str, new: str, said: str
) -> None:
    write(tree, f"{LISTS}/rules.toml", RESULT.replace(old, new))
    status, output = mutations(tree)
    assert status == 2
    assert said in output
    assert ("the larger number is the result" in output) != (old == "rule =")


# Tests that pages name ----------------------------------------------------------------------------


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


SLOW_TEST = """
import os
import time
from pathlib import Path

from product.rule import larger


def test_slow():
    larger(1, 2)
    Path("process").write_text(str(os.getpid()))
    time.sleep(600)
"""


@pytest.mark.sampled
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_run_leaves_no_process_behind(tree: Path, number: signal.Signals) -> None:
    write(tree, "tests/test_slow.py", SLOW_TEST)
    os.mkfifo(tree / "process")
    command = [sys.executable, "-m", "tools.mutations"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=tree, env=environment, stderr=subprocess.DEVNULL) as run:
        test = int((tree / "process").read_text(encoding="utf-8"))
        run.send_signal(number)
        try:
            assert run.wait(timeout=40) in (128 + number, -number)
            with pytest.raises(ProcessLookupError):
                os.kill(test, signal.SIGKILL)
        finally:
            run.kill()
