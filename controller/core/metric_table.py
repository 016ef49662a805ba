"""Every metric that follows from the events of a log: its name, kind, unit and source.

The names are those under which Kafka's dashboards plot the metrics of a broker, as jmx_exporter
makes them of the JMX names: in lower case, with the quantiles of a timer as labels.
"""

from typing import Final, Literal, NamedTuple

from controller.core.triggers import (
    ApiCall,
    AutoPreferredReplicaLeaderElection,
    BrokerChange,
    BrokerModifications,
    ControllerChange,
    Expire,
    HandBack,
    IsrChangeNotification,
    LeaderAndIsrResponseReceived,
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

Kind = Literal["gauge", "counter", "summary"]


class Metric(NamedTuple):
    """A metric. `source` is the JMX name of Kafka's metric, or "refold" for a metric that only
    refold has. A summary has quantiles and a count."""

    name: str
    kind: Kind
    unit: str
    about: str
    source: str = "refold"


class ControllerState(NamedTuple):
    """A state of Kafka's controller (ControllerState.scala): its value, and its timer; an empty
    name means that Kafka has no timer for it."""

    value: int
    timer: str = ""


IDLE: Final = ControllerState(0)
_STATES: Final = {
    "ControllerChange": ControllerState(1, "ControllerChange"),
    # Kafka's name of this timer is older than the states.
    "BrokerChange": ControllerState(2, "LeaderElection"),
    "TopicChange": ControllerState(3, "TopicChange"),
    "TopicDeletion": ControllerState(4, "TopicDeletion"),
    "AlterPartitionReassignment": ControllerState(5, "PartitionReassignment"),
    "AutoLeaderBalance": ControllerState(6, "AutoLeaderBalance"),
    "ManualLeaderBalance": ControllerState(7, "ManualLeaderBalance"),
    "ControlledShutdown": ControllerState(8, "ControlledShutdown"),
    "IsrChange": ControllerState(9, "IsrChange"),
    "LeaderAndIsrResponseReceived": ControllerState(10, "LeaderAndIsrResponseReceived"),
    "LogDirChange": ControllerState(11, "LogDirChange"),
    "ControllerShutdown": ControllerState(12, "ControllerShutdown"),
    "UncleanLeaderElectionEnable": ControllerState(13, "UncleanLeaderElectionEnable"),
    "TopicUncleanLeaderElectionEnable": ControllerState(14, "TopicUncleanLeaderElectionEnable"),
    "ListPartitionReassignment": ControllerState(15, "ListPartitionReassignment"),
    "UpdateFeatures": ControllerState(17, "UpdateFeatures"),
}
TIMERS: Final = tuple(state.timer for state in _STATES.values())
LEADER_AND_ISR_TIMER: Final = "LeaderAndIsrResponseReceived"

_OF_TRIGGER: Final[dict[type[Trigger], str]] = {
    Startup: "ControllerChange",
    ControllerChange: "ControllerChange",
    Reelect: "ControllerChange",
    Expire: "ControllerChange",
    HandBack: "ControllerShutdown",
    BrokerChange: "BrokerChange",
    BrokerModifications: "BrokerChange",
    TopicChange: "TopicChange",
    PartitionModifications: "TopicChange",
    TopicDeletion: "TopicDeletion",
    TopicDeletionStopReplicaResponseReceived: "TopicDeletion",
    ZkPartitionReassignment: "AlterPartitionReassignment",
    PartitionReassignmentIsrChange: "AlterPartitionReassignment",
    IsrChangeNotification: "IsrChange",
    LogDirEventNotification: "LogDirChange",
    LeaderAndIsrResponseReceived: "LeaderAndIsrResponseReceived",
    ReplicaLeaderElection: "ManualLeaderBalance",
    AutoPreferredReplicaLeaderElection: "AutoLeaderBalance",
    UncleanLeaderElectionEnable: "UncleanLeaderElectionEnable",
    TopicUncleanLeaderElectionEnable: "TopicUncleanLeaderElectionEnable",
}


def controller_state(trigger: Trigger) -> ControllerState:
    """The state in which Kafka's controller handles this controller event (ControllerEvent.state).
    Events that Kafka's controller does not have are handled in the state IDLE."""
    if isinstance(trigger, ApiCall):
        name = trigger.request.CONTROLLER_STATE
    else:
        name = _OF_TRIGGER.get(type(trigger), "")
    return _STATES[name] if name else IDLE


# Names ------------------------------------------------------------------------------------------

_CONTROLLER: Final = "KafkaController"
_MANAGER: Final = "ControllerEventManager"
_CHANNELS: Final = "ControllerChannelManager"
_STATS: Final = "ControllerStats"
_SESSION: Final = "SessionExpireListener"


def kafka_name(group: str, name: str, domain: str = "controller") -> str:
    """The name that jmx_exporter gives to the metric kafka.<domain>:type=<group>,name=<name>."""
    return f"kafka_{domain}_{group}_{name}".lower()


def timer_name(timer: str) -> str:
    """The name of the timer of a state of the controller."""
    return kafka_name(_STATS, f"{timer}RateAndTimeMs")


GAUGES: Final = {
    "ActiveControllerCount": "1 if this daemon is the controller, 0 while another is controller.",
    "ActiveBrokerCount": "Registered brokers, those in controlled shutdown included.",
    "ControllerState": "The state of the controller while it handles an event; 0: idle.",
    "FencedBrokerCount": "0, as in Kafka: ZooKeeper mode has no fenced brokers.",
    "GlobalPartitionCount": "Partitions whose leadership is known.",
    "GlobalTopicCount": "Topics.",
    "OfflinePartitionsCount": "Partitions without a leader that is alive, deletions excluded.",
    "PreferredReplicaImbalanceCount": "Partitions that their preferred replica does not lead.",
    "ReplicasIneligibleToDeleteCount": "Replicas whose deletion has to wait.",
    "ReplicasToDeleteCount": "Replicas of topics queued for deletion that are not deleted yet.",
    "TopicsIneligibleToDeleteCount": "Topics whose deletion has to wait.",
    "TopicsToDeleteCount": "Topics queued for deletion.",
    "ZkMigrationState": "4 (ZK), as in Kafka without a migration to KRaft.",
}
"""The gauges of kafka.controller:type=KafkaController, by Kafka's name."""

UNCLEAN: Final = kafka_name(_STATS, "UncleanLeaderElections_total")
QUEUE_SIZE: Final = kafka_name(_MANAGER, "EventQueueSize")
QUEUE_TIME: Final = kafka_name(_MANAGER, "EventQueueTimeMs")
CHANNEL_QUEUE_SIZE: Final = kafka_name(_CHANNELS, "QueueSize")
TOTAL_QUEUE_SIZE: Final = kafka_name(_CHANNELS, "TotalQueueSize")
REQUEST_TIME: Final = kafka_name(_CHANNELS, "RequestRateAndQueueTimeMs")
EVENTS: Final = "refold_events_total"
STANDBY_LAG: Final = "refold_standby_lag_seconds"
STANDBY_STALE: Final = "refold_standby_stale_znodes"

SESSION_METERS: Final = {
    "ZooKeeperSyncConnects": "Connections to a ZooKeeper server.",
    "ZooKeeperDisconnects": "Lost connections to ZooKeeper.",
    "ZooKeeperExpires": "Sessions that have ended.",
    "ZooKeeperAuthFailures": "0: the daemon does not observe such a change of the session.",
    "ZooKeeperReadOnlyConnects": "0: the daemon does not connect to read-only servers.",
    "ZooKeeperSaslAuthentications": "0: the daemon does not observe such a change of the session.",
}
"""The meters of kafka.server:type=SessionExpireListener, without the ending PerSec."""


def session_name(meter: str) -> str:
    """The name of a meter of the ZooKeeper session."""
    return kafka_name(_SESSION, f"{meter}_total", "server")


def _jmx(group: str, name: str, domain: str = "controller") -> str:
    return f"kafka.{domain}:type={group},name={name}"


METRICS: Final = (
    *(
        Metric(kafka_name(_CONTROLLER, name), "gauge", "", about, _jmx(_CONTROLLER, name))
        for name, about in GAUGES.items()
    ),
    Metric(
        UNCLEAN,
        "counter",
        "elections",
        "Unclean leaders that were chosen, counted before they are written.",
        _jmx(_STATS, "UncleanLeaderElectionsPerSec"),
    ),
    *(
        Metric(
            timer_name(timer),
            "summary",
            "ms",
            "The time from the beginning to the end of a controller event of this kind.",
            _jmx(_STATS, f"{timer}RateAndTimeMs"),
        )
        for timer in TIMERS
    ),
    Metric(
        QUEUE_SIZE,
        "gauge",
        "events",
        "Controller events that wait.",
        _jmx(_MANAGER, "EventQueueSize"),
    ),
    Metric(
        QUEUE_TIME,
        "summary",
        "ms",
        "The time that a controller event has waited.",
        _jmx(_MANAGER, "EventQueueTimeMs"),
    ),
    Metric(
        CHANNEL_QUEUE_SIZE,
        "gauge",
        "requests",
        "Requests to a broker that wait, without the one in flight.",
        _jmx(_CHANNELS, "QueueSize,broker-id=<id>"),
    ),
    Metric(
        TOTAL_QUEUE_SIZE,
        "gauge",
        "requests",
        "Requests to all brokers that wait.",
        _jmx(_CHANNELS, "TotalQueueSize"),
    ),
    Metric(
        REQUEST_TIME,
        "summary",
        "ms",
        "The time that a request to a broker has waited before it was first sent.",
        _jmx(_CHANNELS, "RequestRateAndQueueTimeMs,broker-id=<id>"),
    ),
    *(
        Metric(
            session_name(meter), "counter", "", about, _jmx(_SESSION, f"{meter}PerSec", "server")
        )
        for meter, about in SESSION_METERS.items()
    ),
    Metric(EVENTS, "counter", "events", "Events that were folded."),
    Metric(
        STANDBY_LAG,
        "gauge",
        "s",
        "How long a standby has known of a change that it has not read yet; 0: of none.",
    ),
    Metric(STANDBY_STALE, "gauge", "znodes", "What a standby has to read again."),
)
"""In the order in which they are exported."""


def controller_gauge(name: str) -> str:
    """The exported name of a gauge of kafka.controller:type=KafkaController."""
    return kafka_name(_CONTROLLER, name)
