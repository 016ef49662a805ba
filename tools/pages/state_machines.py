"""The partition and replica state machines as Mermaid state diagrams."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TypeVar

from controller.core.state_machines import PREVIOUS_PARTITION_STATES, PREVIOUS_REPLICA_STATES

State = TypeVar("State", bound=IntEnum)

_HEAD = """\
# State machines

The controller keeps a state for each partition and each replica. The diagrams show the changes of
state that are allowed. Any other change is logged, and the state stays as it was.

Generated from the controller's tables by `python -m tools.pages --write`.
"""


def page() -> str:
    """The whole page."""
    return "\n".join(
        [
            _HEAD,
            "## Partitions",
            "",
            "`controller/core/state_machines.py`, Kafka's PartitionState.",
            "",
            diagram(PREVIOUS_PARTITION_STATES, "NON_EXISTENT"),
            "",
            "## Replicas",
            "",
            "`controller/core/state_machines.py`, Kafka's ReplicaState.",
            "",
            diagram(PREVIOUS_REPLICA_STATES, "NON_EXISTENT"),
            "",
        ]
    )


def diagram(previous: Mapping[State, Sequence[State]], first: str) -> str:
    """One table as a fenced Mermaid diagram; an unknown object is in the state `first`."""
    arrows = [
        f"    {source.name} --> {target.name}"
        for target, sources in previous.items()
        for source in sources
    ]
    return "\n".join(["```mermaid", "stateDiagram-v2", f"    [*] --> {first}", *arrows, "```"])
