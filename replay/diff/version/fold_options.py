"""What is to be found out while a log is folded."""

from msgspec import Struct, field

from controller.core.commands import CommandId, Issued
from controller.core.fold_observer import FoldObserver
from controller.core.triggers import ApiCall, Trigger
from replay.diff.version.decided import Deciding
from replay.diff.version.partition_timelines import Courses


class Causes(FoldObserver):
    """Knows on which controller event each command went out, by Kafka's name."""

    def __init__(self) -> None:
        self._cause = ""
        self._of: dict[CommandId, str] = {}

    def begins(self, trigger: Trigger) -> None:
        """A request is named by what it asks for."""
        named = trigger.request if isinstance(trigger, ApiCall) else trigger
        self._cause = type(named).__name__.removesuffix("Received")

    def issues(self, issued: Issued) -> None:
        """Part of what is under way."""
        self._of[issued.id] = self._cause

    def take(self) -> dict[CommandId, str]:
        """Of the commands since the last call."""
        taken, self._of = self._of, {}
        return taken


class Wanted(Struct):
    """Decisions, and the courses of partitions."""

    deciding: Deciding
    courses: Courses
    causes: Causes = field(default_factory=Causes)
