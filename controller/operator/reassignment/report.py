"""What a command says, as lines for people or as one JSON object."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from controller.core.reassignment_znodes import Entry
from controller.operator.reassignment.cluster_state import ClusterState
from controller.operator.reassignment.documents import Partition, Targets, format_partition
from controller.operator.reassignment.steps import Step, describe_step

DONE: Final = 0
"""As asked for; of --verify: everything is complete."""
REFUSED: Final = 1
"""The cluster does not allow it, or refused a part of it."""
UNUSABLE: Final = 2
"""Options or a file cannot be used, or the cluster cannot be reached."""
NOT_DONE_YET: Final = 3
"""--verify: something is still under way. --request: not taken up in time."""
OTHERWISE: Final = 4
"""--verify: it ended with other replicas, or was changed. --request: not started."""

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
        lines = [line for step in steps for line in describe_step(step)]
        self.data["steps"] = lines
        self.say("Nothing is changed (--dry-run). The steps would be:")
        for number, line in enumerate(lines, 1):
            self.say(f"{number}. {line}")


def pending_map(state: ClusterState, entries: Mapping[Partition, Entry]) -> str:
    """Entries and their originals: Map(t-0 -> Map(replicas -> Buffer(4, 5), ...)), see C-26."""
    texts = [
        f"{format_partition(name)} -> Map(replicas -> {_scala_buffer(entry.replicas)}, "
        f"original_replicas -> {_scala_buffer(state.origin(name))})"
        for name, entry in entries.items()
    ]
    return f"Map({', '.join(texts)})"


def pending_list(state: ClusterState, entries: Mapping[Partition, Entry]) -> list[dict[str, Any]]:
    """The same for --json."""
    return [
        {
            "topic": name[0],
            "partition": name[1],
            "replicas": list(entry.replicas),
            "original_replicas": list(state.origin(name)),
        }
        for name, entry in entries.items()
    ]


def _scala_buffer(brokers: Iterable[int]) -> str:
    return f"Buffer({', '.join(map(str, brokers))})"
