"""The inputs of a trace's fold that no transaction of another session shows."""

from collections.abc import Iterator

from controller.core.events import BrokerResponded, TopicIdsDrawn
from controller.core.triggers import ApiCall, AutoPreferredReplicaLeaderElection
from replay.checkpoint import Checkpointed

FoldInput = ApiCall | AutoPreferredReplicaLeaderElection | BrokerResponded | TopicIdsDrawn
"""An API request, a timer, a broker's response, or the topic ids that Kafka drew."""


class FoldInputs(Checkpointed):
    """All inputs in order, each with the record that the log had reached, and its time in ns."""

    STATE = ("_inputs",)

    def __init__(self) -> None:
        self._inputs: list[tuple[int, int, FoldInput]] = []

    def __iter__(self) -> Iterator[tuple[int, int, FoldInput]]:
        return iter(self._inputs)

    def clear(self) -> None:
        """Forget all inputs."""
        self._inputs.clear()

    def add(self, seq: int, time_ns: int, value: object) -> None:
        """Add a value if it is such an input."""
        if isinstance(value, FoldInput):
            self._inputs.append((seq, time_ns, value))
