"""Which controller event a fired watch leads to (KB 1.1)."""

from controller.core import znodes
from controller.core.triggers import (
    BrokerChange,
    BrokerModifications,
    ConfigChange,
    ControllerChange,
    ExtraReassignments,
    IsrChangeNotification,
    LogDirEventNotification,
    PartitionModifications,
    PartitionReassignmentIsrChange,
    ReassignmentCancel,
    ReassignmentRequests,
    Reelect,
    ReplicaDeletions,
    ReplicaLeaderElection,
    TopicChange,
    TopicDeletion,
    Trigger,
    ZkPartitionReassignment,
)


def trigger_of(path: str, change: str, zxid: int = -1) -> Trigger | None:
    """The controller event that a watch leads to (KB 1.1); None for those of no meaning."""
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
    partition = znodes.state_of(path) if change == "data" else None
    return PartitionReassignmentIsrChange(*partition) if partition else None


_OF_CHILDREN: dict[str, Trigger] = {
    znodes.BROKER_IDS: BrokerChange(),
    znodes.TOPICS: TopicChange(),
    znodes.ISR_CHANGES: IsrChangeNotification(),
    znodes.LOG_DIR_EVENTS: LogDirEventNotification(),
    znodes.DELETE_TOPICS: TopicDeletion(),
    znodes.CONFIG_CHANGES: ConfigChange(),
    znodes.REASSIGNMENT_REQUESTS: ReassignmentRequests(),
    znodes.REPLICA_DELETIONS: ReplicaDeletions(),
}
_OF_PATH: dict[str, Trigger] = {
    znodes.REASSIGN_PARTITIONS_EXTRA: ExtraReassignments(),
    znodes.REASSIGNMENT_REQUESTS: ReassignmentRequests(),
}
