"""The actions of a recording's script: the `actions` of scenario.json."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

Action = dict[str, Any]


def now_ms() -> int:
    """The wall clock, in ms since 1970."""
    return time.time_ns() // 1_000_000


class Journal:
    """Notes actions, ordered by their start; several may run at the same time."""

    def __init__(self) -> None:
        self.actions: list[Action] = []

    @contextmanager
    def action(self, name: str, **given: Any) -> Iterator[Action]:
        """Note an action with its parameters. The block can add to the yielded dict. An error of
        the block is noted and suppressed: many actions fail because of the incident."""
        noted: Action = {"start_ms": now_ms(), "end_ms": 0, "action": name, **given}
        self.actions.append(noted)
        try:
            yield noted
        except Exception as error:
            noted["error"] = error_text(error)
        finally:
            noted["end_ms"] = now_ms()

    def note(self, text: str) -> None:
        """Note a text for readers of the actions."""
        with self.action("note", text=text):
            pass

    def failed(self, name: str, error: Exception) -> None:
        """Note an operation that failed before its first action."""
        at = now_ms()
        self.actions.append(
            {
                "start_ms": at,
                "end_ms": at,
                "action": "failed",
                "operation": name,
                "error": error_text(error),
            }
        )


def error_text(error: BaseException) -> str:
    """An error as noted in an action."""
    return f"{type(error).__name__}: {error}"
