"""The controller events that lines of controller.log begin; the lines are of stock clusters."""

import pytest

from controller.core.api_requests import ApiRequest
from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    ReassignmentTarget,
)
from controller.core.commands import CommandId
from controller.core.events import BrokerResponded
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
    Startup,
    TopicChange,
    TopicDeletion,
    TopicDeletionStopReplicaResponseReceived,
    TopicUncleanLeaderElectionEnable,
    Trigger,
    UncleanLeaderElectionEnable,
    ZkPartitionReassignment,
)
from replay.agreement.logs.markers import (
    LOGGED,
    LogMarker,
    marker_of,
    matches,
    trigger_for,
)
from replay.stock_clusters.broker_logs.controller_log import controller_logged
from replay.stock_clusters.broker_logs.lines import LogLine
from replay.stock_clusters.imported_log.events import ControllerLogged

FAILED = "[Controller id=2] Handling log directory failure for brokers 1"
NEW_TOPIC = (
    "[Controller id=2] New topics: [Set(one-01)], deleted topics: [HashSet()], new partition"
    " replica assignment [Set(TopicIdReplicaAssignment(one-01,Some(jBRZcQg7SzyTvHEp4-GziA),"
    "Map(one-01-0 -> ReplicaAssignment(replicas=3, addingReplicas=, removingReplicas=))))]"
)
TWO_TOPICS = (
    "[Controller id=3] New topics: [Set(t.87, t_86)], deleted topics: [HashSet(old, older)], new"
    " partition replica assignment [Set(TopicIdReplicaAssignment(t.87,None,HashMap(t.87-5 ->"
    " ReplicaAssignment(replicas=3, addingReplicas=, removingReplicas=))))]"
)
ADDED = (
    "[Controller id=2] New partitions to be added HashMap(t.04-5 -> ReplicaAssignment(replicas=2,"
    " addingReplicas=, removingReplicas=), t.04-6 -> ReplicaAssignment(replicas=3,"
    " addingReplicas=, removingReplicas=))"
)
METADATA = (
    "[Controller id=2] Updated broker metadata: 3 :"
    " (EndPoint(127.0.0.1,28169,ListenerName(PLAINTEXT),PLAINTEXT)) : null : Features{} -> 3 :"
    " (EndPoint(127.0.0.1,32157,ListenerName(EXTRA),PLAINTEXT)) : null : Features{}"
)
DELETED = (
    "[Controller id=4] Delete topic callback invoked on StopReplica response received from broker"
    " 5: request error = NONE, partition errors = Map(t_03-0 -> NONE)"
)
NOT_DELETED = (
    "[Controller id=4] Delete topic callback invoked on StopReplica response received from broker"
    " 3: request error = STALE_BROKER_EPOCH, partition errors = HashMap(big-83-7 -> NONE, big-83-6"
    " -> KAFKA_STORAGE_ERROR, big-83-4 -> UNKNOWN_MEMBER_ID)"
)
CHANGED = (
    "[Controller id=2] Newly added brokers: 1, deleted brokers: 7, bounced brokers: , all live"
    " brokers: 1,2"
)
ELECTED = "[Controller id=3] Starting replica leader election (PREFERRED) for partitions "
UNCLEAN = "[Controller id=3] Starting replica leader election (UNCLEAN) for partitions "
ASSIGNED = (
    "[Controller id=4] Updating assignment of partition t-05-2 from ReplicaAssignment(replicas=5,4,"
    " addingReplicas=, removingReplicas=) to ReplicaAssignment(replicas=2,4, addingReplicas=,"
    " removingReplicas=)"
)
CAUGHT_UP = (
    "[Controller id=4] Target replicas ArrayBuffer(5, 4) have all caught up with the leader for"
    " reassigning partition t-07-8"
)


def line(text: str) -> ControllerLogged:
    """The line as an import stores it."""
    logged = controller_logged(LogLine(0, text))
    assert logged is not None, text
    return logged


def marker_in(text: str) -> LogMarker:
    found = marker_of(line(text))
    assert found is not None, text
    assert found.text == text
    return found


def call(request: ApiRequest) -> Trigger:
    return ApiCall(request)


def deletion_answered(broker: int) -> Trigger:
    answer = BrokerResponded(CommandId(1, 0), broker, 1, 0, [])
    return TopicDeletionStopReplicaResponseReceived(answer, [])


def shutdown(broker: int) -> Trigger:
    return call(ControlledShutdownReceived(1, 3, broker, 70))


def election(version: int = 2) -> Trigger:
    return call(ElectLeadersReceived(1, version, "preferred", None))


def reassignment(*names: tuple[str, int]) -> Trigger:
    targets = [ReassignmentTarget(*name, (1, 2)) for name in names]
    return call(AlterPartitionReassignmentsReceived(1, 0, targets))


ALTER = call(AlterPartitionReceived(1, 3, 2, 70, []))


@pytest.mark.parametrize(
    ("text", "event", "named"),
    [
        (CHANGED, "BrokerChange", {"brokers": (1, 2)}),
        (METADATA, "BrokerModifications", {"brokers": (3,)}),
        ("[Controller id=1] Shutting down broker 2", "ControlledShutdown", {"brokers": (2,)}),
        (NEW_TOPIC, "TopicChange", {"topics": ("one-01",)}),
        (
            TWO_TOPICS,
            "TopicChange",
            {"topics": ("t.87", "t_86"), "deleted_topics": ("old", "older")},
        ),
        (
            "[Controller id=2] Delete topics listener fired for topics t_03,t-07 to be deleted",
            "TopicDeletion",
            {"topics": ("t_03", "t-07")},
        ),
        (
            "[Controller id=2] Delete topics listener fired for topics  to be deleted",
            "TopicDeletion",
            {},
        ),
        (
            "[Controller id=2] Starting topic deletion for topics t_03,t-07",
            "TopicDeletion",
            {"topics": ("t_03", "t-07"), "is_first": False},
        ),
        (ADDED, "PartitionModifications", {"topics": ("t.04",)}),
        (
            DELETED,
            "TopicDeletionStopReplicaResponseReceived",
            {"brokers": (5,), "topics": ("t_03",)},
        ),
        (
            "[Controller id=1] Removing Set(t_19, t.20) since delete topic is disabled",
            "TopicDeletion",
            {"topics": ("t_19", "t.20"), "is_first": False},
        ),
        (
            "[Controller id=2] Updating ISRs for partitions: Set(pair_02-1, wide-03-1).",
            "AlterPartitionReceived",
            {"partitions": (("pair_02", 1), ("wide-03", 1))},
        ),
        ("[Controller id=3] Updating ISRs for partitions: Set().", "AlterPartitionReceived", {}),
        (
            f"{ELECTED}wide-03-0,two-04-2 triggered by AutoTriggered",
            "ReplicaLeaderElection",
            {"partitions": (("wide-03", 0), ("two-04", 2))},
        ),
        (f"{ELECTED} triggered by ZkTriggered", "ReplicaLeaderElection", {}),
        (ASSIGNED, "PartitionReassignment", {"partitions": (("t-05", 2),)}),
        (CAUGHT_UP, "PartitionReassignmentIsrChange", {"partitions": (("t-07", 8),)}),
        (
            "[Controller id=4] Unclean leader election has been enabled for topic t-05",
            "TopicUncleanLeaderElectionEnable",
            {"topics": ("t-05",)},
        ),
        (
            "[Controller id=3] Unclean leader election has been enabled by default",
            "UncleanLeaderElectionEnable",
            {},
        ),
        (
            "[Controller id=2] Processing automatic preferred replica leader election",
            "AutoPreferredReplicaLeaderElection",
            {},
        ),
        (
            "[Controller id=3] Sending MetadataRequest to Brokers: List(1, 2) for TopicPartitions:"
            " ArrayBuffer(__consumer_offsets-1)",
            "IsrChangeNotification",
            {},
        ),
        (
            NOT_DELETED,
            "TopicDeletionStopReplicaResponseReceived",
            {
                "brokers": (3,),
                "topics": ("big-83",),
                "error": 77,
                "failed": (("big-83", 6, 56), ("big-83", 4, -1)),
            },
        ),
        ("[Controller id=5] Resigning", "Resignation", {}),
    ],
)
def test_line_has_its_event_and_subjects(text: str, event: str, named: dict[str, object]) -> None:
    assert marker_in(text) == LogMarker(event, text, **named)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "[PartitionStateMachine controllerId=5] Stopped partition state machine",
        "[Controller id=1] Skipping adding partitions 4,7 for topic a-0 since it is currently being"
        " deleted",
    ],
)
def test_line_at_info_replaces_one_at_debug(text: str) -> None:
    found = marker_in(text)
    assert found.event in ("Resignation", "PartitionModifications")


@pytest.mark.parametrize(
    "text",
    [
        "[Controller id=2] Initializing controller context",
        "[ReplicaStateMachine controllerId=2] Started replica state machine",
        "[Controller id=4] Target replicas ArrayBuffer(5) have not caught up with the leader for"
        " reassigning partition t-07-8",
    ],
)
def test_line_within_an_event_is_no_marker(text: str) -> None:
    assert marker_of(line(text)) is None


@pytest.mark.parametrize(
    ("text", "fitting", "others"),
    [
        (CHANGED, [BrokerChange()], [TopicChange(), Startup()]),
        (NEW_TOPIC, [TopicChange()], [TopicDeletion(), BrokerChange()]),
        (METADATA, [BrokerModifications(3)], [BrokerModifications(2)]),
        (ADDED, [PartitionModifications("t.04")], [PartitionModifications("t")]),
        (DELETED, [deletion_answered(5)], [deletion_answered(4)]),
        (
            "[Controller id=2] Delete topics listener fired for topics t to be deleted",
            [TopicDeletion()],
            [TopicChange()],
        ),
        (
            "[Controller id=4] Unclean leader election has been enabled for topic t-05",
            [TopicUncleanLeaderElectionEnable("t-05")],
            [TopicUncleanLeaderElectionEnable("t"), UncleanLeaderElectionEnable()],
        ),
        (
            "[Controller id=3] Unclean leader election has been enabled by default",
            [UncleanLeaderElectionEnable()],
            [TopicUncleanLeaderElectionEnable("t")],
        ),
        (
            CAUGHT_UP,
            [PartitionReassignmentIsrChange("t-07", 8)],
            [PartitionReassignmentIsrChange("t-07", 7), PartitionReassignmentIsrChange("t", 8)],
        ),
        (
            ASSIGNED,
            [ZkPartitionReassignment(), reassignment(("t", 0), ("t-05", 2))],
            [reassignment(("t-05", 1)), ALTER],
        ),
        (f"{ELECTED}t-0 triggered by ZkTriggered", [ReplicaLeaderElection()], [election()]),
        (
            f"{ELECTED}t-0 triggered by AdminClientTriggered",
            [election()],
            [ReplicaLeaderElection()],
        ),
        ("[Controller id=1] Shutting down broker 2", [shutdown(2)], [shutdown(1), ALTER]),
        ("[Controller id=5] Resigning", [ControllerChange(), Reelect()], [Startup()]),
        ("[Controller id=3] Updating ISRs for partitions: Set().", [ALTER], [shutdown(2)]),
        (
            "[Controller id=3] Sending MetadataRequest to Brokers: List(1) for TopicPartitions:",
            [IsrChangeNotification()],
            [TopicChange()],
        ),
        (FAILED, [LogDirEventNotification()], [IsrChangeNotification()]),
        (
            "[Controller id=2] Processing automatic preferred replica leader election",
            [AutoPreferredReplicaLeaderElection()],
            [ReplicaLeaderElection()],
        ),
    ],
)
def test_line_matches_only_the_triggers_of_its_event(
    text: str, fitting: list[Trigger], others: list[Trigger]
) -> None:
    one = marker_in(text)
    assert [matches(one, each) for each in fitting] == [True] * len(fitting)
    assert [matches(one, each) for each in others] == [False] * len(others)


@pytest.mark.parametrize(
    ("text", "trigger"),
    [
        (CHANGED, BrokerChange()),
        (METADATA, BrokerModifications(3)),
        (NEW_TOPIC, TopicChange()),
        (ADDED, PartitionModifications("t.04")),
        (CAUGHT_UP, PartitionReassignmentIsrChange("t-07", 8)),
        (FAILED, LogDirEventNotification()),
        (
            "[Controller id=4] Unclean leader election has been enabled for topic t-05",
            TopicUncleanLeaderElectionEnable("t-05"),
        ),
        (f"{ELECTED}t-0 triggered by ZkTriggered", ReplicaLeaderElection()),
        (
            f"{ELECTED}t-0,u-3 triggered by AdminClientTriggered",
            ApiCall(ElectLeadersReceived(0, 2, "preferred", [("t", 0), ("u", 3)])),
        ),
        (
            f"{UNCLEAN}t-0 triggered by AdminClientTriggered",
            ApiCall(ElectLeadersReceived(0, 2, "unclean", [("t", 0)])),
        ),
        (
            "[Controller id=1] Shutting down broker 2",
            ApiCall(ControlledShutdownReceived(0, 0, 2, -1)),
        ),
        ("[Controller id=5] Resigning", ControllerChange()),
        (DELETED, None),
        (ASSIGNED, None),
        ("[Controller id=3] Updating ISRs for partitions: Set(t-0).", None),
    ],
)
def test_trigger_is_inferred_from_a_line(text: str, trigger: Trigger | None) -> None:
    """Lines about a reassignment, an ISR or a response do not name their trigger."""
    assert trigger_for(marker_in(text)) == trigger


@pytest.mark.parametrize("kind", LOGGED)
def test_every_logged_kind_of_event_matches_a_line(kind: type) -> None:
    """Every kind of event that should be logged matches one of the lines above."""
    texts = (CHANGED, METADATA, NEW_TOPIC, ADDED, CAUGHT_UP, FAILED)
    texts += (
        "[Controller id=4] Unclean leader election has been enabled for topic t",
        "[Controller id=3] Unclean leader election has been enabled by default",
        "[Controller id=2] Processing automatic preferred replica leader election",
        "[Controller id=2] Delete topics listener fired for topics t to be deleted",
        "[Controller id=2] Starting replica leader election (PREFERRED) for partitions t-0 "
        "triggered by ZkTriggered",
    )
    made = [one for one in map(trigger_for, map(marker_in, texts)) if isinstance(one, kind)]
    assert made
    assert all(any(matches(marker_in(text), one) for text in texts) for one in made)
