"""Which topics failovers have read: a line tells, a little later
(KafkaController.initializeControllerContext)."""

import re
from bisect import bisect_right
from collections import defaultdict
from typing import Final

from replay.stock_clusters.imported_log.events import ControllerLogged

_BEGINS: Final = "] Initializing controller context"
_LISTED: Final = re.compile(r"\] Current list of topics in the cluster: \w+\((.*)\)")


class TopicsRead:
    """By broker, what its lines tell, in order."""

    def __init__(self) -> None:
        self._lines: dict[int, list[tuple[int, tuple[str, ...] | None]]] = defaultdict(list)

    def take(self, seq: int, logged: ControllerLogged) -> None:
        """A line of the log, in order."""
        listed = _LISTED.search(logged.text)
        if listed is not None:
            names = tuple(sorted(listed[1].split(", "))) if listed[1] else ()
            self._lines[logged.broker].append((seq, names))
        elif _BEGINS in logged.text:
            self._lines[logged.broker].append((seq, None))

    def told(self, broker: int, seq: int) -> tuple[str, ...] | None:
        """The topics that the failover has read that a broker is at; None where no line tells."""
        lines = self._lines.get(broker, [])
        place = bisect_right(lines, seq, key=lambda one: one[0])
        return lines[place][1] if place < len(lines) else None
