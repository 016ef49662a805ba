"""Usage errors in words that suit a command line.

Typer checks values with pydantic, whose messages are about Python: "Input should be a valid
integer, unable to parse string as an integer".
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import typer

from controller.escaping import escape_unprintable

_WORDS: Final = {
    "int_parsing": "{input!r} is not a whole number",
    "int_from_float": "{input!r} is not a whole number",
    "int_parsing_size": "{input!r} has too many digits",
    "float_parsing": "{input!r} is not a number",
    "greater_than_equal": "{input!r} is too small: give at least {ge}",
    "less_than_equal": "{input!r} is too large: give at most {le}",
    "value_error": "{error}",
}
"""The words about a value that cannot be used, by pydantic's type of the error."""


@contextmanager
def usage_errors_in_words() -> Iterator[None]:
    """Give the usage errors of the block messages for people. With a version of Typer that checks
    values itself, nothing changes."""
    try:
        yield
    except typer.BadParameter as error:
        # Pydantic is a part of Typer, not a dependency of refold.
        errors_of: Any = getattr(error.__cause__, "errors", None)
        found = errors_of()[0] if errors_of is not None else {}
        if found.get("type") in _WORDS:
            words = _WORDS[found["type"]].format(input=found["input"], **found.get("ctx", {}))
            error.message = escape_unprintable(words)
        raise
