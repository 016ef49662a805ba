"""Measures which lines of the core a fold executes.

`sys.settrace` is enough, and works with every Python. coverage.py would be faster, but a new
required package would need a separate environment for each older version (`references`).
"""

import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, Self

import controller.core

CORE: Final = Path(controller.core.__path__[0])


class ExecutedLines:
    """A context manager that collects the lines of the core that this thread executes in it."""

    def __init__(self) -> None:
        self._missing: dict[CodeType, set[int] | None] = {}
        """The lines of each called code that were not executed yet; None: not of the core."""
        self._before: Any = None

    def by_file(self) -> dict[str, list[int]]:
        """The executed lines, sorted, by the file's path in the core."""
        found: dict[str, set[int]] = {}
        for code, missing in self._missing.items():
            if missing is not None:
                found.setdefault(_name_of(code), set()).update(_lines_of(code) - missing)
        return {name: sorted(lines) for name, lines in sorted(found.items())}

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code not in self._missing:
            is_core = code.co_filename.startswith(f"{CORE}/")
            self._missing[code] = _lines_of(code) if is_core else None
        # A code without missing lines runs without being traced.
        return self._line if self._missing[code] else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        missing = self._missing[frame.f_code]
        if event == "line" and missing:
            missing.discard(frame.f_lineno)
        return self._line

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)


def _lines_of(code: CodeType) -> set[int]:
    return {line for _, _, line in code.co_lines() if line}


def _name_of(code: CodeType) -> str:
    return Path(code.co_filename).relative_to(CORE).as_posix()
