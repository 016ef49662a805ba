"""Reads the JSON that another command has written, for a report that shows it."""

from pathlib import Path
from typing import TypeVar

import msgspec

from replay.errors import ReplayError, unreadable

Output = TypeVar("Output")


def read_output(path: Path, form: type[Output], command: str) -> Output:
    """The output of a command in a file. Raises ReplayError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=form)
    except OSError as error:
        raise unreadable(path, error) from error
    except msgspec.DecodeError as error:
        raise ReplayError(f"{path} is not the output of `{command}`: {error}") from error
