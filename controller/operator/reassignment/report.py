"""What a command says, as lines for people or as one JSON object."""

from collections.abc import Callable, Iterable
from typing import Any

from controller.operator.reassignment.documents import Targets
from controller.operator.reassignment.statuses import DONE
from controller.operator.reassignment.steps import Step, described

Tell = Callable[[str], None]


class Report:
    """Lines are told at once: what goes back must be on the screen before anything is changed.

    `data` is the JSON object, `status` the exit status; `awaited` is what partitions have when the
    command has brought about what it began.
    """

    def __init__(self, action: str, tell: Tell, warn: Tell) -> None:
        self._tell = tell
        self._warn = warn
        self.data: dict[str, Any] = {"action": action}
        self.status = DONE
        self.awaited: Targets = {}

    def say(self, line: str) -> None:
        """A line of the answer."""
        self._tell(line)

    def warn(self, line: str) -> None:
        """Something that the operator ought to know."""
        self.data.setdefault("warnings", []).append(line)
        self._warn(f"Warning: {line}")

    def say_steps(self, steps: Iterable[Step]) -> None:
        """What would be done."""
        lines = [line for step in steps for line in described(step)]
        self.data["steps"] = lines
        self.say("Nothing is changed (--dry-run). The steps would be:")
        for number, line in enumerate(lines, 1):
            self.say(f"{number}. {line}")
