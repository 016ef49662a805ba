"""What a controller's own log shows of when it did what.

An *opening* is a line by which a controller event is known to be under way. It names the event and
what the event is about, so far as the line says so; some say what was read, too.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal

from msgspec import Struct, structs

from controller.core import error_codes
from controller.core.error_codes import NONE, UNKNOWN_SERVER_ERROR
from controller.core.events import (
    AlterPartitionReassignmentsReceived,
    AlterPartitionReceived,
    ControlledShutdownReceived,
    ElectLeadersReceived,
)
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
from replay.stock_clusters.imported_log.events import ControllerLogged

_NAME: Final = r"([A-Za-z0-9._-]+)-(\d+)"
_PARTITION: Final = re.compile(_NAME)
_PARTITION_ERROR: Final = re.compile(rf"{_NAME} -> ([A-Z_]+)")
_REQUEST_ERROR: Final = re.compile(r"request error = ([A-Z_]+)")
_CODES: Final = {name: one for name, one in vars(error_codes).items() if isinstance(one, int)}


class LogMarker(Struct, frozen=True):
    """A line that a controller event begins with, or has begun with shortly before.

    `event` is Kafka's name. `names` are the partitions or topics that the line names, `brokers` the
    brokers; `text` is the line; `error` and `failed`, by partition, are what an answer had, as
    Kafka's codes. One that is not `is_first` comes behind another opening of the same
    event, if the log is at level DEBUG.
    """

    event: str
    text: str
    brokers: tuple[int, ...] = ()
    partitions: tuple[tuple[str, int], ...] = ()
    topics: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    is_first: bool = True
    error: int = NONE
    failed: tuple[tuple[str, int, int], ...] = ()


def opening(logged: ControllerLogged) -> LogMarker | None:
    """What a line opens; None for one that comes within an event."""
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
    """`brokers` are all that live, as they were read."""
    return LogMarker(event, text, brokers=_numbers(text.partition("all live brokers: ")[2]))


def _of_broker(event: str, text: str) -> LogMarker:
    found = re.search(r"for broker (\d+)|down broker (\d+)|from broker (\d+)", text)
    return LogMarker(event, text, brokers=_numbers(found[0]) if found else ())


def _deletion_answered(event: str, text: str) -> LogMarker:
    """`topics` are those of the replicas that were to be deleted."""
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


def _modified(event: str, text: str) -> LogMarker:
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
    gone = re.search(r"deleted topics: \[\w*\(?(.*?)\)?\], new partition", text)
    return LogMarker(event, text, topics=_listed(new), gone=_listed(gone))


def _deleted_topics(event: str, text: str) -> LogMarker:
    found = re.search(r"fired for topics (.*) to be deleted", text)
    return LogMarker(event, text, topics=_listed(found, ","))


def _listed(found: re.Match[str] | None, separator: str = ", ") -> tuple[str, ...]:
    return tuple(one for one in found[1].split(separator) if one) if found else ()


def _of_topic(event: str, text: str) -> LogMarker:
    return LogMarker(event, text, topics=(text.rpartition(" ")[2],))


_READERS: Final[Mapping[str, Callable[[str, str], LogMarker]]] = {
    "BrokerChange": _broker_change,
    "BrokerModifications": _modified,
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
"""Lines that are there at level DEBUG only."""

LOGGED_AT_DEBUG: Final = (
    TopicDeletionStopReplicaResponseReceived,
    IsrChangeNotification,
    ControllerChange,
    Reelect,
)
"""Controller events that leave an opening whenever they do anything, at level DEBUG."""

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
"""The same at level INFO."""


def fits(one: LogMarker, trigger: Trigger) -> bool:
    """Whether an opening can be that of a controller event."""
    match one.event, trigger:
        case "BrokerChange", BrokerChange():
            return True
        case "TopicChange", TopicChange():
            return True
        case "TopicDeletion", TopicDeletion():
            return True
        case "IsrChangeNotification", IsrChangeNotification():
            return True
        case "LogDirEventNotification", LogDirEventNotification():
            return True
        case "AutoPreferredReplicaLeaderElection", AutoPreferredReplicaLeaderElection():
            return True
        case "UncleanLeaderElectionEnable", UncleanLeaderElectionEnable():
            return True
        case "TopicUncleanLeaderElectionEnable", TopicUncleanLeaderElectionEnable(topic=topic):
            return topic in one.topics
        case "BrokerModifications", BrokerModifications(broker=broker):
            return broker in one.brokers
        case "PartitionModifications", PartitionModifications(topic=topic):
            return topic in one.topics
        case "TopicDeletionStopReplicaResponseReceived", (
            TopicDeletionStopReplicaResponseReceived(answer=answer)
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
            return _fits_request(one, request)
    return False


def _fits_request(one: LogMarker, request: object) -> bool:
    match one.event, request:
        case "ControlledShutdown", ControlledShutdownReceived(broker=broker):
            return broker in one.brokers
        case "ReplicaLeaderElection", ElectLeadersReceived():
            return one.text.endswith("AdminClientTriggered")
        case "PartitionReassignment", AlterPartitionReassignmentsReceived(partitions=asked):
            return any((each.topic, each.partition) in one.partitions for each in asked)
        case "AlterPartitionReceived", AlterPartitionReceived():
            return True
    return False


def trigger_for(one: LogMarker) -> Trigger | None:
    """The controller event of an opening, where the log tells of no reason for it."""
    match one.event:
        case "BrokerChange":
            return BrokerChange()
        case "TopicChange":
            return TopicChange()
        case "TopicDeletion":
            return TopicDeletion()
        case "IsrChangeNotification":
            return IsrChangeNotification()
        case "LogDirEventNotification":
            return LogDirEventNotification()
        case "AutoPreferredReplicaLeaderElection":
            return AutoPreferredReplicaLeaderElection()
        case "UncleanLeaderElectionEnable":
            return UncleanLeaderElectionEnable()
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
