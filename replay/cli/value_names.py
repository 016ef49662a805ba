"""How the help names the values of options and arguments: `--seed N`, `--config PATH`, `LOG`.

Typer shows types of Python instead, such as `--seed <int range>` and `LOG <list[str]>`.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

_NAMES: Final = {
    "int": "N",
    "int range": "N",
    "float": "N",
    "float range": "N",
    "path": "PATH",
    "Path": "PATH",
    "file": "FILE",
    "directory": "DIR",
}
"""The names of values by Typer's texts for their types. A choice is already named by its values."""
_LIST: Final = re.compile(r"list\[(.*)\]")


def name_values(command: Any) -> None:
    """Let the help of a command and of its sub-commands name values.

    An option with a metavar keeps it. With a version of Typer that shows no types, nothing changes.
    """
    for parameter in command.params:
        typed = getattr(parameter, "display_type", None)
        if typed is not None:
            parameter.display_type = partial(_value_name, parameter, typed)
    for sub_command in getattr(command, "commands", {}).values():
        name_values(sub_command)


def _value_name(parameter: Any, typed: Callable[[Any], str], context: Any) -> str:
    if parameter.param_type_name == "argument":
        return ""  # The help shows its metavar.
    label = typed(context).strip("<>")
    if found := _LIST.fullmatch(label):
        label = found[1]
    if label == "str":
        return str(max(parameter.opts, key=len)).lstrip("-").upper()
    return _NAMES.get(label, label)
