"""What a cancellation rolls back, as KIP-236 C-26 prints it. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from controller.core.znodes import Entry
from controller.operator.reassignment.documents import Partition, spelt
from controller.operator.reassignment.view import View


def pending_map(view: View, entries: Mapping[Partition, Entry]) -> str:
    """Entries and their originals: Map(t-0 -> Map(replicas -> Buffer(4, 5), ...)), see C-26."""
    texts = [
        f"{spelt(name)} -> Map(replicas -> {_buffer(entry.replicas)}, "
        f"original_replicas -> {_buffer(view.origin(name))})"
        for name, entry in entries.items()
    ]
    return f"Map({', '.join(texts)})"


def pending_list(view: View, entries: Mapping[Partition, Entry]) -> list[dict[str, Any]]:
    """The same for --json."""
    return [
        {
            "topic": name[0],
            "partition": name[1],
            "replicas": list(entry.replicas),
            "original_replicas": list(view.origin(name)),
        }
        for name, entry in entries.items()
    ]


def _buffer(brokers: Iterable[int]) -> str:
    return f"Buffer({', '.join(map(str, brokers))})"
