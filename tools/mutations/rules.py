"""Mutations written by hand, where no operator makes them: `tests/tools/mutations/rules.toml`.

Each names a function or a value of a module, never a line, so that an entry survives moves and
other changes of the function.
"""

import ast
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from tools.mutations.errors import MutationError
from tools.mutations.functions import Function, FunctionNode, function_named
from tools.mutations.operators import Mutant, mutants_of
from tools.mutations.patching import ImportedFunctions, replace_value

RULES: Final = "tests/tools/mutations/rules.toml"
RULES_MAX: Final = 200


class MutationRule(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A required behaviour of the code, and a change that breaks the behaviour, which a test must
    notice.

    The change is one of five:

    - `function` with `body`: statements that run in place of the function's, which they can call
      as `unchanged`.
    - `function` with `result`: an expression that is returned in place of `result`, what the
      function returned.
    - `function` with `mutant`: the name of a change that an operator makes, without the function.
    - `function` with `expression` and `becomes`: an expression in place of the only one with this
      code.
    - `value` with `becomes`: an expression for a name of a module, in which `old` is the value
      before.

    Names of functions and values are as long as it takes to be unambiguous. `diff` is a part of the
    name of the rule by which `refold diff` groups the change; empty: it changes no decision.
    """

    rule: str
    function: str = ""
    body: str = ""
    result: str = ""
    mutant: str = ""
    expression: str = ""
    value: str = ""
    becomes: str = ""
    diff: str = ""


class Rules(Struct, forbid_unknown_fields=True):
    """`rule`: a test must notice each. `planted`: changes for tools.planted_changes alone, because
    an operator makes them. `innocuous`: changes after which every decision is the same."""

    rule: list[MutationRule] = []
    planted: list[MutationRule] = []
    innocuous: list[MutationRule] = []

    @property
    def all(self) -> list[MutationRule]:
        """The entries of all three."""
        return [*self.rule, *self.planted, *self.innocuous]


def read_rules(root: Path) -> Rules:
    """The rules of a source tree. Raises MutationError for a bad or too long list."""
    path = root / RULES
    if not path.is_file():
        return Rules()
    try:
        rules = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Rules)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise MutationError(f"{RULES}: {error}") from error
    if len(rules.all) > RULES_MAX:
        count = len(rules.all)
        raise MutationError(f"{RULES}: {count} rules; at most {RULES_MAX} are kept by hand")
    for rule in rules.all:
        ways = sum(map(bool, (rule.body, rule.result, rule.mutant, rule.becomes)))
        by_value = bool(rule.value and rule.becomes)
        has_target = bool(rule.function) != by_value and bool(rule.value) == by_value
        has_expression = bool(rule.expression) == bool(rule.function and rule.becomes)
        if ways != 1 or not has_target or not has_expression:
            raise MutationError(
                f"{RULES}: {rule.rule!r} needs function with body, result, mutant, or expression "
                "and becomes; or value with becomes"
            )
    return rules


class Value(Struct, frozen=True):
    """A name that a module assigns."""

    path: Path
    module: str
    name: str


def target_of(
    rule: MutationRule, functions: Sequence[Function], modules: Sequence[tuple[Path, str]]
) -> Function | Value:
    """The object that a rule names. Raises MutationError, which names the rule."""
    try:
        if rule.function:
            return function_named(functions, rule.function)
        return _value_named(rule.value, modules)
    except MutationError as error:
        raise MutationError(f"{RULES}: {rule.rule!r}: {error}") from None


def _value_named(name: str, modules: Sequence[tuple[Path, str]]) -> Value:
    module_name, _, value_name = name.rpartition(".")
    fitting = [
        Value(path, module, value_name)
        for path, module in modules
        if f".{module}".endswith(f".{module_name}")
        and value_name in _assigned_names(path.read_text(encoding="utf-8"))
    ]
    if len(fitting) != 1:
        places = ", ".join(one.module for one in fitting) or "no module in scope"
        raise MutationError(f"{name} must be assigned in one module, and is in {places}")
    return fitting[0]


def _assigned_names(text: str) -> set[str]:
    targets: list[ast.expr] = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign):
            targets += node.targets
        elif isinstance(node, ast.AnnAssign):
            targets.append(node.target)
    return {one.id for one in targets if isinstance(one, ast.Name)}


def apply(rule: MutationRule, target: Function | Value, imported: ImportedFunctions) -> None:
    """Make the change in this process. Raises MutationError, or SyntaxError for a bad text."""
    if isinstance(target, Value):
        replace_value(target.module, target.name, rule.becomes)
        return
    change_tree(rule, target)
    imported.recompile(target)


def change_tree(rule: MutationRule, target: Function) -> None:
    """Make the change in the function's syntax tree. Raises MutationError for a mutant or an
    expression that the function does not have, SyntaxError for a bad text."""
    if rule.mutant:
        named_mutant(rule, target).apply()
        return
    if rule.expression:
        _replace_expression(rule, target)
        return
    node = target.node
    body = _parsed_statements(rule.body) if rule.body else _with_result(node, rule.result)
    node.body = [_unchanged_function(node), *body]


def _replace_expression(rule: MutationRule, target: Function) -> None:
    wanted = ast.dump(ast.parse(rule.expression, mode="eval").body)
    replacing = _Replacing(wanted, ast.parse(rule.becomes, mode="eval").body)
    replacing.visit(target.node)
    if replacing.count != 1:
        text = f"{target.full_name} has {replacing.count} times {rule.expression!r}"
        raise MutationError(f"{RULES}: {rule.rule!r}: {text}")


class _Replacing(ast.NodeTransformer):
    """Replaces expressions with the dump `wanted`, and counts them."""

    def __init__(self, wanted: str, new: ast.expr) -> None:
        self._wanted = wanted
        self._new = new
        self.count = 0

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and ast.dump(node) == self._wanted:
            self.count += 1
            return self._new
        visited: ast.AST = super().visit(node)
        return visited


def named_mutant(rule: MutationRule, target: Function) -> Mutant:
    """The mutant that a rule names. Raises MutationError if the function does not have it."""
    mutant = next((one for one in mutants_of(target) if one.key == rule.mutant), None)
    if mutant is None:
        text = f"{target.full_name} has no mutant {rule.mutant!r}"
        raise MutationError(f"{RULES}: {rule.rule!r}: {text}")
    return mutant


def _parsed_statements(text: str) -> list[ast.stmt]:
    """Statements, `return`, `await` and all."""
    lines = "\n".join(f"    {line}" for line in text.splitlines())
    (function,) = ast.parse(f"async def changed():\n{lines}\n").body
    assert isinstance(function, ast.AsyncFunctionDef)
    return function.body


def _unchanged_function(node: FunctionNode) -> FunctionNode:
    """The unchanged function, for use inside of the changed one."""
    if isinstance(node, ast.AsyncFunctionDef):
        return ast.AsyncFunctionDef("unchanged", node.args, node.body, [])
    return ast.FunctionDef("unchanged", node.args, node.body, [])


def _with_result(node: FunctionNode, expression: str) -> list[ast.stmt]:
    arguments = node.args
    by_place = [*arguments.posonlyargs, *arguments.args]
    call: ast.expr = ast.Call(
        ast.Name("unchanged", ast.Load()),
        [ast.Name(one.arg, ast.Load()) for one in by_place],
        [ast.keyword(one.arg, ast.Name(one.arg, ast.Load())) for one in arguments.kwonlyargs],
    )
    if isinstance(node, ast.AsyncFunctionDef):
        call = ast.Await(call)
    result = ast.Assign([ast.Name("result", ast.Store())], call)
    return [result, ast.Return(ast.parse(expression, mode="eval").body)]
