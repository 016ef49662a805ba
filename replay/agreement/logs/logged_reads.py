"""The controllers' reads from ZooKeeper, as far as their logs show them.

No log records a read. Some lines of controller.log and state-change.log show its result a little
later: which topics and brokers were listed, and at which version a partition's state was read.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from controller.core import znodes
from replay.agreement.logs.markers import LogMarker
from replay.stock_clusters.imported_log.events import ControllerLogged, StateChangeLogged

ListedChildren = tuple[str, tuple[str, ...]]
"""A znode path, and the children that were listed there."""

_LIVE_BROKERS: Final = "] Initialized broker epochs cache: "
_FAILOVER_BEGINS: Final = "] Initializing controller context"
_TOPICS: Final = re.compile(r"\] Current list of topics in the cluster: \w+\((.*)\)")
_STATE: Final = re.compile(r"Partition (\S+)-(\d+) state changed to \(.*?ZkVersion:(\d+)")
_STATE_RECORDS_MAX: Final = 300
"""A read of a state and its line are at most this many records apart."""
_UPDATE_METADATA: Final = "update_metadata"
_NO_PARTITION: Final = " for 0 partitions"
_FAILOVER_STAGES: Final = (
    ("Initializing controller context", (znodes.BROKER_IDS,)),
    ("Initialized broker epochs cache", (znodes.TOPICS,)),
    ("Register BrokerModifications handler", ("/state'", znodes.DELETE_TOPICS)),
    ("Currently active brokers", (znodes.DELETE_TOPICS,)),
    ("List of topics to be deleted", (znodes.REASSIGN_PARTITIONS, "/state'")),
)
"""Lines of a failover, and the znodes of which one is read next after each line."""
_FAILOVER_FAILED: Final = "Trigger controller movement immediately"


def brokers_read_by_failover(text: str) -> ListedChildren | None:
    """The live brokers that a failover read (KafkaController.initializeControllerContext).

    Returns None for other lines.
    """
    _, is_found, brokers = text.partition(_LIVE_BROKERS)
    return (znodes.BROKER_IDS, tuple(re.findall(r"(\d+) -> ", brokers))) if is_found else None


def children_read_by_event(marker: LogMarker, known_topics: Iterable[str]) -> ListedChildren | None:
    """The brokers or topics that an event listed, by the changes that its line names."""
    if marker.event == "BrokerChange":
        return znodes.BROKER_IDS, tuple(map(str, marker.brokers))
    if marker.event == "TopicChange":
        remaining = {*known_topics} - {*marker.deleted_topics}
        return znodes.TOPICS, tuple(sorted(remaining | {*marker.topics}))
    return None


def reads_after(text: str) -> tuple[str, ...]:
    """The paths of which a failover reads one next after this line; empty for other lines."""
    message = text.partition("] ")[2]
    return next((paths for start, paths in _FAILOVER_STAGES if message.startswith(start)), ())


def is_failed_failover(text: str) -> bool:
    """Whether a line reports that a failover failed.

    The controller then checks that it still has the role, resigns, and deletes /controller
    (KafkaController.triggerControllerMove).
    """
    return _FAILOVER_FAILED in text


class TopicsRead:
    """The topics that failovers listed, from lines of controller.log, by broker
    (KafkaController.initializeControllerContext)."""

    def __init__(self) -> None:
        self._lines: dict[int, list[tuple[int, tuple[str, ...] | None]]] = defaultdict(list)

    def note(self, seq: int, logged: ControllerLogged) -> None:
        """Add the next line of the log."""
        listed = _TOPICS.search(logged.text)
        if listed is not None:
            names = tuple(sorted(listed[1].split(", "))) if listed[1] else ()
            self._lines[logged.broker].append((seq, names))
        elif _FAILOVER_BEGINS in logged.text:
            self._lines[logged.broker].append((seq, None))

    def listed(self, broker: int, seq: int) -> tuple[str, ...] | None:
        """The topics that the failover in progress at record `seq` listed; None if no line says."""
        lines = self._lines.get(broker, [])
        place = bisect_right(lines, seq, key=lambda one: one[0])
        return lines[place][1] if place < len(lines) else None


class BrokersRead:
    """The live brokers that a controller read when some were new, from state-change.log.

    The controller first announces the new brokers to the others, then sends the new ones all
    partitions (KafkaController.onBrokerStartup). Both lines together name all live brokers.
    """

    def __init__(self) -> None:
        self._listed: dict[tuple[int, int, int], ListedChildren] = {}
        self._first: dict[tuple[int, int], tuple[int, set[int]]] = {}

    def note(self, seq: int, logged: StateChangeLogged) -> None:
        """Add the next line of the log."""
        if logged.what != _UPDATE_METADATA:
            return
        term, named = (logged.broker, logged.epoch), set(logged.brokers)
        first, others = self._first.pop(term, (0, set[int]()))
        if others and named and others.isdisjoint(named):
            live = tuple(map(str, sorted(others | named)))
            self._listed[*term, first] = (znodes.BROKER_IDS, live)
        elif logged.text.endswith(_NO_PARTITION):
            self._first[term] = (seq, named)

    def forget(self, seq: int) -> None:
        """Forget lines before a record."""
        self._listed = {key: one for key, one in self._listed.items() if key[2] >= seq}

    def listed(self, broker: int, epoch: int, seq: int) -> ListedChildren | None:
        """The brokers read before the request whose line is record `seq`; None if unknown."""
        return self._listed.get((broker, epoch, seq))


class StatesRead:
    """The versions of partition states that a controller read, from lines of state-change.log.

    Below protocol version 2.7 leaders write the ISR themselves, possibly while a controller removes
    replicas from the ISR. For partitions that need no write, the line shows which version the
    controller read (ReplicaStateMachine.doRemoveReplicasFromIsr).
    """

    def __init__(self) -> None:
        self._versions: dict[tuple[int, int, str], list[tuple[int, int]]] = defaultdict(list)

    def note(self, seq: int, logged: StateChangeLogged) -> None:
        """Add the next line of the log."""
        found = _STATE.search(logged.text)
        if found is not None:
            path = znodes.state_path(found[1], int(found[2]))
            self._versions[logged.broker, logged.epoch, path].append((seq, int(found[3])))

    def forget(self, seq: int) -> None:
        """Forget lines before a record."""
        for key, versions in [*self._versions.items()]:
            del versions[: bisect_left(versions, seq, key=lambda one: one[0])]
            if not versions:
                del self._versions[key]

    def version(self, broker: int, epoch: int, path: str, seq: int) -> int | None:
        """The version of a state that the controller reads at record `seq`; None if unknown.

        It is one too high if the controller has written the state itself.
        """
        versions = self._versions.get((broker, epoch, path), [])
        place = bisect_right(versions, seq, key=lambda one: one[0])
        if place == len(versions) or versions[place][0] > seq + _STATE_RECORDS_MAX:
            return None
        return versions[place][1]
