"""What the script of a recording did, action by action: the `actions` of scenario.json."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

Action = dict[str, Any]


def now_ms() -> int:
    """The wall clock, in ms since 1970."""
    return time.time_ns() // 1_000_000


class Journal:
    """Notes actions by their start; several may be under way at once."""

    def __init__(self) -> None:
        self.actions: list[Action] = []

    @contextmanager
    def action(self, name: str, **given: Any) -> Iterator[Action]:
        """An action with what it was given. More may be noted in what is yielded. An error of the
        block is noted and goes no further: many actions fail because of the incident."""
        noted: Action = {"start_ms": now_ms(), "end_ms": 0, "action": name, **given}
        self.actions.append(noted)
        try:
            yield noted
        except Exception as error:
            noted["error"] = spelt(error)
        finally:
            noted["end_ms"] = now_ms()

    def note(self, text: str) -> None:
        """Something to know when reading the actions."""
        with self.action("note", text=text):
            pass

    def failed(self, name: str, error: Exception) -> None:
        """Something that failed before its first action was noted."""
        at = now_ms()
        self.actions.append(
            {"start_ms": at, "end_ms": at, "action": "failed", "act": name, "error": spelt(error)}
        )


def spelt(error: BaseException) -> str:
    """An error as an action has it."""
    return f"{type(error).__name__}: {error}"
