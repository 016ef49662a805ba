"""Incidents in which every line that Kafka's controller can log occurs."""

from collections.abc import Callable

import msgspec

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.commands import (
    BrokerRequest,
    Issued,
    LeaderAndIsrRequest,
    StartTimer,
    StopReplicaRequest,
)
from controller.core.events import BrokerResponded, ChannelFault, SessionExpired, TimerFired
from controller.core.operations import CreateSequential
from controller.core.procedures.elections.rebalance import RULE as REBALANCE
from controller.core.values import RECOVERED, RECOVERING
from tests.controller.core.cluster import Cluster, writes_state
from tests.controller.core.endpoint import (
    allocate_producer_ids,
    alter_partition,
    controlled_shutdown,
    proposal,
)
from tests.controller.core.procedures.topics.topic_requests import create, delete, grow, new_topic

OLD = "2.6"
"""A protocol version at which leaders write ISRs to ZooKeeper."""


def three_brokers(**settings: object) -> Cluster:
    """Three brokers, topic t with two partitions on all of them, and topic one with one replica."""
    cluster = Cluster(1, 2, 3, **settings).start()
    cluster.create_topic("t", {0: [1, 2, 3], 1: [2, 3, 1]})
    cluster.create_topic("one", {0: [1]})
    return cluster


# Controller role ---------------------------------------------------------------------------------


def first_failover_and_hand_back() -> Cluster:
    """The first election of the cluster, and a resignation."""
    cluster = Cluster(1, 2).start()
    cluster.shut_down()
    return cluster


def failover_with_work_left() -> Cluster:
    """A failover with a dead broker, a deletion, requested elections, and an older /feature."""
    before = three_brokers(inter_broker_protocol_version=OLD)
    before.create_topic("gone", {0: [1, 2]})
    before.shut_down()
    before.unregister(1)
    before.put_quietly(znodes.delete_topic_path("gone"), b"")
    before.put_quietly(znodes.PREFERRED_ELECTION, names(("t", 0), ("t", 1), ("gone", 0), ("x", 9)))
    return Cluster(zookeeper=before.zookeeper).start()


def failover_that_fails() -> Cluster:
    """A target without replicas makes Kafka's failover fail, and no client repairs it."""
    cluster = Cluster(1, 2, 3, rules="kafka")
    cluster.change_topic_quietly("t", {0: [2, 3]}, removing_replicas={"0": [2, 3]})
    cluster.before = lambda issued: setattr(cluster, "is_stopped", cluster.epoch() == 2)
    return cluster.start()


def session_ends() -> Cluster:
    """The session expires, and the next one takes the role again."""
    cluster = three_brokers()
    cluster.expire()
    return cluster


def killed_daemon_returns() -> Cluster:
    """The daemon was killed; /controller still belongs to its earlier session."""
    before = three_brokers()
    return Cluster(zookeeper=before.zookeeper).start()


def killed_daemon_returns_after_its_session() -> Cluster:
    """The daemon was killed, and waited at its start for the end of its earlier session."""
    before = three_brokers()
    last_session = before.session
    before.zookeeper.end_session(last_session)
    cluster = Cluster(zookeeper=before.zookeeper)
    cluster.happen(SessionExpired(last_session), "session")
    return cluster.start()


def killed_daemon_returns_to_another_controller() -> Cluster:
    """As `killed_daemon_returns_after_its_session`, with `--take-over`; a stock broker has taken
    the role meanwhile."""
    before = three_brokers()
    last_session = before.session
    before.zookeeper.end_session(last_session)
    before.take_role(2)
    cluster = Cluster(zookeeper=before.zookeeper, take_over=True)
    cluster.happen(SessionExpired(last_session), "session")
    return cluster.start()


def another_controller() -> Cluster:
    """A stock broker takes the role while partitions, replicas and new topics are written."""
    cluster = three_brokers()
    cluster.once(writes_state("t", 0), lambda: cluster.seize_role(2))
    cluster.stop_broker(1)
    return cluster


def another_controller_and_replicas() -> Cluster:
    """As `another_controller`, while a follower's broker is dead."""
    cluster = three_brokers()
    cluster.create_topic("u", {0: [1, 3]})
    cluster.once(writes_state("u", 0), lambda: cluster.seize_role(2))
    cluster.stop_broker(3)
    return cluster


def another_controller_and_a_new_topic() -> Cluster:
    """As `another_controller`, while a topic is created."""
    cluster = three_brokers()
    cluster.once(writes_state("new", 0), lambda: cluster.seize_role(2))
    cluster.create_topic("new", {0: [1, 2]})
    return cluster


def event_that_fails() -> Cluster:
    """Partitions added to a topic during its deletion cannot be restored."""
    cluster = topic_that_waits_for_deletion()
    path = znodes.topic_path("t")
    cluster.change_topic_quietly("t", {0: [1, 2, 3], 1: [2, 3, 1], 2: [1]})
    cluster.once(
        lambda issued: any(
            getattr(one, "path", "") == path for one in getattr(issued.command, "operations", ())
        ),
        lambda: cluster.remove_quietly(path),
    )
    cluster.run()
    return cluster


# Brokers ------------------------------------------------------------------------------------------


def broker_dies_and_returns() -> Cluster:
    """The broker leads one partition, follows in another, and has the only replica of a third."""
    cluster = three_brokers()
    cluster.stop_broker(1)
    cluster.start_broker(1)
    return cluster


def broker_bounces() -> Cluster:
    """The broker restarts between two reads."""
    cluster = three_brokers()
    cluster.bounce(2)
    return cluster


def broker_changes_its_endpoints() -> Cluster:
    """The broker's new registration has another host."""
    cluster = three_brokers()
    path = znodes.broker_path(2)
    registered = msgspec.json.decode(cluster.data(path) or b"")
    moved = registered | {"endpoints": ["PLAINTEXT://elsewhere:9092"]}
    cluster.put(path, msgspec.json.encode(moved))
    return cluster


def broker_shuts_down() -> Cluster:
    """A controlled shutdown; a request with an older broker epoch is refused first."""
    cluster = three_brokers()
    controlled_shutdown(cluster, 1, cluster.broker_epoch(1) - 1)
    controlled_shutdown(cluster, 1)
    cluster.stop_broker(1)
    return cluster


def channels_fail() -> Cluster:
    """A broker is unreachable, does not understand a request, or answers with an error."""
    cluster = three_brokers()
    epoch = cluster.broker_epoch(2)
    cluster.happen(ChannelFault(2, epoch, "unreachable", "connection refused"), "broker:2")
    cluster.happen(ChannelFault(2, epoch, "recovered", ""), "broker:2")
    cluster.happen(ChannelFault(2, epoch, "closed", "the broker ended the connection"), "broker:2")

    def answer_badly(issued: Issued) -> None:
        if isinstance(issued.command, LeaderAndIsrRequest) and issued.command.broker == 3:
            answer = BrokerResponded(issued.id, 3, 0, codes.STALE_BROKER_EPOCH, [])
            cluster.happen_next(answer, "broker:3")

    cluster.before = answer_badly
    cluster.bounce(3)
    return cluster


def log_directory_fails() -> Cluster:
    """Two replicas of broker 1 are in the failed directory."""
    cluster = three_brokers(inter_broker_protocol_version=OLD)
    failed = {("t", 0), ("one", 0)}

    def errors(request: BrokerRequest) -> list[tuple[str, int, int]]:
        if not isinstance(request, LeaderAndIsrRequest) or request.broker != 1:
            return []
        return [
            (one.topic, one.partition, codes.KAFKA_STORAGE_ERROR)
            for one in request.partitions
            if (one.topic, one.partition) in failed
        ]

    cluster.broker_errors = errors
    path = f"{znodes.LOG_DIR_EVENTS}/log_dir_event_"
    cluster.ask(CreateSequential(path, b'{"version":1,"broker":1,"event":1}'))
    cluster.run()
    return cluster


# Topics -------------------------------------------------------------------------------------------


def topics_are_created_and_removed() -> Cluster:
    """One partition has no live replica; partitions are added; a topic is deleted by hand."""
    cluster = three_brokers()
    cluster.create_topic("new", {0: [1, 2], 1: [9]})
    cluster.create_topic("new", {0: [1, 2], 1: [9], 2: [3, 1]})
    cluster.start_broker(9)
    cluster.remove_topic_znodes("one")
    return cluster


def topic_is_deleted() -> Cluster:
    """Deletes a topic that exists and one that does not."""
    cluster = three_brokers()
    cluster.put(znodes.delete_topic_path("t"), b"")
    cluster.put(znodes.delete_topic_path("no-such-topic"), b"")
    return cluster


def topic_is_deleted_with_an_old_protocol() -> Cluster:
    """A StopReplica request has either deletions or no deletions."""
    cluster = three_brokers(inter_broker_protocol_version="2.4")
    cluster.put(znodes.delete_topic_path("t"), b"")
    return cluster


def deletion_is_disabled() -> Cluster:
    """delete.topic.enable is false."""
    cluster = three_brokers(delete_topic_enable=False)
    cluster.put(znodes.delete_topic_path("t"), b"")
    return cluster


def topic_that_waits_for_deletion() -> Cluster:
    """One of the topic's brokers is dead."""
    cluster = three_brokers()
    cluster.stop_broker(3)
    cluster.put(znodes.delete_topic_path("t"), b"")
    return cluster


def deletion_waits_for_a_broker() -> Cluster:
    """Added partitions and elections are refused until the deletion continues."""
    cluster = topic_that_waits_for_deletion()
    cluster.create_topic("t", {0: [1, 2, 3], 1: [2, 3, 1], 2: [1]})
    cluster.happen(ElectLeadersReceived(1, 2, "preferred", [("t", 0), ("x", 0)]), "api:1")
    cluster.start_broker(3)
    return cluster


def replica_cannot_be_deleted() -> Cluster:
    """Broker 2 answers one deletion with an error."""
    cluster = three_brokers()

    def errors(request: BrokerRequest) -> list[tuple[str, int, int]]:
        if not isinstance(request, StopReplicaRequest) or request.broker != 2:
            return []
        return [
            (one.topic, one.partition, codes.KAFKA_STORAGE_ERROR)
            for one in request.partitions
            if one.delete and one.partition == 0
        ]

    cluster.broker_errors = errors
    cluster.put(znodes.delete_topic_path("t"), b"")
    return cluster


def partition_without_a_leader_is_deleted() -> Cluster:
    """The partition never had a leader."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2], 1: [9]})
    cluster.put(znodes.delete_topic_path("t"), b"")
    cluster.start_broker(9)
    return cluster


def topics_by_request() -> Cluster:
    """Tools create, extend and delete a topic; in Kafka brokers write the znodes."""
    cluster = Cluster(1, 2).start()
    create(cluster, new_topic("t", given={0: [1, 2]}), new_topic("u", 1, 3))
    grow(cluster, "t", 2, [2, 1])
    delete(cluster, "t")
    return cluster


# Elections ----------------------------------------------------------------------------------------


def preferred_elections() -> Cluster:
    """Elections by the znode, without and with success, by a tool, and by the timer."""
    cluster = three_brokers(inter_broker_protocol_version=OLD)
    cluster.stop_broker(1)
    cluster.start_broker(1)
    cluster.put(znodes.PREFERRED_ELECTION, names(("t", 0), ("t", 1), ("x", 9)))
    cluster.set_isr("t", 0, [2, 3, 1])
    cluster.announce_isr(("t", 0))
    cluster.happen(ElectLeadersReceived(1, 2, "unclean", [("t", 0), ("x", 9)]), "api:1")
    rebalance(cluster)
    cluster.happen(ElectLeadersReceived(2, 2, "preferred", None), "api:1")
    return cluster


def rebalance(cluster: Cluster) -> None:
    """Fires the timer of the preferred leader rebalance."""
    timers = [
        one.command.timer
        for one in cluster.commands()
        if isinstance(one.command, StartTimer) and one.reason.rule == REBALANCE
    ]
    cluster.happen(TimerFired(timers[-1]), "timer")


def unclean_elections_are_enabled() -> Cluster:
    """Enables unclean elections for all topics, and then for one."""
    cluster = three_brokers()
    cluster.create_topic("u", {0: [1, 2]})
    cluster.stop_broker(2)
    cluster.start_broker(2)
    cluster.stop_broker(1)
    enabled = b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}'
    for number, (entity, path) in enumerate(
        [("brokers/<default>", znodes.broker_config_path(None)), ("topics/u", "/config/topics/u")]
    ):
        cluster.put_quietly("/config/brokers", b"")
        cluster.put_quietly(path, enabled)
        cluster.put_quietly(znodes.CONFIG_CHANGES, b"")
        change = msgspec.json.encode({"version": 2, "entity_path": entity})
        cluster.put(f"{znodes.CONFIG_CHANGES}/config_change_{number:010}", change)
    return cluster


def election_after_a_concurrent_isr_change() -> Cluster:
    """The leader writes the ISR between the read and the write of an election."""
    cluster = three_brokers(inter_broker_protocol_version=OLD)
    cluster.once(writes_state("t", 0), lambda: cluster.set_isr("t", 0, [1, 2]))
    cluster.stop_broker(1)
    return cluster


# Reassignments ------------------------------------------------------------------------------------


def request_reassignment(cluster: Cluster, *entries: tuple[str, int, list[int]]) -> None:
    """Writes the reassignment znode."""
    named = [{"topic": one[0], "partition": one[1], "replicas": one[2]} for one in entries]
    content = msgspec.json.encode({"version": 1, "partitions": named})
    cluster.put(znodes.REASSIGN_PARTITIONS, content)


def reassignments() -> Cluster:
    """A leader is replaced, another one stays, and two entries are invalid."""
    cluster = three_brokers(inter_broker_protocol_version=OLD)
    cluster.start_broker(4)
    request_reassignment(cluster, ("t", 0, [4, 2]), ("t", 1, [2, 3]), ("x", 0, [1]), ("t", 9, [1]))
    cluster.set_isr("t", 0, [1, 2, 3, 4])
    cluster.run()
    return cluster


def reassignment_to_a_dead_leader() -> Cluster:
    """The leader is in the target, but is shutting down."""
    cluster = Cluster(1, 2, 3, inter_broker_protocol_version=OLD).start()
    cluster.create_topic("t", {0: [1, 2]})
    request_reassignment(cluster, ("t", 0, [1, 3]))
    cluster.stop_broker(2)
    controlled_shutdown(cluster, 1)
    cluster.set_isr("t", 0, [1, 3])
    cluster.run()
    return cluster


def reassignment_that_fails() -> Cluster:
    """The state of the partition was deleted."""
    cluster = three_brokers()
    cluster.remove_quietly(znodes.state_path("t", 0))
    cluster.start_broker(4)
    request_reassignment(cluster, ("t", 0, [1, 2, 4]))
    return cluster


def reassigned_topic_is_deleted() -> Cluster:
    """The deletion also waits for a broker; the marker is read twice."""
    cluster = three_brokers(rules="kafka")
    cluster.start_broker(4)
    request_reassignment(cluster, ("t", 0, [4, 2, 3]))
    cluster.stop_broker(3)
    cluster.put(znodes.delete_topic_path("t"), b"")
    cluster.put(znodes.delete_topic_path("no-such-topic"), b"")
    return cluster


def replica_is_new_again() -> Cluster:
    """When Kafka resumes a reassignment, it makes replicas new that are already new."""
    cluster = three_brokers(rules="kafka")
    cluster.start_broker(4)
    request_reassignment(cluster, ("t", 0, [1, 2, 3, 4]))
    cluster.bounce(4)
    return cluster


# Requests of brokers ------------------------------------------------------------------------------


def alter_partition_is_refused() -> Cluster:
    """Every refusal that Kafka logs."""
    cluster = three_brokers()
    partition = proposal(cluster, "t", 0)
    alter_partition(cluster, 9, partition, broker_epoch=1)
    alter_partition(cluster, 1, partition, broker_epoch=1)
    controlled_shutdown(cluster, 3)
    alter_partition(cluster, 1, proposal(cluster, "t", 0, isr=(1, 2, 3)))
    alter_partition(cluster, 1, proposal(cluster, "t", 0, recovery_state=RECOVERING))
    alone = proposal(cluster, "t", 0, isr=(1,), recovery_state=RECOVERING)
    alter_partition(cluster, 1, alone)
    cluster.set_isr("t", 0, [1])
    fewer = proposal(cluster, "t", 0, isr=(1,), recovery_state=RECOVERED)
    alter_partition(cluster, 1, fewer)
    return cluster


def producer_ids_are_allocated_and_refused() -> Cluster:
    """Refused for a broker that is not registered, or was registered again."""
    cluster = three_brokers()
    allocate_producer_ids(cluster, 9, 1)
    allocate_producer_ids(cluster, 1, cluster.broker_epoch(1) - 1)
    allocate_producer_ids(cluster, 1)
    allocate_producer_ids(cluster, 2)
    return cluster


def names(*partitions: tuple[str, int]) -> bytes:
    """The content of /admin/preferred_replica_election."""
    named = [{"topic": topic, "partition": number} for topic, number in partitions]
    return msgspec.json.encode({"version": 1, "partitions": named})


SCENES: tuple[Callable[[], Cluster], ...] = (
    first_failover_and_hand_back,
    failover_with_work_left,
    failover_that_fails,
    session_ends,
    killed_daemon_returns,
    killed_daemon_returns_after_its_session,
    killed_daemon_returns_to_another_controller,
    another_controller,
    another_controller_and_replicas,
    another_controller_and_a_new_topic,
    event_that_fails,
    broker_dies_and_returns,
    broker_bounces,
    broker_changes_its_endpoints,
    broker_shuts_down,
    channels_fail,
    log_directory_fails,
    topics_are_created_and_removed,
    topic_is_deleted,
    topic_is_deleted_with_an_old_protocol,
    deletion_is_disabled,
    topic_that_waits_for_deletion,
    deletion_waits_for_a_broker,
    replica_cannot_be_deleted,
    partition_without_a_leader_is_deleted,
    topics_by_request,
    preferred_elections,
    unclean_elections_are_enabled,
    election_after_a_concurrent_isr_change,
    reassignments,
    reassignment_to_a_dead_leader,
    reassignment_that_fails,
    reassigned_topic_is_deleted,
    replica_is_new_again,
    alter_partition_is_refused,
    producer_ids_are_allocated_and_refused,
)
