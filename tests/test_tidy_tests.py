"""Rules of tests that no linter knows: a test drives the code by real input, and does not depend on
names that a change of behaviour leaves alone."""

import ast
import re
from collections.abc import Iterator
from itertools import chain

from tests.test_tidy import ROOT, SHIPPED, at, modules, tree_of

PRIVATE_NAMES_ALLOWED = {
    "tests/lab/secured/comparison.py": "the attribute _versions of a connection of aiokafka",
    "tests/races/": "a planted race is a defect in the function that had it, private or not",
}
"""Where tests may use private names of the code, with the reason."""
REPLACEMENTS_ALLOWED = {
    "a defect is planted, which a tool or the caller must report": (
        "controller/core/conftest.py",
        "controller/core/procedures/topics/test_creations_together.py",
        "controller/kafka_0_8/test_acls_of_znodes.py",
        "replay/agreement/test_live.py",
        "replay/cli/debug/test_app.py",
        "replay/explore/invariants/test_identity_invariants.py",
        "replay/explore/kafka_0_8/test_broker_search.py",
        "replay/explore/kafka_0_8/test_planted_defects.py",
        "replay/explore/test_reached_defects.py",
        "replay/explore/test_run.py",
        "replay/shadow/test_shadow.py",
        "replay/what_if/test_running.py",
        "tools/agreement/test_corruptions.py",
    ),
    "an event at one moment between two steps, which input cannot hit": (
        "controller/daemon/test_daemon.py",
        "controller/kafka_0_8_broker/test_brokers.py",
        "controller/operator/reassignment/test_requesting.py",
        "eventstore/test_complete.py",
        "replay/cli/test_explore.py",
        "replay/incidents/test_imported_cutting.py",
    ),
    "the simulated cluster is used in place of servers": (
        "controller/cli/test_reassign.py",
        "tools/demo/kafka_0_8/test_kafka_0_8.py",
        "tools/shadow/test_printed.py",
        "tools/shadow/test_timeout.py",
    ),
    "the simulated ZooKeeper has no ACLs and no chroot": (
        "controller/kafka_0_8/conftest.py",
        "controller/kafka_0_8/procedures/test_started_again.py",
        "controller/kafka_0_8/test_reports.py",
    ),
    "calls are recorded, which only the time or the memory would show otherwise": (
        "controller/core/procedures/admin/test_waiting_requests.py",
        "replay/explore/test_late_requests.py",
        "replay/fleet/analysis/test_analyse.py",
        "replay/fleet/replaying/test_replay.py",
    ),
    "the handlers of pytest stay": ("controller/daemon/test_reloading.py",),
}
"""Files of tests that may replace functions of the code, by reason."""
STATE_SET_BY_HAND = {
    "a procedure runs alone, on a state that its harness sets": (
        "controller/core/batches.py",
        "controller/core/driving.py",
    ),
    "the context itself is tested": (
        "controller/core/test_election.py",
        "controller/core/test_metrics.py",
        "controller/core/test_state.py",
    ),
    "the harness takes the steps of the fold one by one": (
        "controller/core/test_metrics_observer.py",
    ),
    "a planted race is a defect that changes the state": (
        "races/restarts.py",
        "races/roles.py",
        "races/sessions.py",
        "races/watches.py",
    ),
}
"""Files of tests that may set the state of a controller, by reason."""
HOLDERS_OF_STATE = {"context", "controller", "fold", "standby"}
HOOKS = {"observer", "order"}
"""The attributes of a controller that a caller of the core may set."""
CHANGING_METHODS = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem"),
    *("popleft", "remove", "setdefault", "update"),
}


def is_private(name: str) -> bool:
    """Whether a name begins with one underscore. The methods of named tuples are public."""
    return re.match(r"_[^_]", name) is not None and name not in {"_asdict", "_fields", "_replace"}


def own_names(tree: ast.AST) -> set[str]:
    """The names that a module defines: functions, classes, variables, attributes of `self`."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Attribute(value=ast.Name("self"), attr=name, ctx=ast.Store()):
                names.add(name)
    return names


def other_names(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """The names that a module imports, reads from or sets in an object, or overrides and calls with
    `super()`, unless it defines them itself."""
    own = own_names(tree)
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(names=names):
                yield from ((node, alias.name) for alias in names)
            case ast.Attribute(value=ast.Name("self" | "cls"), attr=name) if name in own:
                pass
            case ast.Attribute(attr=name):
                yield node, name
            case ast.Call(func=ast.Attribute(attr=called) | ast.Name(called), args=args):
                if called in {"delattr", "getattr", "setattr"}:
                    texts = [one.value for one in args[:2] if isinstance(one, ast.Constant)]
                    yield from ((node, str(text).rpartition(".")[2]) for text in texts)


def test_tests_use_no_private_name_of_the_code() -> None:
    """A private name may change or go without a change of behaviour. A test would fail then."""
    private = set().union(*(own_names(tree_of(one)) for one in modules(*SHIPPED, "tools")))
    used = [
        f"{at(module, node)} {name}"
        for module in modules("tests")
        if not str(module.relative_to(ROOT)).startswith(tuple(PRIVATE_NAMES_ALLOWED))
        for node, name in other_names(tree_of(module))
        if is_private(name) and name in private
    ]
    assert not used


def imported_names(tree: ast.AST) -> dict[str, str]:
    """Where the names that a module imports are from, by name."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found |= {(one.asname or one.name).partition(".")[0]: one.name for one in names}
            case ast.ImportFrom(module=str(module), names=names):
                found |= {one.asname or one.name: module for one in names}
    return found


def replaced_names(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """The names that a module sets or deletes in an object, except in what it imports from the
    tests, the standard library or another project."""
    origins = imported_names(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(called) | ast.Attribute(attr=called), args=[first, *rest]):
                if called not in {"delattr", "setattr", "patch", "object"}:
                    continue
                root = first
                while isinstance(root, ast.Attribute):
                    root = root.value
                origin = origins.get(root.id, "") if isinstance(root, ast.Name) else ""
                name = first if isinstance(first, ast.Constant) or not rest else rest[0]
                is_ours = not origin or origin.partition(".")[0] in (*SHIPPED, "tools")
                if is_ours and isinstance(name, ast.Constant):
                    yield node, str(name.value).rpartition(".")[2]


def test_tests_replace_no_function_of_the_code() -> None:
    """Such a test asserts which function calls which. It would not notice a defect of the function,
    and would fail when the function has another name. Drive the code by real input instead."""
    functions = {
        node.name
        for module in modules(*SHIPPED, "tools")
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    replaced = {
        f"{at(module, node)} {name}": str(module.relative_to(ROOT / "tests"))
        for module in modules("tests")
        for node, name in replaced_names(tree_of(module))
        if name in functions
    }
    allowed = [one for files in REPLACEMENTS_ALLOWED.values() for one in files]
    assert [one for one, module in replaced.items() if module not in allowed] == []
    assert [one for one in allowed if one not in replaced.values()] == []


def names_in(node: ast.AST) -> Iterator[str]:
    """The names of an expression such as `a.b["key"].c()`, from the last to the first."""
    match node:
        case ast.Attribute(value=value, attr=name):
            yield name
            yield from names_in(value)
        case ast.Subscript(value=value) | ast.Call(func=value):
            yield from names_in(value)
        case ast.Name(id=name):
            yield name


def changed_objects(tree: ast.AST) -> Iterator[ast.expr]:
    """The expressions that a module assigns to, deletes, or changes by a method, except names."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                yield node
            case ast.Subscript(ctx=ast.Store() | ast.Del()):
                yield node
            case ast.Call(func=ast.Attribute(value=ast.Attribute() as changed, attr=method)):
                if method in CHANGING_METHODS:
                    yield changed


def test_tests_set_no_state_of_a_controller_by_hand() -> None:
    """Such a state may be one that no events lead to, and its attributes may get other names. Let
    events, requests or the simulated cluster bring it about."""
    changed = {
        f"{at(module, node)} {ast.unparse(node)}": str(module.relative_to(ROOT / "tests"))
        for module in modules("tests")
        for node in changed_objects(tree_of(module))
        for names in [[*names_in(node)]]
        if HOLDERS_OF_STATE.intersection(names[1:]) and names[0] not in HOOKS
    }
    allowed = [*chain.from_iterable(STATE_SET_BY_HAND.values())]
    assert [one for one, module in changed.items() if module not in allowed] == []
    assert [one for one in allowed if one not in changed.values()] == []
