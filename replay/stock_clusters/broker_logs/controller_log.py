"""Parses controller.log: the controller events that Kafka's controller processed.

Kafka does not log controller events as such. Most events begin with a specific line
(KafkaController.scala, the methods process...). The others show only by their writes.
"""

import re
from typing import Final

from replay.stock_clusters.broker_logs.lines import LogLine, UnknownLineError
from replay.stock_clusters.imported_log.events import STARTED, ControllerLogged

_THREAD: Final = re.compile(
    r"\[(?:Controller id=|Topic Deletion Manager |PartitionStateMachine controllerId="
    r"|ReplicaStateMachine controllerId=)(\d+)\] "
)
_OTHER: Final = re.compile(
    r"\[(?:RequestSendThread controllerId=|Channel manager on controller "
    r"|ControllerEventThread controllerId=)\d+\]|Leader not yet assigned for partition "
)
"""Lines of other threads, and one of the controller's that shows no event."""
_START: Final = re.compile(r"\[ControllerEventThread controllerId=(\d+)\] Starting\b")

_EVENTS: Final = (
    (r"\d+ successfully elected as the controller\. ", "Elected"),
    (r"Broker \d+ (?:has been elected as the controller|was elected as controller)", "NotElected"),
    (r"A controller has been elected but just resigned", "NotElected"),
    (r"Resigning$", "Resignation"),
    (r"Newly added brokers: ", "BrokerChange"),
    (r"Updated broker metadata: ", "BrokerModifications"),
    (r"New topics: \[", "TopicChange"),
    (r"New partitions to be added ", "PartitionModifications"),
    (r"Delete topics listener fired for topics ", "TopicDeletion"),
    (
        r"Delete topic callback invoked on StopReplica response ",
        "TopicDeletionStopReplicaResponseReceived",
    ),
    (r"Shutting down broker ", "ControlledShutdown"),
    (r"Received controlled shutdown request from an old broker epoch ", "ControlledShutdown"),
    (
        r"Processing automatic preferred replica leader election$",
        "AutoPreferredReplicaLeaderElection",
    ),
    (r"Starting replica leader election \(", "ReplicaLeaderElection"),
    (r"Updating ISRs for partitions: ", "AlterPartitionReceived"),
    (r"Ignoring AlterPartition due to ", "AlterPartitionReceived"),
    (r"Sending MetadataRequest to Brokers: ", "IsrChangeNotification"),
    (r"Handling log directory failure for brokers ", "LogDirEventNotification"),
    (r"Unclean leader election has been enabled by default$", "UncleanLeaderElectionEnable"),
    (r"Unclean leader election has been enabled for topic ", "TopicUncleanLeaderElectionEnable"),
)
_SHUTTING_DOWN: Final = re.compile(r"\] Shutting down broker (\d+)")
_OPENING: Final = re.compile(
    "|".join(f"(?P<_{number}>{pattern})" for number, (pattern, _) in enumerate(_EVENTS))
)


def controller_logged(line: LogLine) -> ControllerLogged | None:
    """Parse a line of the controller event thread; None for lines of other threads. Raises
    UnknownLineError."""
    started = _START.match(line.message)
    if started is not None:
        return ControllerLogged(int(started[1]), STARTED, line.message)
    found = _THREAD.match(line.message)
    if found is None:
        if _OTHER.match(line.message):
            return None
        raise UnknownLineError
    return ControllerLogged(int(found[1]), _event(line.message, found.end()), line.message)


def _event(message: str, at: int) -> str:
    opening = _OPENING.match(message, at)
    if opening is None or opening.lastgroup is None:
        return ""
    return _EVENTS[int(opening.lastgroup[1:])][1]


def broker_shutting_down(line: ControllerLogged) -> int | None:
    """The broker whose controlled shutdown begins with a line, if one does."""
    found = _SHUTTING_DOWN.search(line.text) if line.event == "ControlledShutdown" else None
    return int(found[1]) if found is not None else None


def is_end_of_take_over(line: ControllerLogged) -> bool:
    """Whether a controller that was elected has taken over with a line."""
    return "] Ready to serve as the new controller with epoch " in line.text
