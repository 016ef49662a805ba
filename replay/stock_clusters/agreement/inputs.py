"""What a fold beside a controller was told that no transaction of others shows."""

from collections.abc import Iterator
from typing import Any

from controller.core.events import BrokerAnswered, TopicIdsDrawn
from controller.core.triggers import ApiCall, AutoPreferredReplicaLeaderElection

Input = ApiCall | AutoPreferredReplicaLeaderElection | BrokerAnswered | TopicIdsDrawn
"""Who asked for something, a time that was up, a broker's answer, ids that Kafka drew."""


class Inputs:
    """All of it in order, each with the record that the log had come to, and its time in ns. A copy
    goes on for itself."""

    def __init__(self) -> None:
        self._told: list[tuple[int, int, Input]] = []

    def __iter__(self) -> Iterator[tuple[int, int, Input]]:
        return iter(self._told)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Inputs":
        copied = Inputs()
        copied._told = list(self._told)
        return copied

    def add(self, seq: int, time_ns: int, told: object) -> None:
        """Note it, if it is one."""
        if isinstance(told, Input):
            self._told.append((seq, time_ns, told))
