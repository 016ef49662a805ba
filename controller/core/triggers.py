"""Controller events (KB 3.1). Each is handled by a procedure, first in, first out."""

from msgspec import Struct

from controller.core import znodes
from controller.core.api_requests import ApiRequest
from controller.core.api_requests.topics import CreateTopicsReceived
from controller.core.events import BrokerResponded
from controller.core.znodes.acls import ACL_CHANGES


class Startup(Struct, frozen=True, array_like=True, tag="Startup"):
    """A session began: read /controller and try to become controller (KB 3.2.1)."""


class ControllerChange(Struct, frozen=True, array_like=True, tag="ControllerChange"):
    """/controller was created or changed (KB 3.2.2)."""


class Reelect(Struct, frozen=True, array_like=True, tag="Reelect"):
    """/controller was deleted (KB 3.2.3)."""


class Expire(Struct, frozen=True, array_like=True, tag="Expire"):
    """The session has ended (KB 3.2.5)."""


class HandBack(Struct, frozen=True, array_like=True, tag="HandBack"):
    """The daemon is about to exit: give up the role first."""

    reason: str


class Follow(Struct, frozen=True, array_like=True, tag="Follow"):
    """A standby reads what it does not know of the cluster, or what has changed."""


class BrokerChange(Struct, frozen=True, array_like=True, tag="BrokerChange"):
    """The children of /brokers/ids changed (KB 3.3)."""


class BrokerModifications(Struct, frozen=True, array_like=True, tag="BrokerModifications"):
    """A broker's registration changed (KB 3.4)."""

    broker: int


class TopicChange(Struct, frozen=True, array_like=True, tag="TopicChange"):
    """The children of /brokers/topics changed (KB 3.5)."""


class PartitionModifications(Struct, frozen=True, array_like=True, tag="PartitionModifications"):
    """A topic's znode changed (KB 3.6)."""

    topic: str


class IsrChangeNotification(Struct, frozen=True, array_like=True, tag="IsrChangeNotification"):
    """Leaders announced ISR changes below /isr_change_notification (KB 3.12)."""


class LogDirEventNotification(Struct, frozen=True, array_like=True, tag="LogDirEventNotification"):
    """Brokers announced failed log directories below /log_dir_event_notification (KB 3.11.3)."""


class LeaderAndIsrResponseReceived(
    Struct, frozen=True, array_like=True, tag="LeaderAndIsrResponseReceived"
):
    """A broker's LeaderAndIsr response that concerns its log directories (KB 3.11.1). `asked` names
    the partitions of the request."""

    response: BrokerResponded
    asked: list[tuple[str, int]]


class TopicDeletion(Struct, frozen=True, array_like=True, tag="TopicDeletion"):
    """The children of /admin/delete_topics changed (KB 8.2.1)."""


class TopicDeletionStopReplicaResponseReceived(
    Struct, frozen=True, array_like=True, tag="TopicDeletionStopReplicaResponseReceived"
):
    """A broker's response to a StopReplica with deletions (KB 8.2.2). `asked` names the partitions
    of topics that are being deleted. `epoch`: the controller epoch at that time; 0: unknown."""

    response: BrokerResponded
    asked: list[tuple[str, int]]
    epoch: int = 0


class ZkPartitionReassignment(Struct, frozen=True, array_like=True, tag="ZkPartitionReassignment"):
    """/admin/reassign_partitions was created (KB 7.2). Not `created`: it was changed or deleted."""

    created: bool = True


class ReassignmentCancel(Struct, frozen=True, array_like=True, tag="ReassignmentCancel"):
    """/admin/reassign_cancel was created, changed or deleted, or a waiting rollback may be possible
    now (KB 14.2).

    `created`: its creation was reported, by transaction `zxid` (-1: servers before 3.9 do not send
    it), though it may be deleted again.
    """

    created: bool = False
    zxid: int = -1


class ReplicaDeletions(Struct, frozen=True, array_like=True, tag="ReplicaDeletions"):
    """The children of /admin/replica_deletions changed, or one of them is confirmed."""


class UnconfirmedDeletions(Struct, frozen=True, array_like=True, tag="UnconfirmedDeletions"):
    """Brokers have had time to confirm the deletion of replicas."""


class ExtraReassignments(Struct, frozen=True, array_like=True, tag="ExtraReassignments"):
    """/admin/reassign_partitions_extra was written, or its entries no longer have to wait (KB
    14.3)."""


class ReassignmentRequests(Struct, frozen=True, array_like=True, tag="ReassignmentRequests"):
    """The children of /admin/reassignment_requests changed, or no longer have to wait (KB 14.5)."""


class PartitionReassignmentIsrChange(
    Struct, frozen=True, array_like=True, tag="PartitionReassignmentIsrChange"
):
    """The ISR of a partition that is being reassigned changed (KB 7.5): its state znode was written
    (below IBP 2.7-IV2), or its leader's AlterPartition was answered."""

    topic: str
    partition: int
    together: tuple[tuple[str, int], ...] = ()

    @property
    def names(self) -> list[tuple[str, int]]:
        """The partition, and the partitions that are handled together with it."""
        return [(self.topic, self.partition), *self.together]


class ReplicaLeaderElection(Struct, frozen=True, array_like=True, tag="ReplicaLeaderElection"):
    """/admin/preferred_replica_election was created (KB 3.9). Any other change also leads here: on
    servers before 3.6 it uses up the watch for the next creation."""


class AutoPreferredReplicaLeaderElection(
    Struct, frozen=True, array_like=True, tag="AutoPreferredReplicaLeaderElection"
):
    """The timer for the automatic rebalance of leaders fired (KB 10)."""


class ConfigChange(Struct, frozen=True, array_like=True, tag="ConfigChange"):
    """The children of /config/changes changed (KB 1.1)."""


class AclChange(Struct, frozen=True, array_like=True, tag="AclChange"):
    """ACLs were changed: the children of /kafka-acl-changes or /kafka-acl-extended-changes."""


class UncleanLeaderElectionEnable(
    Struct, frozen=True, array_like=True, tag="UncleanLeaderElectionEnable"
):
    """Unclean leaders are now allowed, unless a topic's configuration says otherwise (KB 3.10)."""


class TopicUncleanLeaderElectionEnable(
    Struct, frozen=True, array_like=True, tag="TopicUncleanLeaderElectionEnable"
):
    """A topic now allows unclean leaders (KB 3.10)."""

    topic: str


class ApiCall(Struct, frozen=True, array_like=True, tag="ApiCall"):
    """A request of the endpoint, and those that are handled together with it."""

    request: ApiRequest
    together: list[CreateTopicsReceived] = []

    @property
    def requests(self) -> list[ApiRequest]:
        """All requests, in the order in which they came."""
        return [self.request, *self.together]


Trigger = (
    Startup
    | ControllerChange
    | Reelect
    | Expire
    | HandBack
    | Follow
    | BrokerChange
    | BrokerModifications
    | TopicChange
    | PartitionModifications
    | IsrChangeNotification
    | LogDirEventNotification
    | LeaderAndIsrResponseReceived
    | TopicDeletion
    | TopicDeletionStopReplicaResponseReceived
    | ZkPartitionReassignment
    | ReassignmentCancel
    | ReplicaDeletions
    | UnconfirmedDeletions
    | ExtraReassignments
    | ReassignmentRequests
    | PartitionReassignmentIsrChange
    | ReplicaLeaderElection
    | AutoPreferredReplicaLeaderElection
    | ConfigChange
    | AclChange
    | UncleanLeaderElectionEnable
    | TopicUncleanLeaderElectionEnable
    | ApiCall
)


def trigger_name(trigger: Trigger) -> str:
    """Kafka's name of a controller event; for a request, the name of its API."""
    if isinstance(trigger, ApiCall):
        return type(trigger.request).__name__.removesuffix("Received")
    return type(trigger).__name__


_URGENT = (
    BrokerChange,
    IsrChangeNotification,
    LogDirEventNotification,
    LeaderAndIsrResponseReceived,
)


def is_urgent(trigger: Trigger) -> bool:
    """Whether partitions may be without a leader, or producers waiting, until this event is handled
    (LONG_WORK_INTERRUPTED)."""
    if isinstance(trigger, ApiCall):
        return trigger.request.IS_URGENT
    return isinstance(trigger, _URGENT)


# Watches ----------------------------------------------------------------------------------------


def trigger_of(path: str, change: str, zxid: int = -1) -> Trigger | None:
    """The controller event of a fired watch (KB 1.1); None if the change does not matter."""
    if path == znodes.CONTROLLER:
        return Reelect() if change == "deleted" else ControllerChange()
    if change == "children":
        return _OF_CHILDREN.get(path)
    if path == znodes.REASSIGN_PARTITIONS:
        return ZkPartitionReassignment(created=change == "created")
    if path == znodes.REASSIGN_CANCEL:
        return ReassignmentCancel(True, zxid) if change == "created" else ReassignmentCancel()
    if path in _OF_PATH:
        return _OF_PATH[path]
    if path == znodes.PREFERRED_ELECTION:
        return ReplicaLeaderElection()
    parent, _, name = path.rpartition("/")
    if change == "data" and parent == znodes.BROKER_IDS and znodes.is_broker_id(name):
        return BrokerModifications(int(name))
    if change == "data" and parent == znodes.TOPICS:
        return PartitionModifications(name)
    partition = znodes.partition_of_state(path) if change == "data" else None
    return PartitionReassignmentIsrChange(*partition) if partition else None


_OF_CHILDREN: dict[str, Trigger] = {
    znodes.BROKER_IDS: BrokerChange(),
    znodes.TOPICS: TopicChange(),
    znodes.ISR_CHANGES: IsrChangeNotification(),
    znodes.LOG_DIR_EVENTS: LogDirEventNotification(),
    znodes.DELETE_TOPICS: TopicDeletion(),
    znodes.CONFIG_CHANGES: ConfigChange(),
    **dict.fromkeys(ACL_CHANGES, AclChange()),
    znodes.REASSIGNMENT_REQUESTS: ReassignmentRequests(),
    znodes.REPLICA_DELETIONS: ReplicaDeletions(),
}
_OF_PATH: dict[str, Trigger] = {
    **dict.fromkeys(ACL_CHANGES, AclChange()),
    znodes.REASSIGN_PARTITIONS_EXTRA: ExtraReassignments(),
    znodes.REASSIGNMENT_REQUESTS: ReassignmentRequests(),
    znodes.REPLICA_DELETIONS: ReplicaDeletions(),
}
