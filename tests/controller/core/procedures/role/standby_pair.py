"""A standby next to a controller, on one simulated ZooKeeper."""

import re
from collections.abc import Sequence
from typing import Any

from controller.core import znodes
from controller.core.commands import Command, ReadChildren, ReadStats, ReadZnodes
from controller.core.standby import FOLLOW_TIMER
from replay.world.zookeeper import ZooKeeper
from tests.controller.core.cluster import Assignments, Cluster, Seen

_TOPIC_ID = re.compile(rb'"topic_id":"[^"]*"')


class StandbyPair:
    """Brokers with topics under an active daemon, and a standby that has followed so far."""

    def __init__(
        self,
        brokers: Sequence[int] = (1, 2, 3),
        topics: dict[str, Assignments] | None = None,
        **settings: Any,
    ) -> None:
        self._settings = settings
        self.active = Cluster(*brokers, **settings).start()
        for topic, partitions in (topics or {"t": {0: [1, 2], 1: [2, 3]}}).items():
            self.active.create_topic(topic, partitions)
        self.standby = Cluster(zookeeper=self.active.zookeeper, standby=True, **settings).start()

    @staticmethod
    def another_daemon(pair: "StandbyPair", *, standby: bool = True) -> Cluster:
        """Another daemon without the role, in the cluster of a pair."""
        return Cluster(zookeeper=pair.active.zookeeper, standby=standby).start()

    def follow(self) -> None:
        """The standby receives what has changed, and its timer fires."""
        self.standby.run()
        self.standby.fire(FOLLOW_TIMER)

    def take_over(self) -> Seen:
        """The active daemon dies, and the standby takes the role. Returns what the standby did."""
        seen = self.standby.seen()
        self.active.zookeeper.end_session(self.active.session)
        self.standby.run()
        return seen

    def take_over_as_cold(self) -> Cluster:
        """As `take_over`, with the same result as a daemon that has not followed, which is
        returned."""
        cold, before = self.cold_failover()
        seen = self.take_over()
        assert self.standby.is_active
        assert seen.requested() == before.requested()
        assert seen.notices() == before.notices()
        assert content(self.standby.zookeeper) == content(cold.zookeeper)
        return cold

    def cold_failover(self) -> tuple[Cluster, Seen]:
        """The same on a copy of ZooKeeper, by a daemon that has not followed."""
        zookeeper = self.active.zookeeper.copy()
        zookeeper.end_session(self.active.session)
        cold = Cluster(zookeeper=zookeeper, **self._settings)
        seen = cold.seen()
        return cold.start(), seen


def reads_of(seen: Seen) -> list[str]:
    """The paths that were read, in order; those of lists end in a slash."""
    found: list[str] = []
    for command in seen.commands:
        found += _paths(command)
    return found


def _paths(command: Command) -> list[str]:
    match command:
        case ReadZnodes(paths=paths) | ReadStats(paths=paths):
            return list(paths)
        case ReadChildren(path=path):
            return [f"{path}/"]
        case _:
            return []


def content(zookeeper: ZooKeeper) -> dict[str, tuple[bytes, int]]:
    """Data and version of every znode, except the time in /controller and the random topic ids."""
    return {
        path: (
            b"" if path == znodes.CONTROLLER else _TOPIC_ID.sub(b"", node.data or b""),
            node.version,
        )
        for path, node in zookeeper.dump().items()
    }
