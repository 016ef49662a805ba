"""The output of a command, as lines for people or as one JSON object, and its exit status
(docs/reassign-reference.md#exit-status)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from controller.core.znodes import Entry
from controller.operator.reassignment.cluster_state import ClusterState
from controller.operator.reassignment.documents import Partition, Targets, format_partition
from controller.operator.reassignment.steps import Step, describe_step

DONE: Final = 0
"""Success; --verify: everything is complete."""
REFUSED: Final = 1
"""The cluster does not allow it, or rejected a part of it."""
UNUSABLE: Final = 2
"""The options or a file are invalid, or the cluster is not reachable."""
NOT_DONE_YET: Final = 3
"""--verify: in progress. --request: not started in time."""
NOT_AS_REQUESTED: Final = 4
"""--verify: ended with other replicas, or was changed. --request: not started."""

PrintLine = Callable[[str], None]


class ProgressReport:
    """Lines are printed at once: the assignment to go back to must be visible before anything is
    changed.

    `data` is the JSON object and `status` the exit status. `awaited` has the replicas of partitions
    after the command's reassignments have ended. `brokers` are those that the reassignments that
    the command cancels name: they may have a throttle even if they are dead.
    """

    def __init__(self, action: str, print_line: PrintLine, warn: PrintLine) -> None:
        self._print_line = print_line
        self._warn = warn
        self.data: dict[str, Any] = {"action": action}
        self.status = DONE
        self.awaited: Targets = {}
        self.brokers: frozenset[int] = frozenset()

    def print_line(self, line: str) -> None:
        """Print a line of the result."""
        self._print_line(line)

    def warn(self, line: str) -> None:
        """Print a warning for the operator."""
        self.data.setdefault("warnings", []).append(line)
        self._warn(f"Warning: {line}")

    def print_steps(self, steps: Iterable[Step]) -> None:
        """Print the steps of a dry run."""
        lines = [line for step in steps for line in describe_step(step)]
        self.data["steps"] = lines
        self.print_line("Nothing is changed (--dry-run). The steps would be:")
        for number, line in enumerate(lines, 1):
            self.print_line(f"{number}. {line}")


def pending_map(state: ClusterState, entries: Mapping[Partition, Entry]) -> str:
    """Entries and their originals, as KIP-236 C-26 prints them: Map(t-0 -> Map(replicas ->
    Buffer(4, 5), ...))."""
    texts = [
        f"{format_partition(name)} -> Map(replicas -> {_scala_buffer(entry.replicas)}, "
        f"original_replicas -> {_scala_buffer(state.origin(name))})"
        for name, entry in entries.items()
    ]
    return f"Map({', '.join(texts)})"


def pending_list(state: ClusterState, entries: Mapping[Partition, Entry]) -> list[dict[str, Any]]:
    """Entries and their originals for --json."""
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
