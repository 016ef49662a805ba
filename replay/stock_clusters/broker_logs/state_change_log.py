"""Parses state-change.log: a controller's requests, the responses to them, and state changes.

Brokers log what they do for a request into the same file; those lines are skipped. A controller's
lines without an epoch are about refused requests and failed log directories.
"""

import re
from typing import Final

from controller.core.znodes import Name
from replay.stock_clusters.broker_logs.lines import LogLine, UnknownLineError
from replay.stock_clusters.imported_log.events import StateChangeLogged

_CONTROLLER: Final = re.compile(r"\[Controller id=(\d+)(?: epoch=(\d+))?\] ")
_BROKER: Final = re.compile(r"\[Broker id=\d+\] ")
_BROKERS: Final = r"(?:Hash)?(?:Set|List|Vector|ArrayBuffer|Buffer)\(([\d, ]*)\)"

_MESSAGES: Final = (
    (r"Sending LeaderAndIsr request to broker (\d+) with ", "leader_and_isr"),
    (
        r"Sending become-(?:leader|follower) LeaderAndIsr request .* to broker (\d+) ",
        "leader_and_isr_partition",
    ),
    (rf"Sending UpdateMetadata request to brokers {_BROKERS} ", "update_metadata"),
    (
        r"Sending StopReplica request (?:\(delete = \w+\) )?for \d+ replicas to broker (\d+)",
        "stop_replica",
    ),
    (r"Sending StopReplica request .* to broker (\d+)", "stop_replica_partition"),
    (r"Received response .* \(id: (-?\d+) rack: ", "response"),
    (r"Received error .* from broker (-?\d+)$", "refused"),
    (r"Mark replicas .* on broker (\d+) as offline$", "offline_replicas"),
    (r"Changed partition ()", "partition_state"),
    (r"Changed state of replica ()", "replica_state"),
)
_OFFLINE: Final = re.compile(r"Mark replicas (.*) on broker ")
_OPENING: Final = tuple((re.compile(pattern), kind) for pattern, kind in _MESSAGES)
_NUMBER: Final = re.compile(r"-?\d+")


def state_change_logged(line: LogLine) -> StateChangeLogged | None:
    """Parse a controller's line; None for lines of a broker's other components. The epoch is 0 if
    the line has none. Raises UnknownLineError."""
    head = _CONTROLLER.match(line.message)
    if head is None:
        if _BROKER.match(line.message):
            return None
        raise UnknownLineError
    broker, epoch = int(head[1]), int(head[2] or 0)
    for pattern, kind in _OPENING:
        found = pattern.match(line.message, head.end())
        if found is not None:
            brokers = [int(one) for one in _NUMBER.findall(found[1])]
            return StateChangeLogged(broker, epoch, kind, brokers, line.message)
    return StateChangeLogged(broker, epoch, "other", [], line.message)


def offline_replicas(line: StateChangeLogged) -> list[Name]:
    """The replicas of `line.brokers` that the controller found in failed log directories: they are
    in a line of the kind `offline_replicas`. No other line has any."""
    found = _OFFLINE.search(line.text) if line.what == "offline_replicas" else None
    names = found[1].split(",") if found is not None else ()
    return [(topic, int(number)) for topic, _, number in (one.rpartition("-") for one in names)]
