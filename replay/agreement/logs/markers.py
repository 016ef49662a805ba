"""Markers: lines of controller.log that show that a controller event is in progress. A marker names
the event and its brokers, topics or partitions, as far as the line contains them. Some markers also
show what the event read.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal

from msgspec import Struct, structs

from controller.core import error_codes, znodes
from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.api_requests.reassignments import AlterPartitionReassignmentsReceived
from controller.core.error_codes import NONE, UNKNOWN_SERVER_ERROR
from controller.core.triggers import (
    ApiCall,
    AutoPreferredReplicaLeaderElection,
    BrokerChange,
    BrokerModifications,
    ControllerChange,
    IsrChangeNotification,
    LogDirEventNotification,
    PartitionModifications,
    PartitionReassignmentIsrChange,
    Reelect,
    ReplicaLeaderElection,
    TopicChange,
    TopicDeletion,
    TopicDeletionStopReplicaResponseReceived,
    TopicUncleanLeaderElectionEnable,
    Trigger,
    UncleanLeaderElectionEnable,
    ZkPartitionReassignment,
)
from controller.core.values import UNKNOWN_BROKER_EPOCH
from replay.agreement.decisions.write_batch import StockDecision
from replay.stock_clusters.imported_log.events import ControllerLogged

_NAME: Final = r"([A-Za-z0-9._-]+)-(\d+)"
_PARTITION: Final = re.compile(_NAME)
_PARTITION_ERROR: Final = re.compile(rf"{_NAME} -> ([A-Z_]+)")
_REQUEST_ERROR: Final = re.compile(r"request error = ([A-Z_]+)")
_CODES: Final = {name: one for name, one in vars(error_codes).items() if isinstance(one, int)}


class LogMarker(Struct, frozen=True):
    """A line that a controller event writes at its beginning, or shortly after.

    `event` is Kafka's name of the event, `text` the line. `brokers`, `partitions`, `topics` and
    `deleted_topics` are those that the line names. `error`, and `failed` by partition, are the
    error codes of a broker's response. If not `is_first`, the line follows another marker of the
    same event in a log at level DEBUG.
    """

    event: str
    text: str
    brokers: tuple[int, ...] = ()
    partitions: tuple[tuple[str, int], ...] = ()
    topics: tuple[str, ...] = ()
    deleted_topics: tuple[str, ...] = ()
    is_first: bool = True
    error: int = NONE
    failed: tuple[tuple[str, int, int], ...] = ()


class LocatedMarker(Struct, frozen=True):
    """A marker, with its record and its time."""

    seq: int
    time_ms: int
    marker: LogMarker


def marker_of(logged: ControllerLogged) -> LogMarker | None:
    """The marker that a line is; None for a line from the middle of an event."""
    text = logged.text
    if logged.event in _READERS:
        return _READERS[logged.event](logged.event, text)
    if logged.event:
        return LogMarker(logged.event, text)
    for pattern in _TOPIC_DELETION:
        found = pattern.search(text)
        if found is not None:
            topics = tuple(one.strip() for one in found[1].split(","))
            return LogMarker("TopicDeletion", text, topics=topics, is_first=False)
    for event, pattern in _MORE:
        found = pattern.search(text)
        if found is not None and found[2]:
            return LogMarker(event, text, partitions=((found[1], int(found[2])),))
        if found is not None:
            return LogMarker(event, text, topics=tuple(found[1].split(",")))
    return None


_TOPIC_DELETION: Final = (
    re.compile(r"Starting topic deletion for topics (\S+)$"),
    re.compile(r"Ignoring request to delete non-existing topics (\S+)$"),
    re.compile(r"\[Controller id=\d+\] Removing \w+\((.+)\) since delete topic is disabled$"),
)

_MORE: Final = (
    ("Resignation", re.compile(r"\] (Stopped partition state machine)()$")),
    ("PartitionReassignment", re.compile(rf"Updating assignment of partition {_NAME} from ")),
    (
        "PartitionModifications",
        re.compile(
            r"Skipping adding partitions \S+ for topic (\S+) since it is() .* being deleted$"
        ),
    ),
    (
        "PartitionReassignmentIsrChange",
        re.compile(rf" have all caught up with the leader for reassigning partition {_NAME}$"),
    ),
)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in re.findall(r"\d+", text))


def _broker_change(event: str, text: str) -> LogMarker:
    """`brokers` are all live brokers, as they were read."""
    return LogMarker(event, text, brokers=_numbers(text.partition("all live brokers: ")[2]))


def _of_broker(event: str, text: str) -> LogMarker:
    found = re.search(r"for broker (\d+)|down broker (\d+)|from broker (\d+)", text)
    return LogMarker(event, text, brokers=_numbers(found[0]) if found else ())


def _deletion_answered(event: str, text: str) -> LogMarker:
    """`topics` are those whose replicas the broker was to delete."""
    found = {
        (topic, int(number)): _CODES.get(error, UNKNOWN_SERVER_ERROR)
        for topic, number, error in _PARTITION_ERROR.findall(text)
    }
    error = _REQUEST_ERROR.search(text)
    return structs.replace(
        _of_broker(event, text),
        topics=tuple(dict.fromkeys(topic for topic, _ in found)),
        error=NONE if error is None else _CODES.get(error[1], UNKNOWN_SERVER_ERROR),
        failed=tuple((*partition, code) for partition, code in found.items() if code != NONE),
    )


def _broker_modifications(event: str, text: str) -> LogMarker:
    return LogMarker(
        event, text, brokers=_numbers(text.partition("Updated broker metadata: ")[2])[:1]
    )


def _of_partitions(event: str, text: str) -> LogMarker:
    named = _PARTITION.findall(text.partition("] ")[2].partition(": ")[2])
    return LogMarker(event, text, partitions=tuple((one, int(number)) for one, number in named))


def _elected_partitions(event: str, text: str) -> LogMarker:
    listed = text.partition(" for partitions ")[2].rpartition(" triggered by ")[0]
    named = tuple((one, int(number)) for one, number in _PARTITION.findall(listed))
    return LogMarker(event, text, partitions=named)


def _added_partitions(event: str, text: str) -> LogMarker:
    named = _PARTITION.findall(text.partition("to be added ")[2])
    return LogMarker(event, text, topics=tuple(dict.fromkeys(one for one, _ in named)))


def _topics(event: str, text: str) -> LogMarker:
    new = re.search(r"New topics: \[\w*\(?(.*?)\)?\], deleted topics", text)
    deleted = re.search(r"deleted topics: \[\w*\(?(.*?)\)?\], new partition", text)
    return LogMarker(event, text, topics=_listed_names(new), deleted_topics=_listed_names(deleted))


def _deleted_topics(event: str, text: str) -> LogMarker:
    found = re.search(r"fired for topics (.*) to be deleted", text)
    return LogMarker(event, text, topics=_listed_names(found, ","))


def _listed_names(found: re.Match[str] | None, separator: str = ", ") -> tuple[str, ...]:
    return tuple(one for one in found[1].split(separator) if one) if found else ()


def _of_topic(event: str, text: str) -> LogMarker:
    return LogMarker(event, text, topics=(text.rpartition(" ")[2],))


_READERS: Final[Mapping[str, Callable[[str, str], LogMarker]]] = {
    "BrokerChange": _broker_change,
    "BrokerModifications": _broker_modifications,
    "ControlledShutdown": _of_broker,
    "TopicChange": _topics,
    "TopicDeletion": _deleted_topics,
    "PartitionModifications": _added_partitions,
    "TopicDeletionStopReplicaResponseReceived": _deletion_answered,
    "ReplicaLeaderElection": _elected_partitions,
    "AlterPartitionReceived": _of_partitions,
    "TopicUncleanLeaderElectionEnable": _of_topic,
}

IS_DEBUG: Final = re.compile(
    r"\] (?:Register BrokerModifications|Updating ISRs|Delete topics listener|Resigning$)"
)
"""Lines that are written at level DEBUG only."""

LOGGED_AT_DEBUG: Final = (
    TopicDeletionStopReplicaResponseReceived,
    IsrChangeNotification,
    ControllerChange,
    Reelect,
)
"""Controller events that leave a marker at level DEBUG whenever they have an effect."""

LOGGED: Final = (
    BrokerChange,
    TopicChange,
    TopicDeletion,
    AutoPreferredReplicaLeaderElection,
    UncleanLeaderElectionEnable,
    TopicUncleanLeaderElectionEnable,
    PartitionReassignmentIsrChange,
    PartitionModifications,
    BrokerModifications,
    ReplicaLeaderElection,
    LogDirEventNotification,
)
"""Controller events that leave a marker at level INFO whenever they have an effect."""

READS_BEFORE_LINE: Final = (
    "BrokerChange",
    "TopicChange",
    "TopicDeletion",
    "PartitionModifications",
    "BrokerModifications",
    "IsrChangeNotification",
    "LogDirEventNotification",
)
"""Events that read before they write their marker."""


_BY_NAME: Final[Mapping[str, Trigger]] = {
    type(one).__name__: one
    for one in (
        AutoPreferredReplicaLeaderElection(),
        BrokerChange(),
        IsrChangeNotification(),
        LogDirEventNotification(),
        TopicChange(),
        TopicDeletion(),
        UncleanLeaderElectionEnable(),
    )
}
"""The events that the name of a marker identifies."""


def matches(one: LogMarker, trigger: Trigger) -> bool:
    """Whether a marker can belong to a controller event."""
    if one.event in _BY_NAME:
        return trigger == _BY_NAME[one.event]
    match one.event, trigger:
        case "TopicUncleanLeaderElectionEnable", TopicUncleanLeaderElectionEnable(topic=topic):
            return topic in one.topics
        case "BrokerModifications", BrokerModifications(broker=broker):
            return broker in one.brokers
        case "PartitionModifications", PartitionModifications(topic=topic):
            return topic in one.topics
        case "TopicDeletionStopReplicaResponseReceived", (
            TopicDeletionStopReplicaResponseReceived(response=answer)
        ):
            return answer.broker in one.brokers
        case "PartitionReassignmentIsrChange", PartitionReassignmentIsrChange():
            return (trigger.topic, trigger.partition) in one.partitions
        case "PartitionReassignment", ZkPartitionReassignment():
            return True
        case "ReplicaLeaderElection", ReplicaLeaderElection():
            return one.text.endswith("ZkTriggered")
        case "Resignation", ControllerChange() | Reelect():
            return True
        case _, ApiCall(request=request):
            return _matches_request(one, request)
    return False


def _matches_request(one: LogMarker, request: object) -> bool:
    match one.event, request:
        case "ControlledShutdown", ControlledShutdownReceived(broker=broker):
            return broker in one.brokers
        case "ReplicaLeaderElection", ElectLeadersReceived():
            return one.text.endswith("AdminClientTriggered")
        case "PartitionReassignment", AlterPartitionReassignmentsReceived(partitions=targets):
            return any((each.topic, each.partition) in one.partitions for each in targets)
        case "AlterPartitionReceived", AlterPartitionReceived():
            return True
    return False


def trigger_for(one: LogMarker) -> Trigger | None:
    """The controller event of a marker, if no log shows what caused the event."""
    if one.event in _BY_NAME:
        return _BY_NAME[one.event]
    match one.event:
        case "TopicUncleanLeaderElectionEnable":
            return TopicUncleanLeaderElectionEnable(one.topics[0])
        case "BrokerModifications" if one.brokers:
            return BrokerModifications(one.brokers[0])
        case "PartitionModifications" if one.topics:
            return PartitionModifications(one.topics[0])
        case "ReplicaLeaderElection" if one.text.endswith("ZkTriggered"):
            return ReplicaLeaderElection()
        case "ReplicaLeaderElection" if one.text.endswith("AdminClientTriggered"):
            election: Literal["preferred", "unclean"] = (
                "unclean" if "(UNCLEAN)" in one.text else "preferred"
            )
            return ApiCall(ElectLeadersReceived(0, 2, election, list(one.partitions)))
        case "ControlledShutdown" if one.brokers:
            return ApiCall(ControlledShutdownReceived(0, 0, one.brokers[0], UNKNOWN_BROKER_EPOCH))
        case "PartitionReassignmentIsrChange":
            return PartitionReassignmentIsrChange(*one.partitions[0])
        case "Resignation":
            return ControllerChange()
        case _:
            return None


def is_at_same_ms(following: LocatedMarker, decision: StockDecision) -> bool:
    """Whether a marker that follows a decision in the log may have been written before it."""
    return following.time_ms <= decision.time_ms


def is_before_write(following: LocatedMarker, decision: StockDecision) -> bool:
    """Whether a marker that follows a decision was certainly written before it.

    An event without a line that is also queued would write an assignment first, and nothing of a
    topic that is being deleted.
    """
    marker = following.marker
    if not is_at_same_ms(following, decision):
        return False
    if marker.event == "PartitionModifications":
        return marker.text.endswith(" being deleted") and _is_about_topics(marker, decision)
    states = {znodes.state_path(*one) for one in marker.partitions}
    return marker.event == "AlterPartitionReceived" and any(
        path in states for path, _ in decision.operations
    )


def is_about_ids(following: LocatedMarker, decision: StockDecision) -> bool:
    """Whether a decision may write the ids of new topics, which precedes the event's line."""
    return following.marker.event == "TopicChange" and _is_about_topics(following.marker, decision)


def _is_about_topics(marker: LogMarker, decision: StockDecision) -> bool:
    """Whether a decision writes the znode of a topic that a line names."""
    topics = {znodes.topic_path(one) for one in marker.topics}
    return any(path in topics for path, _ in decision.operations)
