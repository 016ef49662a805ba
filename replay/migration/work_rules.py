"""Rules about work that must be over before a migration, and about the content of ZooKeeper."""

from collections.abc import Iterator
from typing import Final

from controller.core import znodes
from controller.core.errors import ZnodeError
from replay.health.evaluate import State
from replay.migration.findings import MigratingCluster, MigrationFinding, brokers_named
from replay.names import partition_name

_REQUESTS: Final = (
    znodes.REASSIGN_PARTITIONS,
    znodes.REASSIGN_PARTITIONS_EXTRA,
    znodes.REASSIGN_CANCEL,
)


def check_reassignments(subject: MigratingCluster) -> Iterator[MigrationFinding]:
    """No partition is being reassigned, and no znode requests it."""
    moving = subject.in_state(State.REASSIGNING)
    requested = [one for one in _REQUESTS if subject.find(one) is not None]
    if subject.view is not None:
        names = subject.view.children(znodes.REASSIGNMENT_REQUESTS)
        requested += [f"{znodes.REASSIGNMENT_REQUESTS}/{name}" for name in names]
    if moving or requested:
        text = (
            "reassignments are under way or requested: a KRaft controller does not read the znodes"
        )
        advice = "wait until they end, or cancel them (docs/reassign.md)"
        where = (*moving, *requested)
        yield MigrationFinding(
            check="reassignments", level="error", text=text, where=where, advice=advice
        )
    else:
        yield MigrationFinding(check="reassignments", level="ok", text="no reassignment")


def check_deletions(subject: MigratingCluster) -> Iterator[MigrationFinding]:
    """No topic is being deleted: a KRaft controller removes the requests and keeps the topics
    (KRaftMigrationZkWriter.handleTopicsSnapshot)."""
    topics = [f"{znodes.DELETE_TOPICS}/{one.topic}" for one in subject.cluster.deletions]
    if topics:
        text = (
            "topics are being deleted: a KRaft controller would drop the requests and keep the "
            "topics"
        )
        advice = "wait until they are gone; a deletion waits for the brokers with its replicas"
        yield MigrationFinding(
            check="deletions", level="error", text=text, where=tuple(topics), advice=advice
        )
    replicas = subject.cluster.replica_deletions
    if replicas:
        text = "brokers have not confirmed the deletion of replicas; only refold records it"
        where = tuple(f"{one.partition} on broker {one.broker}" for one in replicas)
        advice = "start the brokers, and wait while refold is controller"
        yield MigrationFinding(
            check="deletions", level="warning", text=text, where=where, advice=advice
        )
    if not topics and not replicas:
        yield MigrationFinding(check="deletions", level="ok", text="no deletion")


def check_offline(subject: MigratingCluster) -> Iterator[MigrationFinding]:
    """All partitions have a live leader. While a KRaft controller has the role, a leader that is
    not registered may be a broker in KRaft mode."""
    found = [
        one
        for one in subject.partitions
        if State.OFFLINE in one.states and not (subject.is_kraft and one.leader_is_lost)
    ]
    start = "start the brokers with their replicas (refold health, refold why)"
    write = "write their replicas into the topic's znode below /brokers/topics, or delete the topic"
    text = "partitions are offline: a KRaft controller takes them over unchanged"
    none = "partitions have no replicas: a KRaft controller takes them over unchanged"
    for has_replicas, what, advice in ((True, text, start), (False, none, write)):
        offline = tuple(
            partition_name(one.topic, one.partition)
            for one in found
            if bool(one.replicas) is has_replicas
        )
        if offline:
            yield MigrationFinding(
                check="offline partitions", level="error", text=what, where=offline, advice=advice
            )
    if not found:
        yield MigrationFinding(
            check="offline partitions", level="ok", text="no partition is offline"
        )


def check_registered(subject: MigratingCluster) -> Iterator[MigrationFinding]:
    """All brokers that have replicas are registered: the migration begins when all of them have
    registered with the KRaft controller (KRaftMigrationDriver.areZkBrokersReadyForMigration)."""
    live = {one.id for one in subject.cluster.brokers}
    assigned = {
        broker
        for topic in subject.cluster.topics
        for partition in topic.partitions
        for broker in partition.replicas
    }
    absent = sorted(assigned - live)
    if absent and subject.is_kraft:
        text = (
            "brokers with replicas are not registered in ZooKeeper: they are in KRaft mode or down"
        )
        advice = "before a rollback, restart those in KRaft mode as brokers in migration mode"
        where = brokers_named(absent)
        yield MigrationFinding(
            check="brokers", level="warning", text=text, where=where, advice=advice
        )
    elif absent:
        text = "brokers with replicas are not registered: the migration waits for them"
        advice = "start the brokers, or move their replicas to others"
        where = brokers_named(absent)
        yield MigrationFinding(
            check="brokers", level="error", text=text, where=where, advice=advice
        )
    elif not live:
        text = "no broker is registered"
        yield MigrationFinding(
            check="brokers", level="error", text=text, advice="start the brokers"
        )
    else:
        text = f"all {len(live)} brokers with replicas are registered"
        yield MigrationFinding(check="brokers", level="ok", text=text)


def check_readable(subject: MigratingCluster) -> Iterator[MigrationFinding]:
    """Topics, states and registrations can be read: a KRaft controller ends its copy at a znode
    that it cannot parse."""
    unreadable = list(_unreadable(subject))
    if unreadable:
        text = "znodes cannot be read: a KRaft controller would end the migration at them"
        yield MigrationFinding(
            check="znodes",
            level="error",
            text=text,
            where=tuple(unreadable),
            advice="repair or delete them",
        )


def _unreadable(subject: MigratingCluster) -> Iterator[str]:
    view = subject.view
    if view is None:
        return
    for name in view.children(znodes.BROKER_IDS):
        path = f"{znodes.BROKER_IDS}/{name}"
        znode = view.find(path)
        number = int(name) if znodes.is_broker_id(name) else -1
        try:
            znodes.read_broker(number, znode.data if znode is not None else None, 0)
        except ZnodeError:
            yield path
    for name in view.children(znodes.TOPICS):
        path = znodes.topic_path(name)
        znode = view.find(path)
        try:
            content = znodes.read_topic(name, znode.data if znode is not None else None)
        except ZnodeError:
            yield path
            continue
        for number in sorted(content.assignments):
            path = znodes.state_path(name, number)
            state = view.find(path)
            try:
                if state is not None:
                    znodes.read_state(path, state.data, state.version)
            except ZnodeError:
                yield path
