"""The cluster as the ZooKeeper of an imported log has it, without the state of its controller."""

from msgspec import structs

from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.core.topic_configs import MIN_INSYNC_REPLICAS, least_in_sync
from controller.core.values import Assignment, LeaderAndIsr
from controller.core.znodes.config import broker_config_path, topic_config_path
from replay.cluster_view.views import (
    NO_BROKER,
    BrokerView,
    ClusterView,
    ControllerView,
    DeletionView,
    PartitionStatus,
    PartitionView,
    ReplicaDeletionView,
    TopicView,
    partition_view,
    reassignments_of,
)
from replay.names import partition_name
from replay.parsed_znodes import (
    kraft_controller,
    parsed_config,
    parsed_epoch,
    parsed_state,
    parsed_topic,
)
from replay.znode_view import ZnodeView


def cluster_of(view: ZnodeView, seq: int, time: str) -> ClusterView:
    """The cluster as ZooKeeper has it, without znodes that cannot be parsed."""
    brokers = _brokers(view)
    live = {one.id for one in brokers}
    being_deleted = view.children(znodes.DELETE_TOPICS)
    default = _default_of(view)
    topics = [
        _topic(view, name, live, being_deleted, default) for name in view.children(znodes.TOPICS)
    ]
    return ClusterView(
        seq=seq,
        time=time,
        log="world-backed",
        controller=controller_of(view),
        brokers=brokers,
        topics=topics,
        reassignments=reassignments_of(topics, brokers),
        deletions=[_deletion(name, topics, live) for name in being_deleted],
        replica_deletions=_replica_deletions(view, live),
    )


def controller_of(view: ZnodeView) -> ControllerView:
    """The broker, or the KRaft controller, by /controller and /controller_epoch."""
    found, epoch = view.find(znodes.CONTROLLER), view.find(znodes.CONTROLLER_EPOCH)
    holder = znodes.read_controller(found.data) if found is not None else None
    known = (parsed_epoch(epoch.data) or 0) if epoch is not None else 0
    return ControllerView(
        "observed",
        NO_BROKER if holder is None else holder.brokerid,
        known if found is not None else 0,
        found.owner if found is not None else 0,
        is_kraft=found is not None and kraft_controller(found.data) is not None,
    )


def _brokers(view: ZnodeView) -> list[BrokerView]:
    names = filter(znodes.is_broker_id, view.children(znodes.BROKER_IDS))
    found = (broker_of(view, int(name)) for name in names)
    return sorted((one for one in found if one is not None), key=lambda one: one.id)


def broker_of(view: ZnodeView, id: int) -> BrokerView | None:
    """One broker; None if it has no registration that can be parsed."""
    znode = view.find(f"{znodes.BROKER_IDS}/{id}")
    try:
        broker = None if znode is None else znodes.read_broker(id, znode.data, znode.czxid)
    except ZnodeError:
        broker = None
    if broker is None:
        return None
    endpoints = [f"{one.listener}://{one.host}:{one.port}" for one in broker.endpoints]
    return BrokerView(broker.id, broker.epoch, endpoints, broker.rack)


def partition_of(view: ZnodeView, topic: str, number: int) -> PartitionView | None:
    """One partition; None if its topic has no znode that can be parsed and has it."""
    znode = view.find(znodes.topic_path(topic))
    content = parsed_topic(topic, znode.data if znode is not None else None)
    assignment = content.assignments.get(number) if content is not None else None
    if assignment is None:
        return None
    live = {one.id for one in _brokers(view)}
    is_being_deleted = topic in view.children(znodes.DELETE_TOPICS)
    state = state_of(view, topic, number)
    return _partition(topic, number, assignment, state, live, is_being_deleted)


def _topic(
    view: ZnodeView,
    name: str,
    live: set[int],
    being_deleted: tuple[str, ...],
    default_min_insync: str | None,
) -> TopicView:
    znode = view.find(znodes.topic_path(name))
    content = parsed_topic(name, znode.data if znode is not None else None)
    if content is None:
        return TopicView(name, None, [])
    partitions = [
        _partition(name, number, one, state_of(view, name, number), live, name in being_deleted)
        for number, one in sorted(content.assignments.items())
    ]
    topic_id = content.topic_id.hex() if content.topic_id else None
    return TopicView(
        name, topic_id, partitions, _min_insync_replicas(view, name, default_min_insync)
    )


def _min_insync_replicas(view: ZnodeView, topic: str, default: str | None) -> int | None:
    """min.insync.replicas of a topic; None if neither the topic nor the dynamic default of the
    brokers has it."""
    own = config_of(view, topic_config_path(topic)).get(MIN_INSYNC_REPLICAS)
    return None if own is None and default is None else least_in_sync([own, default])


def _default_of(view: ZnodeView) -> str | None:
    """The brokers' dynamic default of min.insync.replicas."""
    return config_of(view, broker_config_path(None)).get(MIN_INSYNC_REPLICAS)


def with_configs(cluster: ClusterView, view: ZnodeView) -> ClusterView:
    """A cluster from another source, with the configurations of its topics in these znodes."""
    default = _default_of(view)
    topics = [
        structs.replace(one, min_insync_replicas=_min_insync_replicas(view, one.name, default))
        for one in cluster.topics
    ]
    return structs.replace(cluster, topics=topics)


def config_of(view: ZnodeView, path: str) -> dict[str, str]:
    """The dynamic configuration in a znode; empty if there is none that can be parsed."""
    znode = view.find(path)
    return parsed_config(path, znode.data if znode is not None else None)


def state_of(view: ZnodeView, topic: str, number: int) -> LeaderAndIsr | None:
    """A partition's state, None if there is none that can be parsed."""
    path = znodes.state_path(topic, number)
    znode = view.find(path)
    return None if znode is None else parsed_state(path, znode.data, znode.version)


def _partition(
    topic: str,
    number: int,
    assignment: Assignment,
    state: LeaderAndIsr | None,
    live: set[int],
    is_being_deleted: bool,
) -> PartitionView:
    status: PartitionStatus = "new"
    if is_being_deleted:
        status = "deleting"
    elif state is not None:
        status = "online" if state.leader in live else "offline"
    offline = (one for one in assignment.replicas if one not in live)
    return partition_view(topic, number, status, state, assignment, offline)


def _deletion(name: str, topics: list[TopicView], live: set[int]) -> DeletionView:
    of_topic = [one for topic in topics if topic.name == name for one in topic.partitions]
    offline = {one for each in of_topic for one in each.replicas if one not in live}
    return DeletionView(name, "waits" if offline else "under way", tuple(sorted(offline)))


def _replica_deletions(view: ZnodeView, live: set[int]) -> list[ReplicaDeletionView]:
    """The replicas whose deletion is recorded and not confirmed, each once."""
    pending = set()
    for child in view.children(znodes.REPLICA_DELETIONS):
        path = znodes.deletion_path(child)
        znode = view.find(path)
        try:
            found = znodes.read_deletion(path, znode.data if znode is not None else None)
        except ZnodeError:
            continue
        pending |= {(*name, found.broker) for name in found.partitions}
    return [
        ReplicaDeletionView(partition_name(topic, number), broker, broker in live)
        for topic, number, broker in sorted(pending)
    ]
