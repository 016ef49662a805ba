"""What lines of state-change.log say that a controller has read.

Below protocol version 2.7 a leader writes the ISR itself, maybe while a controller takes replicas
out of it. Of partitions that need no write then the line tells which state was read
(ReplicaStateMachine.doRemoveReplicasFromIsr).
"""

import re
from bisect import bisect_right
from collections import defaultdict
from typing import Final

from controller.core import znodes
from replay.stock_clusters.imported_log.events import StateChangeLogged

_LINE: Final = re.compile(r"Partition (\S+)-(\d+) state changed to \(.*?ZkVersion:(\d+)")
_SOON: Final = 300
"""Records within which the line of a read stands."""


class StatesRead:
    """By controller and epoch, the versions of states that lines tell of."""

    def __init__(self) -> None:
        self._told: dict[tuple[int, int, str], list[tuple[int, int]]] = defaultdict(list)

    def take(self, seq: int, logged: StateChangeLogged) -> None:
        """A line of the log, in order."""
        found = _LINE.search(logged.text)
        if found is not None:
            path = znodes.state_path(found[1], int(found[2]))
            self._told[logged.broker, logged.epoch, path].append((seq, int(found[3])))

    def version(self, broker: int, epoch: int, path: str, seq: int) -> int | None:
        """That of the state that a controller reads at a record, where a line tells: it may be
        one higher, if the controller has written it."""
        told = self._told.get((broker, epoch, path), [])
        place = bisect_right(told, seq, key=lambda one: one[0])
        if place == len(told) or told[place][0] > seq + _SOON:
            return None
        return told[place][1]
