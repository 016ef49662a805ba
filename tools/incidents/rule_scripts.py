"""The scripts of incidents for single rules of the core, which are rare in a cluster. Each begins
as those in `scripts`.

Requests are sent to refold's endpoint, and znodes written, as a faulty or late client would do.
"""

import asyncio
from functools import partial
from typing import Any
from uuid import UUID

from kafka import KafkaAdminClient, TopicPartition

from controller.core import znodes
from controller.core.znodes import (
    PREFERRED_ELECTION,
    REASSIGN_PARTITIONS,
    REASSIGN_PARTITIONS_EXTRA,
    REASSIGNMENT_REQUESTS,
    REPLICA_DELETIONS,
    REQUEST_PREFIX,
)
from tools.incidents import endpoint
from tools.incidents.incident_cluster import UNREGISTERED, IncidentCluster

TOPIC = "orders"
REBALANCE = {
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.check.interval.seconds": "2",
    "leader.imbalance.per.broker.percentage": "50",
}
_REBALANCED_S = 7.0
"""The first check of a term is after 5 seconds, the next one 2 seconds later."""
_PAUSED_S = 1.0
"""Much less than the session timeout."""
_LONG_SESSION_MS = 60_000
_OLD_EPOCH = 1


# Elections ----------------------------------------------------------------------------------------


async def leader_rebalance(cluster: IncidentCluster) -> None:
    """Half of the partitions that prefer a broker have another leader, which is exactly the limit
    of the leader rebalance. Then one more has."""
    await cluster.ask(lambda admin: _prefer(admin, ("moved", 0), [2, 1]))
    await cluster.until_assigned("moved", 0, [2, 1])
    await asyncio.sleep(_REBALANCED_S)
    await cluster.ask(lambda admin: _prefer(admin, ("moved", 1), [2, 1]))
    await cluster.until_led("moved", 0, by=2)
    await cluster.until_led("moved", 1, by=2)
    cluster.broker(2).kill()
    await cluster.until_no_leader_is(2)
    await asyncio.sleep(_REBALANCED_S)
    await cluster.broker(2).start()
    await cluster.until_led("moved", 0, by=2)
    await cluster.until_in_sync(TOPIC)


def _prefer(admin: KafkaAdminClient, partition: tuple[str, int], replicas: list[int]) -> None:
    plan: dict[TopicPartition, Any] = {TopicPartition(*partition): replicas}
    admin.alter_partition_reassignments(plan)


async def unclean_default(cluster: IncidentCluster) -> None:
    """Two replicas of a partition are not in sync when the last one fails. Both are restarted, and
    one becomes an unclean leader. Then unclean election is enabled for all topics."""
    for broker in (2, 3):
        cluster.broker(broker).kill()
        await cluster.until_no_leader_is(broker)
    cluster.broker(1).kill()
    await cluster.until_offline(TOPIC, 0)
    await cluster.broker(2).start()
    await cluster.broker(3).start()
    asked = {TOPIC: [0]}
    await cluster.ask(lambda admin: admin.elect_leaders(1, asked, raise_errors=False))
    await cluster.until_led(TOPIC, 0, by=2)
    default = {"version": 1, "config": {"unclean.leader.election.enable": "true"}}
    await cluster.znodes.create(znodes.broker_config_path(None), default)
    change = {"version": 2, "entity_path": "brokers/<default>"}
    await cluster.znodes.create(f"{znodes.CONFIG_CHANGE_PREFIX}0000009999", change)
    await cluster.until_led(TOPIC, 2, by=3)
    await cluster.until_led("moved", 0, by=2)
    await cluster.broker(1).start()
    await cluster.until_in_sync(TOPIC)


async def preferred_election(cluster: IncidentCluster) -> None:
    """/admin/preferred_replica_election names a partition whose preferred replica does not lead, a
    partition that has never had a leader, and one that does not exist."""
    unborn = {"version": 1, "partitions": {"0": [UNREGISTERED]}}
    await cluster.znodes.create(znodes.topic_path("unborn"), unborn)
    await cluster.until_logged("no_leader_created")
    await cluster.ask(lambda admin: _prefer(admin, ("moved", 0), [2, 1]))
    await cluster.until_assigned("moved", 0, [2, 1])
    named = [("moved", 0), ("unborn", 0), ("absent", 0)]
    entries = [{"topic": topic, "partition": partition} for topic, partition in named]
    await cluster.znodes.create(PREFERRED_ELECTION, {"version": 1, "partitions": entries})
    await cluster.until_deleted(PREFERRED_ELECTION)
    await cluster.until_led("moved", 0, by=2)
    partition = {"unborn": [0]}
    await cluster.ask(lambda admin: admin.elect_leaders(0, partition, raise_errors=False))


# Brokers ------------------------------------------------------------------------------------------


async def brokers_together(cluster: IncidentCluster) -> None:
    """While refold is paused, one broker is started, one fails, and one restarts. Then a broker
    registers another listener."""
    await cluster.hand_back()
    await cluster.take_over(session_ms=_LONG_SESSION_MS)
    cluster.broker(1).kill()
    await cluster.until_no_leader_is(1)
    cluster.refold.pause()
    cluster.broker(2).kill()
    cluster.broker(3).kill()
    await cluster.broker(1).start(wait=False)
    await cluster.broker(3).start(wait=False)
    for broker, is_registered in ((1, True), (2, False), (3, True)):
        await cluster.until_registered(broker, is_registered=is_registered)
    cluster.refold.resume()
    await cluster.until_no_leader_is(2)
    await cluster.broker(2).start()
    await cluster.until_in_sync(TOPIC)
    registration = await cluster.znodes.read(znodes.broker_path(3))
    registration["endpoints"].append("EXTRA://127.0.0.1:9999")
    registration["listener_security_protocol_map"]["EXTRA"] = "PLAINTEXT"
    await cluster.znodes.set(znodes.broker_path(3), registration)
    await cluster.until_in_sync("moved")


async def log_dir(cluster: IncidentCluster) -> None:
    """A broker loses one of its two log directories, and is restarted with it."""
    broker = cluster.broker(2)
    lost = broker.log_dirs[0]
    away = lost.with_name(f"{lost.name}-away")
    lost.rename(away)
    lost.touch()  # A file: the directory cannot be created again.
    await cluster.until_logged("replicas_in_failed_log_dir")
    await asyncio.sleep(2)
    await broker.stop()
    await cluster.until_no_leader_is(2)
    lost.unlink()
    away.rename(lost)
    await broker.start()
    await cluster.until_in_sync(TOPIC)
    await cluster.until_in_sync("moved")


async def stale_requests(cluster: IncidentCluster) -> None:
    """Brokers send AlterPartition, ControlledShutdown and AllocateProducerIds with old or unknown
    epochs, and ISRs that they may not request."""
    cluster.broker(3).kill()
    await cluster.until_no_leader_is(3)
    epoch = await cluster.broker_epoch(1)
    topic_id = await cluster.topic_id("moved")
    state = await cluster.state("moved", 0)
    leader_epoch, version = state["leader_epoch"], state["version"]
    same = state | {"isr": [2, 1]}
    for broker, broker_epoch in ((1, _OLD_EPOCH), (3, epoch)):
        await cluster.send(endpoint.alter_partition(broker, broker_epoch, topic_id, 0, same))
    proposals = (
        state,
        state | {"isr": [1], "leader_epoch": leader_epoch - 1},
        state | {"isr": [1], "leader_epoch": leader_epoch + 1},
        state | {"isr": [1], "version": version - 1},
        state | {"isr": [1], "version": version + 1},
        state | {"isr": [2]},
        state | {"isr": [1, 2, 3]},
    )
    for proposal in proposals:
        await cluster.send(endpoint.alter_partition(1, epoch, topic_id, 0, proposal))
    second = await cluster.broker_epoch(2)
    await cluster.send(endpoint.alter_partition(2, second, topic_id, 0, state | {"isr": [2]}))
    await cluster.send(endpoint.alter_partition(1, epoch, UUID(int=7), 0, same))
    await cluster.send(endpoint.alter_partition(1, epoch, topic_id, 9, same))
    recovering = state | {"isr": [1]}
    await cluster.send(
        endpoint.alter_partition(1, epoch, topic_id, 0, recovering, recovery_state=1)
    )
    orders = await cluster.state(TOPIC, 0) | {"isr": [1, 2, 3]}
    await cluster.send(endpoint.alter_partition(1, epoch, TOPIC, 0, orders, version=1))
    for broker, broker_epoch in ((1, _OLD_EPOCH), (3, epoch), (3, -1)):
        await cluster.send(endpoint.controlled_shutdown(broker, broker_epoch))
    for broker, broker_epoch in ((1, epoch), (1, epoch), (1, _OLD_EPOCH), (3, epoch)):
        await cluster.send(endpoint.allocate_producer_ids(broker, broker_epoch))
    await cluster.broker(3).start()
    await cluster.until_in_sync(TOPIC)


# Administrators -----------------------------------------------------------------------------------


async def admin_requests(cluster: IncidentCluster) -> None:
    """Administrators change credentials, and create topics with assignments that are valid, empty,
    uneven and repeated. Two requests for topics arrive together. Then all brokers fail, and
    features are changed."""
    await cluster.send(endpoint.alter_credentials({"alice": 4096, "bob": 100}))
    await cluster.send(endpoint.alter_credentials({}, ("alice", "carol")))
    assignments: tuple[dict[int, list[int]], ...] = (
        {0: []},
        {0: [1, 1]},
        {0: [1], 1: [1, 2]},
        {1: [1]},
    )
    for assignment in assignments:
        await cluster.send(endpoint.create_topic("wrong", assignment))
    await cluster.send(endpoint.create_topic("wrong", {0: [1]}, {"retention.ms": "long"}))
    cluster.refold.pause()
    first, second = (
        asyncio.create_task(cluster.send(endpoint.create_topic(name, {0: [1, 2]})))
        for name in ("first", "second")
    )
    await asyncio.sleep(_PAUSED_S)
    cluster.refold.resume()
    await asyncio.gather(first, second)
    await cluster.until_in_sync("first")
    await cluster.until_in_sync("second")
    partition = {"absent": [0], "moved": [0]}
    await cluster.ask(lambda admin: admin.elect_leaders(0, partition, raise_errors=False))
    # A broker that reads a feature that it does not support exits.
    for broker in (1, 2, 3):
        cluster.broker(broker).kill()
    for broker in (1, 2, 3):
        await cluster.until_registered(broker, is_registered=False)
    levels = {name: {"max_version_level": level} for name, level in (("old", 1), ("older", 2))}
    await cluster.znodes.set(znodes.FEATURE, {"version": 2, "status": 1, "features": levels})
    for is_dry in (True, False):
        changes = (("old", 0, 2), ("new", 1, 1))
        await cluster.send(endpoint.update_features(*changes, validate_only=is_dry))
    await cluster.send(endpoint.update_features(("older", 1, 1), ("absent", 0, 3)))


async def rejected_requests(cluster: IncidentCluster) -> None:
    """Administrators request reassignments and partitions that are rejected, each for another
    reason. Then they cancel a reassignment that has begun."""
    for target in ([], [1, 1], [1, -1], [1, UNREGISTERED]):
        await cluster.send(endpoint.alter_reassignment("moved", 0, target))
    await cluster.ask(partial(_alter, {TopicPartition("moved", 0): None}))
    await cluster.send(endpoint.alter_reassignment("absent", 0, [1, 2]))
    await cluster.submit({("moved", 0): [3, UNREGISTERED]})
    await cluster.until_isr("moved", 0, {1, 2, 3})
    await cluster.ask(partial(_alter, {TopicPartition("moved", 0): [2, 1]}))
    await cluster.ask(partial(_alter, {TopicPartition("moved", 0): None}))
    await cluster.until_assigned("moved", 0, [1, 2])
    for count, added in ((1, None), (3, [[1], [2]]), (3, [[1, 1]]), (3, [[UNREGISTERED]])):
        await cluster.send(endpoint.create_partitions("moved", count, added))
    await cluster.send(endpoint.create_partitions("absent", 2))
    await cluster.send(endpoint.create_partitions("moved", 3, [[2, 3]]))
    await cluster.until_partitions("moved", 3)
    await cluster.send(endpoint.elect_all())
    await cluster.ask(lambda admin: admin.delete_topics(["absent"], raise_errors=False))
    await cluster.until_none_is_reassigned()


def _alter(plan: dict[TopicPartition, Any], admin: KafkaAdminClient) -> Any:
    return admin.alter_partition_reassignments(plan)


async def added_partitions(cluster: IncidentCluster) -> None:
    """A topic gains a partition while its deletion waits for a broker that has failed."""
    cluster.broker(2).kill()
    await cluster.until_no_leader_is(2)
    await cluster.ask(lambda admin: admin.delete_topics(["moved"], raise_errors=False))
    path = znodes.topic_path("moved")
    topic = await cluster.znodes.read(path)
    topic["partitions"]["2"] = [1, 3]
    await cluster.znodes.set(path, topic)
    await cluster.until_logged("partitions_refused")
    await cluster.broker(2).start()
    await cluster.until_gone("moved")
    await cluster.until_in_sync(TOPIC)


async def partitions_added_meanwhile(cluster: IncidentCluster) -> None:
    """A tool adds a partition by writing the topic's znode when the reassignments of two others are
    about to begin. refold is paused meanwhile."""
    cluster.refold.pause()
    for partition in (0, 1):
        await cluster.request(partition + 1, "moved", partition, [3, 1], legacy=False)
    path = znodes.topic_path("moved")
    topic = await cluster.znodes.read(path)
    topic["partitions"]["2"] = [2, 3]
    await cluster.znodes.set(path, topic)
    cluster.refold.resume()
    await cluster.until_partitions("moved", 3)
    for partition in (0, 1):
        await cluster.until_assigned("moved", partition, [3, 1])
    await cluster.until_in_sync("moved")


async def deletion_failover(cluster: IncidentCluster) -> None:
    """refold is killed while the deletion of a topic waits for a failed broker. refold takes over,
    and then the broker is restarted."""
    cluster.broker(2).kill()
    await cluster.until_no_leader_is(2)
    await cluster.ask(lambda admin: admin.delete_topics(["moved"], raise_errors=False))
    await cluster.until_logged("topic_deletion_waits")
    cluster.refold.kill()
    await cluster.refold.ended()
    await cluster.until_controller_is_not(cluster.daemon_id)
    await cluster.take_over()
    await cluster.broker(2).start()
    await cluster.until_gone("moved")
    await cluster.until_in_sync(TOPIC)


async def unreadable_requests(cluster: IncidentCluster) -> None:
    """Clients write requests for elections and reassignments that cannot be read, one of them while
    requests of administrators wait. A request names a partition twice."""
    orders = ([2, 1], [1, 2], [2, 1], [1, 2])
    requests = [
        asyncio.create_task(cluster.send(endpoint.alter_reassignment("moved", 1, order)))
        for order in orders
    ]
    await cluster.until_logged("reassignment_begun")
    await cluster.znodes.create(REASSIGN_PARTITIONS, "moved")
    await asyncio.gather(*requests)
    await cluster.until_deleted(REASSIGN_PARTITIONS)
    request = f"{REQUEST_PREFIX}0000000001"
    for path in (PREFERRED_ELECTION, REASSIGN_PARTITIONS, REASSIGN_PARTITIONS_EXTRA, request):
        await cluster.znodes.create(path, {"version": 1, "partitions": "moved"})
        await cluster.until_deleted(path)
    await cluster.submit({("moved", 0): [1, UNREGISTERED]})
    await cluster.until_assigned("moved", 0, [1, UNREGISTERED, 2])
    await cluster.znodes.set(REASSIGN_PARTITIONS, "moved")
    await cluster.until_logged("unreadable_znode")
    await cluster.cancel()
    await cluster.until_assigned("moved", 0, [1, 2])
    await cluster.remove_cancel()
    entries = [
        {"topic": "moved", "partition": 1, "replicas": replicas} for replicas in ([1, 3], [1, 2])
    ]
    await cluster.znodes.create(REASSIGN_PARTITIONS, {"version": 1, "partitions": entries})
    await cluster.until_assigned("moved", 1, [1, 2])
    await cluster.until_deleted(REASSIGN_PARTITIONS)
    await cluster.until_none_is_reassigned()


# Reassignments ------------------------------------------------------------------------------------


async def reassignment_replaced(cluster: IncidentCluster) -> None:
    """Requests change the target of a reassignment twice. An administrator replaces another one,
    whose added replica leads, and then undoes it; an entry of /admin/reassign_partitions for it is
    refused."""
    for number, target in ((1, [3, UNREGISTERED]), (2, [2, UNREGISTERED]), (3, [2, 1])):
        await cluster.request(number, "moved", 1, target, legacy=False)
        await cluster.until_no_request_is_left()
    await cluster.until_assigned("moved", 1, [2, 1])
    cluster.broker(2).kill()
    await cluster.until_no_leader_is(2)
    await cluster.ask(partial(_alter, {TopicPartition("moved", 0): [3, 2]}))
    await cluster.until_isr("moved", 0, {1, 3})
    partition = {"moved": [0]}
    await cluster.ask(lambda admin: admin.elect_leaders(0, partition, raise_errors=False))
    await cluster.until_led("moved", 0, by=3)
    await cluster.submit({("moved", 0): [1, 3]})
    await cluster.until_deleted(REASSIGN_PARTITIONS)
    await cluster.ask(partial(_alter, {TopicPartition("moved", 0): [2]}))
    await cluster.until_assigned("moved", 0, [2, 1])
    await cluster.ask(partial(_alter, {TopicPartition("moved", 0): [2, 1]}))
    await cluster.until_logged("reassignment_rolled_back")
    await cluster.broker(2).start()
    await cluster.until_in_sync("moved")


async def extra_same_target(cluster: IncidentCluster) -> None:
    """/admin/reassign_partitions_extra requests the target that a partition is being reassigned to
    already. Then the reassignment is cancelled."""
    await cluster.submit({("moved", 0): [3, UNREGISTERED]})
    await cluster.until_isr("moved", 0, {1, 2, 3})
    await cluster.submit({("moved", 0): [3, UNREGISTERED]}, REASSIGN_PARTITIONS_EXTRA)
    await cluster.until_deleted(REASSIGN_PARTITIONS_EXTRA)
    await cluster.cancel()
    await cluster.until_assigned("moved", 0, [1, 2])
    await cluster.remove_cancel()


async def entries_dropped(cluster: IncidentCluster) -> None:
    """A client replaces the target of a reassignment under way and requests another one, and
    cancels both before they begin. refold is paused meanwhile."""
    await cluster.submit({("moved", 0): [3, UNREGISTERED]})
    await cluster.until_isr("moved", 0, {1, 2, 3})
    cluster.refold.pause()
    entries = [
        {"topic": "moved", "partition": partition, "replicas": [2, 3]} for partition in (0, 1)
    ]
    await cluster.znodes.set(REASSIGN_PARTITIONS, {"version": 1, "partitions": entries})
    await cluster.cancel()
    cluster.refold.resume()
    await cluster.until_assigned("moved", 0, [1, 2])
    await cluster.until_deleted(REASSIGN_PARTITIONS)
    await cluster.remove_cancel()
    await cluster.until_in_sync("moved")


async def replica_removed(cluster: IncidentCluster) -> None:
    """A reassignment adds no replica and removes one, and waits for a failed broker. Then another
    one changes the order alone."""
    cluster.broker(2).kill()
    await cluster.until_no_leader_is(2)
    await cluster.ask(partial(_alter, {TopicPartition(TOPIC, 0): [1, 2]}))
    await cluster.broker(2).start()
    await cluster.until_assigned(TOPIC, 0, [1, 2])
    await cluster.ask(partial(_alter, {TopicPartition(TOPIC, 0): [2, 1]}))
    await cluster.until_assigned(TOPIC, 0, [2, 1])
    await cluster.until_none_is_reassigned()


async def reassignment_adopted(cluster: IncidentCluster) -> None:
    """A stock broker is controller and begins a reassignment, while a request of another route
    waits. refold takes over and continues. Then the reassignments are cancelled, and a request
    waits for the end of the cancellation."""
    await cluster.submit({("moved", 0): [3, UNREGISTERED]})
    await cluster.until_isr("moved", 0, {1, 2, 3})
    cluster.refold.kill()
    await cluster.refold.ended()
    entries = [
        {"topic": "moved", "partition": partition, "replicas": [3, UNREGISTERED]}
        for partition in (0, 1)
    ]
    await cluster.znodes.set(REASSIGN_PARTITIONS, {"version": 1, "partitions": entries})
    await cluster.until_controller_is_not(cluster.daemon_id)
    await cluster.until_isr("moved", 1, {1, 2, 3})
    await cluster.request(1, "moved", 0, [2, 3], legacy=False)
    await cluster.take_over()
    await cluster.until_no_request_is_left()
    await cluster.cancel()
    await cluster.until_assigned("moved", 0, [1, 2])
    await cluster.until_assigned("moved", 1, [1, 2])
    await cluster.until_deleted(REASSIGN_PARTITIONS)
    await cluster.request(2, "moved", 1, [2, 1], legacy=False)
    await cluster.submit({("moved", 0): [2, 1]})
    await cluster.until_logged("reassignment_waits")
    await cluster.znodes.delete(znodes.REASSIGN_CANCEL)
    await cluster.until_assigned("moved", 0, [2, 1])
    await cluster.until_assigned("moved", 1, [2, 1])
    await cluster.until_deleted(REASSIGN_PARTITIONS)
    await cluster.until_in_sync("moved")


async def cancellation_unclean(cluster: IncidentCluster) -> None:
    """A rollback waits because an original replica has failed. Then the leader fails too, which is
    the only replica in sync; an added replica is alive, but may not become an unclean leader."""
    config = {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}
    await cluster.make("guarded", {0: [1, 2]}, config)
    cluster.broker(2).kill()
    await cluster.until_no_leader_is(2)
    await cluster.submit({("guarded", 0): [3, UNREGISTERED]})
    await cluster.until_isr("guarded", 0, {1, 3})
    state = await cluster.state("guarded", 0) | {"isr": [1]}
    # The leader does not learn of this ISR, and therefore cannot add broker 3 again.
    topic_id = await cluster.topic_id("guarded")
    epoch = await cluster.broker_epoch(1)
    await cluster.send(endpoint.alter_partition(1, epoch, topic_id, 0, state))
    await cluster.until_isr("guarded", 0, {1})
    await cluster.cancel()
    await cluster.until_logged("rollback_waits")
    cluster.broker(1).kill()
    await cluster.until_offline("guarded", 0)
    await cluster.broker(2).start()
    await cluster.until_led("guarded", 0, by=2)
    await cluster.broker(1).start()
    await cluster.until_assigned("guarded", 0, [1, 2])
    await cluster.until_in_sync("guarded")
    await cluster.remove_cancel()


# The role -----------------------------------------------------------------------------------------


async def epoch_changed(cluster: IncidentCluster) -> None:
    """Another client changes /controller_epoch. Then a broker shuts down: refold's first write is
    rejected, and it takes the role again."""
    await cluster.znodes.set(znodes.CONTROLLER_EPOCH, 20)
    await cluster.broker(2).stop()
    await cluster.until_no_leader_is(2)
    await cluster.broker(2).start()
    await cluster.until_in_sync(TOPIC)


async def failed_failover(cluster: IncidentCluster) -> None:
    """refold's failover fails, because it may not create a znode. It gives the role up, and takes
    it later, when it may."""
    await cluster.hand_back()
    for path in (REASSIGNMENT_REQUESTS, REPLICA_DELETIONS):
        await cluster.znodes.delete(path)
    await cluster.znodes.permit("/admin", creation=False)
    await cluster.start_refold()
    await cluster.until_logged("failover_failed")
    await cluster.until_controller_is_not(cluster.daemon_id)
    await cluster.znodes.permit("/admin", creation=True)
    await cluster.elect_refold()
    await cluster.until_in_sync(TOPIC)
