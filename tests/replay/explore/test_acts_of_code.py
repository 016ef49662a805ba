"""The table of the core's writes and requests is complete: it is compared with the code."""

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest
from msgspec import structs

import controller.core
from controller.core.commands import BrokerRequest
from replay.explore.acts_of_code import ACTS, REQUESTS, WRITES
from replay.explore.generators.scenarios import generic
from replay.explore.run import run
from replay.world.inputs import (
    CrashBroker,
    CrashController,
    CreateTopic,
    DeleteTopic,
    DeleteZnode,
    ExpireSession,
    HoldLink,
    Input,
    Reassign,
    StartController,
    Target,
)
from tests.replay.explore.test_run import INPUTS, small

_OPERATIONS = ("Create", "CreateSequential", "SetData", "Delete")
_LATER_IN_A_TRANSACTION = {
    ("controller_election._take_role", "SetData"),
    ("reassign_partitions_extra._move", "Delete"),
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


# The administrator asks again after the crash.
_CREATED_TWICE: tuple[Input, ...] = (
    CreateTopic(8_000, "new", ((1, 2),)),
    CrashController(8_000, "refold 100", 2, restart_after_ms=1),
)
# The transaction that deletes all znodes of the topic fails, and is sent again in two parts.
_WITHOUT_A_STATE: tuple[Input, ...] = (
    DeleteZnode(8_000, "/brokers/topics/orders/partitions/0/state"),
    DeleteTopic(8_100, "orders"),
)
# The first controller begins one of two reassignments, and the second controller ends it.
_DONE_IN_PART: tuple[Input, ...] = (
    HoldLink(7_900, "broker 3", "broker 2", 20_000),
    Reassign(8_000, (Target("orders", 0, (1, 2, 4)), Target("payments", 0, (2, 3))), "request"),
    CrashController(8_000, "refold 100", 4, "after", successor="stock 1"),
    StartController(19_000, "refold 100"),
    CrashBroker(19_500, 1, restart_after_ms=1_000),
    ExpireSession(19_501, "broker 1"),
)


@pytest.mark.parametrize(
    ("inputs", "act"),
    [
        (_CREATED_TWICE, "SetData /config/topics/T"),
        (_WITHOUT_A_STATE, "Delete /brokers/topics/T/partitions/N"),
        (_DONE_IN_PART, "SetData /admin/reassignment_requests/request_N"),
    ],
)
def test_act_that_few_runs_have_is_possible(inputs: Sequence[Input], act: str) -> None:
    scenario = structs.replace(generic(standby=(False,)), active_ms=30_000)
    assert act in run(scenario, inputs).coverage.acts_passed


def test_acts_of_a_run_are_in_the_table() -> None:
    assert run(small(), INPUTS).coverage.acts_passed <= set(ACTS)
