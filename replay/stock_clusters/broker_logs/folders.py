"""Finds the broker that wrote a log, and the order of its rotated files.

A request log does not name its broker, but every line of the other logs in the same folder does.
Without such logs, the folder's name must end with the broker id, as in `broker-3`.
"""

import re
from collections.abc import Sequence
from datetime import tzinfo
from itertools import islice
from pathlib import PurePosixPath
from typing import Final

from replay.stock_clusters.broker_logs.lines import LineCounts, first_time_ms, lines_of
from replay.stock_clusters.zookeeper_log.data_folder import BrokerLog

UNKNOWN: Final = -1
"""The broker of a log if nothing names it."""

_NAMING: Final = re.compile(r"\[(?:Controller|Broker) id=(\d+)|\[\w+ controllerId=(\d+)\]")
_NUMBERED: Final = re.compile(r"(?:^|\D)(\d+)$")
_LINES_MAX: Final = 1000


def brokers_of(logs: Sequence[BrokerLog], zone: tzinfo) -> dict[PurePosixPath, int]:
    """The broker of each folder with logs, UNKNOWN if none is named."""
    found: dict[PurePosixPath, int] = {}
    for log in logs:
        folder = PurePosixPath(log.name).parent
        if found.get(folder, UNKNOWN) == UNKNOWN:
            found[folder] = _named_in(log, zone)
    for folder, broker in found.items():
        number = _NUMBERED.search(folder.name)
        if broker == UNKNOWN and number is not None:
            found[folder] = int(number[1])
    return found


def in_order(logs: Sequence[BrokerLog], zone: tzinfo) -> list[BrokerLog]:
    """Files of one kind in one folder, by the time of their first line; files without a time come
    last."""
    timed = [(first_time_ms(log.path, zone), log) for log in logs]
    return [
        log for _, log in sorted(timed, key=lambda one: (one[0] is None, one[0] or 0, one[1].name))
    ]


def _named_in(log: BrokerLog, zone: tzinfo) -> int:
    for line in islice(lines_of(log.path, zone, LineCounts()), _LINES_MAX):
        found = _NAMING.match(line.message)
        if found is not None:
            return int(found[1] or found[2])
    return UNKNOWN
