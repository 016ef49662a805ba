"""Runs of mutation testing that are stopped."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.mutations.mutated_tree import (
    LISTS,
    ROOT,
    replace,
    write,
)

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
def test_stopped_run_leaves_no_process(tree: Path, number: signal.Signals) -> None:
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
