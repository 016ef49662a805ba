"""The release of Kafka that a broker runs, derived from its API versions and not from its
inter.broker.protocol.version.

A broker that finds a topic configuration of a later release in ZooKeeper may fail. The broker then
does not start again, and its other partitions are lost, too.
"""

from collections.abc import Iterable
from typing import Final

Release = tuple[int, ...]
"""For example (2, 8)."""

OLDEST: Final[Release] = (2, 4)
LATEST: Final[Release] = (3, 9)

_PRODUCE: Final = 0
_FETCH: Final = 1
_UPDATE_METADATA: Final = 6
_OFFSET_FETCH: Final = 9
_JOIN_GROUP: Final = 11
_ADD_PARTITIONS_TO_TXN: Final = 24
_ALTER_CLIENT_QUOTAS: Final = 49
_ALTER_PARTITION: Final = 56

_FIRST_WITH: Final[tuple[tuple[Release, int, int], ...]] = (
    ((3, 9), _FETCH, 17),
    ((3, 8), _PRODUCE, 11),
    ((3, 7), _FETCH, 16),
    ((3, 6), _ADD_PARTITIONS_TO_TXN, 4),
    ((3, 5), _FETCH, 15),
    ((3, 4), _UPDATE_METADATA, 8),
    ((3, 3), _ALTER_PARTITION, 2),
    ((3, 2), _JOIN_GROUP, 9),
    ((3, 1), _FETCH, 13),
    ((3, 0), _OFFSET_FETCH, 8),
    ((2, 8), _PRODUCE, 9),
    ((2, 7), _FETCH, 12),
    ((2, 6), _ALTER_CLIENT_QUOTAS, 0),
    ((2, 5), _JOIN_GROUP, 7),
)
"""The latest release first. Each release is the first whose brokers in ZooKeeper mode support that
version of that API (validVersions in Kafka's *Request.json, the same in all patch releases)."""


def release_of(highest: Iterable[tuple[int, int]]) -> Release:
    """The release of a broker by the highest version of each API key."""
    offered = dict(highest)
    for release, api_key, version in _FIRST_WITH:
        if offered.get(api_key, -1) >= version:
            return release
    return OLDEST


def release_named(version: str) -> Release:
    """The release of a protocol or metadata version such as "2.8-IV1"."""
    return tuple(map(int, version.partition("-")[0].split(".")))
