"""Whether the lists of rules and survivors fit the code, found without running a test."""

from pathlib import Path

from tools.mutations.errors import MutationError
from tools.mutations.functions import Function, module_paths, read_functions
from tools.mutations.operators import mutants_of
from tools.mutations.rules import named_mutant, read_rules, target_of
from tools.mutations.settings import MutationSettings, read_settings
from tools.mutations.survivors import by_short_name, missing_mutants, read_survivors


def list_errors(root: Path) -> list[str]:
    """An error for each entry that does not fit the tree. Raises MutationError for a file that
    cannot be read."""
    settings = read_settings(root)
    functions = read_functions(root, settings)
    listed, errors = by_short_name(read_survivors(root), functions)
    mutants = [mutant for one in functions for mutant in mutants_of(one)]
    errors += missing_mutants(listed, mutants)
    return errors + _rule_errors(root, settings, functions)


def _rule_errors(root: Path, settings: MutationSettings, functions: list[Function]) -> list[str]:
    modules = module_paths(root, settings)
    errors = []
    for rule in read_rules(root).all:
        try:
            target = target_of(rule, functions, modules)
            if rule.mutant and isinstance(target, Function):
                named_mutant(rule, target)
        except MutationError as error:
            errors.append(str(error))
    return errors
