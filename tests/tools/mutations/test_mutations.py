"""The tool that takes rules out, on a tree of one rule."""

import json
import subprocess
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from tools.mutations.__main__ import main

RULE = "def larger(a: int, b: int) -> int:\n    return a if a > b else b\n"
TESTS = """
from controller.rule import larger

def test_first():
    assert larger(2, 1) == 2

def test_second():
    assert larger(1, 2) == 2
"""
ENTRY = """
[[mutation]]
rule = "the larger one"
file = "controller/rule.py"
old = "a if a > b else b"
new = "{new}"
tests = ["tests/test_rule.py::test_first", "tests/test_rule.py::test_second"]
"""
SECOND = """
[[mutation]]
rule = "the larger one"
file = "controller/rule.py"
old = "a if a > b else b"
new = "a"
tests = ["tests/test_rule.py::test_second"]
"""

app = Typer()
app.command()(main)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree with one rule and two tests of it."""
    files = {
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n',
        "controller/__init__.py": "",
        "controller/rule.py": RULE,
        "tests/test_rule.py": TESTS,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "tests" / "mutations").mkdir()
    return tmp_path


def run(tree: Path, entries: str) -> tuple[int, str]:
    """Exit status and what is printed."""
    (tree / "tests" / "mutations" / "list.toml").write_text(entries, encoding="utf-8")
    result = CliRunner().invoke(app, ["--root", str(tree), "--json", "--jobs", "1"])
    return result.exit_code, result.output


def test_a_number_that_no_mutation_has_is_refused_at_once(tree: Path) -> None:
    (tree / "tests" / "mutations" / "list.toml").write_text(ENTRY.format(new="0"))
    result = CliRunner().invoke(app, ["--root", str(tree), "--only", "1", "--only", "99999"])
    assert result.exit_code == 2
    assert result.output == "--only 99999: the mutations are 1 to 1\n"


def test_rule_that_every_test_holds(tree: Path) -> None:
    status, output = run(tree, ENTRY.format(new="0"))
    assert status == 0
    (verdict,) = json.loads(output.splitlines()[-1])
    assert verdict["unmoved"] == []
    assert (tree / "controller" / "rule.py").read_text(encoding="utf-8") == RULE


def test_rule_that_is_kept_in_two_places(tree: Path) -> None:
    guarded = RULE.replace("    return", "    if a < b:\n        return b\n    return")
    rule = tree / "controller" / "rule.py"
    rule.write_text(guarded, encoding="utf-8")
    one = ENTRY.format(new="a").replace('"tests/test_rule.py::test_first", ', "")
    status, output = run(tree, one)
    assert status == 1
    assert json.loads(output.splitlines()[-1])[0]["unmoved"] == ["tests/test_rule.py::test_second"]
    also = """
[[mutation.also]]
file = "controller/rule.py"
old = "return b\\n"
new = "return a\\n"
"""
    status, output = run(tree, one + also)
    assert status == 0
    assert rule.read_text(encoding="utf-8") == guarded
    assert run(tree, one + also.replace("return b", "return c"))[0] == 2


def test_test_that_passes_without_the_rule_is_named(tree: Path) -> None:
    status, output = run(tree, ENTRY.format(new="a"))
    assert status == 1
    (verdict,) = json.loads(output.splitlines()[-1])
    assert verdict["unmoved"] == ["tests/test_rule.py::test_first"]


def test_mutation_that_cannot_be_run_is_not_taken_for_noticed(tree: Path) -> None:
    status, output = run(tree, ENTRY.format(new="("))
    assert status == 1
    assert "SyntaxError" in output


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("a if a > b", "a if a >= b", "the larger one"),
        ("rule.py", "other.py", "controller/other.py"),
        ("rule =", "role =", "list.toml"),
        ("test_first", "test_missing", "no test tests/test_rule.py::test_missing"),
    ],
)
def test_entry_that_does_not_fit_the_tree(tree: Path, before: str, after: str, named: str) -> None:
    status, output = run(tree, ENTRY.format(new="0").replace(before, after))
    assert status == 2
    assert named in output


def test_test_that_fails_anyway(tree: Path) -> None:
    (tree / "tests/test_rule.py").write_text(TESTS.replace("== 2", "== 3"), encoding="utf-8")
    status, output = run(tree, ENTRY.format(new="0"))
    assert status == 2
    assert "without any mutation" in output


def commit(tree: Path, files: dict[str, str]) -> None:
    """Write files, and commit all there is."""
    for name, text in files.items():
        (tree / name).write_text(text, encoding="utf-8")
    git = ["git", "-C", str(tree), "-c", "user.name=n", "-c", "user.email=e"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "."]):
        subprocess.run([*git, *arguments], check=True)


def tried(tree: Path, *options: str) -> list[int]:
    """The numbers of the mutations that a run tries."""
    result = CliRunner().invoke(app, ["--root", str(tree), "--json", "--jobs", "1", *options])
    assert result.exit_code == 0, result.output
    return [one["number"] for one in json.loads(result.stdout)]


def test_a_share_is_another_one_after_each_commit(tree: Path) -> None:
    commit(tree, {"tests/mutations/list.toml": SECOND * 4})
    first = tried(tree, "--share", "2")
    commit(tree, {"note": "more"})
    assert sorted(first + tried(tree, "--share", "2")) == [1, 2, 3, 4]
    assert len(first) == 2


@pytest.mark.parametrize("name", ["controller/rule.py", "tests/test_rule.py"])
def test_what_a_change_touches_is_tried_in_any_case(tree: Path, name: str) -> None:
    commit(tree, {"tests/mutations/list.toml": SECOND * 2})
    commit(tree, {name: (tree / name).read_text(encoding="utf-8") + "\n"})
    assert tried(tree, "--share", "50", "--base", "HEAD^") == [1, 2]
    commit(tree, {"note": "more"})
    assert tried(tree, "--share", "50", "--base", "HEAD^") == []


def test_so_is_a_mutation_that_is_new(tree: Path) -> None:
    commit(tree, {"tests/mutations/list.toml": SECOND})
    commit(tree, {"tests/mutations/more.toml": SECOND.replace("larger one", "smaller one")})
    assert tried(tree, "--share", "50", "--base", "HEAD^") == [2]


def test_a_tree_without_git_has_no_share(tree: Path) -> None:
    (tree / "tests" / "mutations" / "list.toml").write_text(SECOND, encoding="utf-8")
    result = CliRunner().invoke(app, ["--root", str(tree), "--share", "2"])
    assert result.exit_code == 2
    assert "git rev-list: " in result.output
