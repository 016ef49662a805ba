"""Looks at a cluster through ZooKeeper."""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.core.topic_configs import MIN_INSYNC_REPLICAS, least_in_sync
from controller.core.values import Assignment, Broker
from controller.core.znodes import (
    REASSIGN_CANCEL,
    REASSIGN_PARTITIONS_EXTRA,
    REASSIGNMENT_REQUESTS,
    REASSIGNMENTS,
    REPLICA_DELETIONS,
    Reassignment,
    Request,
    deletion_path,
    is_forced,
    natural,
    read_deletion,
    read_entries,
    read_reassignment,
    read_request,
    reassignment_path,
    reassignments_path,
    request_number,
    request_path,
)
from controller.operator.reassignment.documents import Partition
from controller.operator.reassignment.errors import Refused
from controller.operator.reassignment.view import (
    NOBODY,
    Cancellation,
    Controller,
    Deletions,
    KipZnodes,
    Leadership,
    Record,
    Role,
    Submitted,
    Unusable,
    View,
)
from controller.operator.reassignment.zookeeper_store import Znode, ZooKeeperStore

_SINGLE = (
    znodes.CONTROLLER,
    REASSIGN_PARTITIONS_EXTRA,
    znodes.REASSIGN_PARTITIONS,
    REASSIGN_CANCEL,
    REASSIGNMENT_REQUESTS,
)


async def look(store: ZooKeeperStore, topics: Iterable[str] | None) -> View:
    """At these topics (None: at all of them) and at everything that is on its way.

    Raises Refused where there is no Kafka cluster.
    """
    names = await store.children(znodes.BROKER_IDS)
    if not names and not await store.exists(znodes.BROKER_IDS):
        raise Refused(
            f"there is no Kafka cluster: {znodes.BROKER_IDS} does not exist; is the chroot in "
            "--zookeeper the one that the brokers have?"
        )
    brokers = await _brokers(store, [int(one) for one in names if znodes.is_broker_id(one)])
    # In the order in which a reassignment goes through them: one that is taken up, or completed,
    # meanwhile is still seen at its next place.
    controller, extra, pending, cancel, parent = await store.read(_SINGLE)
    unreadable: dict[str, str] = {}
    requests = await _requests(store, unreadable)
    records, unusable = await _records(store)
    kip = KipZnodes(
        _submitted(znodes.REASSIGN_PARTITIONS, pending, unreadable),
        _submitted(REASSIGN_PARTITIONS_EXTRA, extra, unreadable),
        Cancellation(cancel.version, is_forced(cancel.data)) if cancel is not None else None,
        records,
        requests,
        unreadable,
        unusable,
        parent is not None,
    )
    moving = View(NOBODY, {}, {}, kip=kip).moving
    wanted = {topic for topic, _ in (*moving, *unusable)}
    wanted.update(await store.children(znodes.TOPICS) if topics is None else topics)
    read = await _topics(store, sorted(wanted))
    kip = await _with_late_records(store, kip, read.assignments)
    kip = _without_unfitting(kip, read.assignments)
    going_back = kip.cancellable if kip.cancel_stands else kip.extra.entries
    rolled_back = {topic for topic, _ in going_back}
    view = View(
        _controller(controller, brokers),
        brokers,
        read.assignments,
        versions=read.versions,
        unreadable_topics=read.unreadable,
        deleted=frozenset(await store.children(znodes.DELETE_TOPICS)),
        kip=kip,
        least_in_sync=await _least_in_sync(store, sorted({*(topics or ()), *rolled_back})),
    )
    known = [one for one in view.moving if one in view.assignments]
    leaderships = await _leaderships(store, known)
    return msgspec.structs.replace(view, leaderships=leaderships)


async def pending_deletions(store: ZooKeeperStore) -> Deletions:
    """The deletions of replicas that brokers have not confirmed yet."""
    paths = tuple(map(deletion_path, await store.children(REPLICA_DELETIONS)))
    found = Deletions()
    for path, znode in zip(paths, await store.read(paths), strict=True):
        if znode is None:
            continue
        try:
            found.by_path[path] = read_deletion(path, znode.data)
        except ZnodeError as error:
            found.unreadable[path] = str(error)
    return found


async def _least_in_sync(store: ZooKeeperStore, topics: list[str]) -> dict[str, int]:
    """min.insync.replicas of those topics for which ZooKeeper has it; what cannot be read says
    nothing."""
    paths = (znodes.broker_config_path(None), *map(znodes.topic_config_path, topics))
    settings: list[str | None] = []
    for path, znode in zip(paths, await store.read(paths), strict=True):
        try:
            config = znodes.read_config(path, znode.data if znode else None)
        except ZnodeError:
            config = {}
        settings.append(config.get(MIN_INSYNC_REPLICAS))
    of_cluster, *of_topics = settings
    return {
        topic: least_in_sync((one, of_cluster))
        for topic, one in zip(topics, of_topics, strict=True)
        if one is not None or of_cluster is not None
    }


async def _records(
    store: ZooKeeperStore,
) -> tuple[dict[Partition, Record], dict[Partition, Unusable]]:
    """Every child of /admin/reassignments, and those that cannot be read."""
    partitions = [
        (topic, number)
        for topic in await store.children(REASSIGNMENTS)
        for name in await store.children(reassignments_path(topic))
        if (number := natural(name)) is not None
    ]
    return await _records_of(store, partitions)


async def _with_late_records(
    store: ZooKeeperStore, kip: KipZnodes, assignments: dict[Partition, Assignment]
) -> KipZnodes:
    """Partitions that began to move since the records were read have one now."""
    known = {*kip.records, *kip.unusable}
    late = [one for one, it in assignments.items() if it.is_being_reassigned and one not in known]
    records, unusable = await _records_of(store, late)
    return msgspec.structs.replace(
        kip, records=kip.records | records, unusable=kip.unusable | unusable
    )


async def _records_of(
    store: ZooKeeperStore, partitions: list[Partition]
) -> tuple[dict[Partition, Record], dict[Partition, Unusable]]:
    """Those of these partitions that there are, and those that cannot be read."""
    paths = tuple(reassignment_path(*one) for one in partitions)
    found: dict[Partition, Record] = {}
    unusable: dict[Partition, Unusable] = {}
    for partition, path, znode in zip(partitions, paths, await store.read(paths), strict=True):
        if znode is None:
            continue
        try:
            content = read_reassignment(path, znode.data)
        except ZnodeError as error:
            unusable[partition] = Unusable(str(error), znode.czxid)
            continue
        found[partition] = Record(content, znode.czxid, znode.mzxid)
    return found, unusable


def _without_unfitting(kip: KipZnodes, assignments: dict[Partition, Assignment]) -> KipZnodes:
    """Records are written together with the topic's znode: where the two differ, somebody changed
    one of them by hand."""
    unfitting: dict[Partition, Unusable] = {}
    for name, record in kip.records.items():
        one, assignment = record.reassignment, assignments.get(name)
        if assignment is None or _fits(one, assignment):
            continue
        has = f"from {list(assignment.origin)} to {list(assignment.target)}"
        if not assignment.is_being_reassigned:
            has = f"{list(assignment.replicas)} and nothing under way"
        why = (
            f"{reassignment_path(*name)} says from {list(one.original_replicas)} to "
            f"{list(one.replicas)}, {znodes.topic_path(name[0])} {has}"
        )
        unfitting[name] = Unusable(why, record.czxid)
    records = {name: one for name, one in kip.records.items() if name not in unfitting}
    return msgspec.structs.replace(kip, records=records, unusable=kip.unusable | unfitting)


def _fits(record: Reassignment, assignment: Assignment) -> bool:
    """Where nothing moves the record is about to go: the partition is there, or back."""
    if not assignment.is_being_reassigned:
        return assignment.replicas in (record.replicas, record.original_replicas)
    has_originals = set(record.original_replicas) <= set(assignment.replicas)
    return record.replicas == assignment.target and has_originals


async def _requests(store: ZooKeeperStore, unreadable: dict[str, str]) -> dict[str, Request]:
    names = await store.children(REASSIGNMENT_REQUESTS)
    numbered = [name for name in names if request_number(name) is not None]
    paths = tuple(request_path(one) for one in numbered)
    found: dict[str, Request] = {}
    for path, znode in zip(paths, await store.read(paths), strict=True):
        if znode is None:
            continue
        try:
            found[path] = read_request(path, znode.data)
        except ZnodeError as error:
            unreadable[path] = str(error)
    return found


def _submitted(path: str, znode: Znode | None, unreadable: dict[str, str]) -> Submitted:
    if znode is None:
        return Submitted()
    try:
        return Submitted(read_entries(path, znode.data).entries, znode.version)
    except ZnodeError as error:
        unreadable[path] = str(error)
        return Submitted({}, znode.version)


def _controller(znode: Znode | None, brokers: dict[int, Broker]) -> Controller:
    """A stock controller is a registered broker; refold never registers
    (docs/observations.md#the-controller-role)."""
    holder = znodes.read_controller(znode.data) if znode else None
    if holder is None:
        return NOBODY
    if holder.brokerid in brokers or holder.kraftControllerEpoch > 0:
        return Controller(Role.STOCK, holder.brokerid)
    return Controller(Role.REFOLD, holder.brokerid)


async def _brokers(store: ZooKeeperStore, ids: list[int]) -> dict[int, Broker]:
    """The registered ones; one whose registration cannot be read has no endpoint and no rack."""
    paths = tuple(map(znodes.broker_path, ids))
    brokers: dict[int, Broker] = {}
    for broker, znode in zip(ids, await store.read(paths), strict=True):
        if znode is None:
            continue
        try:
            brokers[broker] = znodes.read_broker(broker, znode.data, znode.czxid)
        except ZnodeError:
            brokers[broker] = Broker(broker, znode.czxid, ())
    return brokers


class _Topics(Struct, frozen=True):
    """What topics' znodes say; `unreadable` says of a topic why nobody can read it."""

    assignments: dict[Partition, Assignment] = {}
    versions: dict[str, int] = {}
    unreadable: dict[str, str] = {}


async def _topics(store: ZooKeeperStore, topics: list[str]) -> _Topics:
    paths = tuple(map(znodes.topic_path, topics))
    found = _Topics()
    for topic, znode in zip(topics, await store.read(paths), strict=True):
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
    store: ZooKeeperStore, partitions: list[Partition]
) -> dict[Partition, Leadership]:
    paths = tuple(znodes.state_path(*one) for one in partitions)
    found: dict[Partition, Leadership] = {}
    for partition, path, znode in zip(partitions, paths, await store.read(paths), strict=True):
        if znode is None:
            continue
        try:
            state = znodes.read_state(path, znode.data, znode.version)
        except ZnodeError:
            continue
        found[partition] = Leadership(state.leader, state.isr)
    return found
