"""Reads the state of a cluster from ZooKeeper."""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.core.topic_configs import MIN_INSYNC_REPLICAS, least_in_sync
from controller.core.values import Assignment, Broker, format_brokers
from controller.core.znodes import (
    REASSIGN_CANCEL,
    REASSIGN_PARTITIONS_EXTRA,
    REASSIGNMENT_REQUESTS,
    REASSIGNMENTS,
    REPLICA_DELETIONS,
    Reassignment,
    ReassignmentRequest,
    deletion_path,
    is_forced,
    parse_natural,
    read_deletion,
    read_entries,
    read_reassignment,
    read_request,
    reassignment_path,
    reassignments_path,
    request_number,
    request_path,
)
from controller.operator.reassignment.cluster_state import (
    NO_CONTROLLER,
    CancelZnode,
    ClusterState,
    ControllerKind,
    CurrentController,
    Deletions,
    Leadership,
    ReassignmentRecord,
    ReassignmentZnodes,
    SubmittedEntries,
    UnusableRecord,
)
from controller.operator.reassignment.documents import Partition
from controller.operator.reassignment.errors import ReassignmentRefused
from controller.operator.reassignment.throttle_configs import brokers_of_throttled_replicas
from controller.operator.zookeeper_client import ExistingZnode, ZooKeeperClient

_SINGLE = (
    znodes.CONTROLLER,
    REASSIGN_PARTITIONS_EXTRA,
    znodes.REASSIGN_PARTITIONS,
    REASSIGN_CANCEL,
    REASSIGNMENT_REQUESTS,
)


async def describe(client: ZooKeeperClient, topics: Iterable[str] | None) -> ClusterState:
    """The state of these topics (None: all) and of all reassignments.

    Raises ReassignmentRefused if there is no Kafka cluster.
    """
    names = await client.children(znodes.BROKER_IDS)
    if not names and not await client.exists(znodes.BROKER_IDS):
        raise ReassignmentRefused(
            f"there is no Kafka cluster: {znodes.BROKER_IDS} does not exist; does "
            "--zookeeper have the chroot of the brokers?"
        )
    brokers = await _brokers(client, [int(one) for one in names if znodes.is_broker_id(one)])
    # In the order in which a reassignment passes through these znodes, so that one that is being
    # started or completed is not missed.
    controller, extra, pending, cancel, parent = await client.read(_SINGLE)
    requests, unreadable = await _requests(client)
    records, unusable = await _records(client)
    legacy, unreadable_legacy = _submitted_entries(znodes.REASSIGN_PARTITIONS, pending)
    extras, unreadable_extra = _submitted_entries(REASSIGN_PARTITIONS_EXTRA, extra)
    kip = ReassignmentZnodes(
        legacy,
        extras,
        CancelZnode(cancel.version, is_forced(cancel.data)) if cancel is not None else None,
        records,
        requests,
        {**unreadable, **unreadable_legacy, **unreadable_extra},
        unusable,
        parent is not None,
    )
    moving = ClusterState(NO_CONTROLLER, {}, {}, kip=kip).moving
    wanted = {topic for topic, _ in (*moving, *unusable)}
    wanted.update(await client.children(znodes.TOPICS) if topics is None else topics)
    read = await _topics(client, sorted(wanted))
    kip = await _with_late_records(client, kip, read.assignments)
    kip = _without_contradicting(kip, read.assignments)
    going_back = kip.cancellable if kip.cancel_exists else kip.extra.entries
    rolled_back = {topic for topic, _ in going_back}
    configs = await _topic_configs(client, sorted({*(topics or ()), *rolled_back}))
    state = ClusterState(
        _controller(controller, brokers),
        brokers,
        read.assignments,
        versions=read.versions,
        unreadable_topics=read.unreadable,
        deleted=frozenset(await client.children(znodes.DELETE_TOPICS)),
        kip=kip,
        least_in_sync=configs.least_in_sync,
        throttled=configs.throttled,
    )
    known = [one for one in state.moving if one in state.assignments]
    leaderships = await _leaderships(client, known)
    return msgspec.structs.replace(state, leaderships=leaderships)


async def pending_deletions(client: ZooKeeperClient) -> Deletions:
    """Deletions of replicas that brokers have not confirmed yet."""
    paths = tuple(map(deletion_path, await client.children(REPLICA_DELETIONS)))
    found = Deletions()
    for path, znode in zip(paths, await client.read(paths), strict=True):
        if znode is None:
            continue
        try:
            found.by_path[path] = read_deletion(path, znode.data)
        except ZnodeError as error:
            found.unreadable[path] = str(error)
    return found


class _TopicConfigs(Struct, frozen=True):
    """Configurations of topics, as `ClusterState` has them."""

    least_in_sync: dict[str, int] = {}
    throttled: dict[str, frozenset[int]] = {}


async def _topic_configs(client: ZooKeeperClient, topics: list[str]) -> _TopicConfigs:
    """Unreadable configurations are ignored."""
    paths = (znodes.broker_config_path(None), *map(znodes.topic_config_path, topics))
    configs: list[dict[str, str]] = []
    for path, znode in zip(paths, await client.read(paths), strict=True):
        try:
            configs.append(znodes.read_config(path, znode.data if znode else None))
        except ZnodeError:
            configs.append({})
    of_cluster, *of_topics = configs
    found = _TopicConfigs()
    for topic, config in zip(topics, of_topics, strict=True):
        settings = [one.get(MIN_INSYNC_REPLICAS) for one in (config, of_cluster)]
        if any(one is not None for one in settings):
            found.least_in_sync[topic] = least_in_sync(settings)
        if brokers := brokers_of_throttled_replicas(config):
            found.throttled[topic] = brokers
    return found


async def _records(
    client: ZooKeeperClient,
) -> tuple[dict[Partition, ReassignmentRecord], dict[Partition, UnusableRecord]]:
    """All children of /admin/reassignments, readable and unreadable."""
    partitions = [
        (topic, number)
        for topic in await client.children(REASSIGNMENTS)
        for name in await client.children(reassignments_path(topic))
        if (number := parse_natural(name)) is not None
    ]
    return await _records_of(client, partitions)


async def _with_late_records(
    client: ZooKeeperClient, kip: ReassignmentZnodes, assignments: dict[Partition, Assignment]
) -> ReassignmentZnodes:
    """Add the records of reassignments that started after the records were read."""
    known = {*kip.records, *kip.unusable}
    late = [one for one, it in assignments.items() if it.is_being_reassigned and one not in known]
    records, unusable = await _records_of(client, late)
    return msgspec.structs.replace(
        kip, records=kip.records | records, unusable=kip.unusable | unusable
    )


async def _records_of(
    client: ZooKeeperClient, partitions: list[Partition]
) -> tuple[dict[Partition, ReassignmentRecord], dict[Partition, UnusableRecord]]:
    """The existing records of these partitions, readable and unreadable."""
    paths = tuple(reassignment_path(*one) for one in partitions)
    found: dict[Partition, ReassignmentRecord] = {}
    unusable: dict[Partition, UnusableRecord] = {}
    for partition, path, znode in zip(partitions, paths, await client.read(paths), strict=True):
        if znode is None:
            continue
        try:
            content = read_reassignment(path, znode.data)
        except ZnodeError as error:
            unusable[partition] = UnusableRecord(str(error), znode.czxid)
            continue
        found[partition] = ReassignmentRecord(content, znode.czxid, znode.mzxid)
    return found, unusable


def _without_contradicting(
    kip: ReassignmentZnodes, assignments: dict[Partition, Assignment]
) -> ReassignmentZnodes:
    """Move records that contradict the topic's znode to `unusable`: both are written together,
    so one of them was changed by hand."""
    contradicting: dict[Partition, UnusableRecord] = {}
    for name, record in kip.records.items():
        one, assignment = record.reassignment, assignments.get(name)
        if assignment is None or _agrees(one, assignment):
            continue
        has = f"from {format_brokers(assignment.origin)} to {format_brokers(assignment.target)}"
        if not assignment.is_being_reassigned:
            has = f"{format_brokers(assignment.replicas)} and no reassignment"
        why = (
            f"{reassignment_path(*name)} says from {format_brokers(one.original_replicas)} to "
            f"{format_brokers(one.replicas)}, {znodes.topic_path(name[0])} says {has}"
        )
        contradicting[name] = UnusableRecord(why, record.czxid)
    records = {name: one for name, one in kip.records.items() if name not in contradicting}
    return msgspec.structs.replace(kip, records=records, unusable=kip.unusable | contradicting)


def _agrees(record: Reassignment, assignment: Assignment) -> bool:
    """Without a reassignment the record is about to be deleted: the partition has its target or
    its original replicas."""
    if not assignment.is_being_reassigned:
        return assignment.replicas in (record.replicas, record.original_replicas)
    has_originals = set(record.original_replicas) <= set(assignment.replicas)
    return record.replicas == assignment.target and has_originals


async def _requests(
    client: ZooKeeperClient,
) -> tuple[dict[str, ReassignmentRequest], dict[str, str]]:
    """The requests by path, and why the other ones cannot be read."""
    names = await client.children(REASSIGNMENT_REQUESTS)
    numbered = [name for name in names if request_number(name) is not None]
    paths = tuple(request_path(one) for one in numbered)
    found: dict[str, ReassignmentRequest] = {}
    unreadable: dict[str, str] = {}
    for path, znode in zip(paths, await client.read(paths), strict=True):
        if znode is None:
            continue
        try:
            found[path] = read_request(path, znode.data)
        except ZnodeError as error:
            unreadable[path] = str(error)
    return found, unreadable


def _submitted_entries(
    path: str, znode: ExistingZnode | None
) -> tuple[SubmittedEntries, dict[str, str]]:
    """The entries of a znode; by its path, why they cannot be read."""
    if znode is None:
        return SubmittedEntries(), {}
    try:
        return SubmittedEntries(read_entries(path, znode.data).entries, znode.version), {}
    except ZnodeError as error:
        return SubmittedEntries({}, znode.version), {path: str(error)}


def _controller(znode: ExistingZnode | None, brokers: dict[int, Broker]) -> CurrentController:
    """The controller. A stock controller is a registered broker; refold never registers
    (docs/observations.md#the-controller-role)."""
    holder = znodes.read_controller(znode.data) if znode else None
    if holder is None:
        return NO_CONTROLLER
    if holder.brokerid in brokers or holder.kraftControllerEpoch > 0:
        return CurrentController(ControllerKind.STOCK, holder.brokerid)
    return CurrentController(ControllerKind.REFOLD, holder.brokerid)


async def _brokers(client: ZooKeeperClient, ids: list[int]) -> dict[int, Broker]:
    """The registered brokers. One whose registration cannot be read has no endpoint and no rack."""
    paths = tuple(map(znodes.broker_path, ids))
    brokers: dict[int, Broker] = {}
    for broker, znode in zip(ids, await client.read(paths), strict=True):
        if znode is None:
            continue
        try:
            brokers[broker] = znodes.read_broker(broker, znode.data, znode.czxid)
        except ZnodeError:
            brokers[broker] = Broker(broker, znode.czxid, ())
    return brokers


class _Topics(Struct, frozen=True):
    """The content of topic znodes; `unreadable`: why a topic's znode cannot be read."""

    assignments: dict[Partition, Assignment] = {}
    versions: dict[str, int] = {}
    unreadable: dict[str, str] = {}


async def _topics(client: ZooKeeperClient, topics: list[str]) -> _Topics:
    paths = tuple(map(znodes.topic_path, topics))
    found = _Topics()
    for topic, znode in zip(topics, await client.read(paths), strict=True):
        if znode is None:
            continue
        try:
            content = znodes.read_topic(topic, znode.data)
        except ZnodeError as error:
            found.unreadable[topic] = str(error)
            continue
        found.versions[topic] = znode.version
        for number, one in content.assignments.items():
            found.assignments[topic, number] = one
    return found


async def _leaderships(
    client: ZooKeeperClient, partitions: list[Partition]
) -> dict[Partition, Leadership]:
    paths = tuple(znodes.state_path(*one) for one in partitions)
    found: dict[Partition, Leadership] = {}
    for partition, path, znode in zip(partitions, paths, await client.read(paths), strict=True):
        if znode is None:
            continue
        try:
            state = znodes.read_state(path, znode.data, znode.version)
        except ZnodeError:
            continue
        found[partition] = Leadership(state.leader, state.isr)
    return found
