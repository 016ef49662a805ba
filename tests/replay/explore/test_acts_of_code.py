"""The table of the core's writes and requests is complete: it is compared with the code."""

import ast
from pathlib import Path
from typing import get_args

import controller.core
from controller.core.commands import BrokerRequest
from replay.explore.acts_of_code import ACTS, REQUESTS, WRITES
from replay.explore.run import run
from tests.replay.explore.test_run import _INPUTS, small

_OPERATIONS = ("Create", "CreateSequential", "SetData", "Delete")
_LATER_IN_A_TRANSACTION = {
    ("controller_election._take_role", "SetData"),
    ("extra_znode._move", "Delete"),
}
"""Writes that never come first."""


def _writes_of_code() -> set[tuple[str, str]]:
    """Which operations each function of the core makes."""
    found = set()
    for file in Path(controller.core.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for call in ast.walk(node):
                function = call.func if isinstance(call, ast.Call) else None
                if isinstance(function, ast.Name) and function.id in _OPERATIONS:
                    found.add((f"{file.stem}.{node.name}", function.id))
    return found


def test_table_has_every_function_of_the_core_that_writes_and_its_operations() -> None:
    table = {(name, kind.split(" ")[0]) for name, kinds in WRITES.items() for kind in kinds}
    assert table | _LATER_IN_A_TRANSACTION == _writes_of_code()


def test_table_has_every_request_to_brokers() -> None:
    assert [one.split(" ")[0] for one in REQUESTS] == sorted(
        one.__name__ for one in get_args(BrokerRequest)
    )


def test_acts_of_a_run_are_in_the_table() -> None:
    assert run(small(), _INPUTS).coverage.acts_passed <= set(ACTS)
