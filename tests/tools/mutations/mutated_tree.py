"""A source tree with two functions, a table and three tests, and its mutation testing."""

import os
import subprocess
import sys
from pathlib import Path

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
