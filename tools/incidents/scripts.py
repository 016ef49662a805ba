"""The script of each incident. It starts with refold as controller of three brokers with two
topics."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import NewTopic

from controller.core import znodes
from tools.incidents import (
    migration_scripts,
    request_scripts,
    rule_scripts,
)
from tools.incidents.incident_cluster import UNREGISTERED, IncidentCluster

TOPIC: Final = "orders"
PARTITIONS: Final = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2], 3: [1, 3]}

REGISTRATIONS: Final = {"refold.registration.check.ms": "4000"}
_REGISTERS_S: Final = 5.0
"""A broker has tried to register in its next session."""

Script = Callable[[IncidentCluster], Awaitable[None]]


async def broker_crash(cluster: IncidentCluster) -> None:
    """A broker is killed and restarted."""
    cluster.broker(2).kill()
    await cluster.until_no_leader_is(2)
    await cluster.broker(2).start()
    await cluster.until_in_sync(TOPIC)


async def controlled_shutdown(cluster: IncidentCluster) -> None:
    """A broker shuts down cleanly and is restarted; then its partitions are moved back to it."""
    await cluster.broker(1).stop()
    await cluster.until_no_leader_is(1)
    await cluster.broker(1).start()
    await cluster.until_in_sync(TOPIC)
    await cluster.ask(lambda admin: admin.elect_leaders(0, None, raise_errors=False))


async def unclean_election(cluster: IncidentCluster) -> None:
    """Both replicas of a partition fail, the last member of the ISR second; then the replica that
    is not in sync may lead."""
    cluster.broker(3).kill()
    await cluster.until_no_leader_is(3)
    cluster.broker(1).kill()
    await cluster.until_offline(TOPIC, 3)
    await cluster.broker(3).start()
    await asyncio.sleep(2)
    partition = {TOPIC: [3]}
    await cluster.ask(lambda admin: admin.elect_leaders(1, partition, raise_errors=False))
    await cluster.until_led(TOPIC, 3, by=3)
    await cluster.broker(1).start()
    await cluster.until_in_sync(TOPIC)


async def reassignment(cluster: IncidentCluster) -> None:
    """Two partitions are reassigned: one completes, one waits for a failed target and is
    cancelled."""
    cluster.broker(3).kill()
    await cluster.until_no_leader_is(3)
    plan: dict[TopicPartition, Any] = {TopicPartition("moved", 0): [2, 1]}
    await cluster.ask(lambda admin: admin.alter_partition_reassignments(plan))
    await cluster.until_assigned("moved", 0, [2, 1])
    # The API would reject a broker that is not alive.
    await cluster.submit({("moved", 1): [1, 3]})
    await cluster.until_assigned("moved", 1, [1, 3, 2])
    cancelled = {TopicPartition("moved", 1): None}
    await cluster.ask(lambda admin: admin.alter_partition_reassignments(cancelled))
    await cluster.until_assigned("moved", 1, [1, 2])
    await cluster.broker(3).start()
    await cluster.until_in_sync(TOPIC)


async def reassignment_end(cluster: IncidentCluster) -> None:
    """Two partitions are reassigned to a broker without replicas of them, and complete. This
    removes the leader of one and a follower of the other."""
    plan: dict[TopicPartition, Any] = {
        TopicPartition("moved", 0): [3, 2],
        TopicPartition("moved", 1): [1, 3],
    }
    await cluster.ask(lambda admin: admin.alter_partition_reassignments(plan))
    await cluster.until_assigned("moved", 0, [3, 2])
    await cluster.until_assigned("moved", 1, [1, 3])
    await cluster.until_in_sync("moved")
    await cluster.until_none_is_reassigned()


async def topic_deletion(cluster: IncidentCluster) -> None:
    """A topic is deleted while one of its brokers is down; the deletion completes when the broker
    is back."""
    cluster.broker(2).kill()
    await cluster.until_no_leader_is(2)
    await cluster.ask(lambda admin: admin.delete_topics([TOPIC], raise_errors=False))
    await asyncio.sleep(2)
    await cluster.broker(2).start()
    await cluster.until_gone(TOPIC)


async def failover(cluster: IncidentCluster) -> None:
    """refold is killed, a broker fails while a stock broker is controller, and refold takes
    over."""
    cluster.refold.kill()
    await cluster.refold.ended()
    cluster.broker(2).kill()
    await cluster.until_no_leader_is(2)
    await cluster.take_over()
    await cluster.broker(2).start()
    await cluster.until_in_sync(TOPIC)


async def standby(cluster: IncidentCluster) -> None:
    """A standby follows a stock controller while a broker fails and a topic is created, and takes
    over."""
    cluster.refold.kill()
    await cluster.refold.ended()
    await cluster.until_controller_is_not(cluster.daemon_id)
    await cluster.start_refold(role="--standby")
    await cluster.until_logged("standby_ready")
    cluster.broker(2).kill()
    await cluster.until_no_leader_is(2)
    await cluster.make("followed", {0: [3, 1]})
    await cluster.broker(2).start()
    await cluster.until_in_sync(TOPIC)
    await asyncio.sleep(1)
    await cluster.elect_refold()
    await cluster.until_logged("failover_done")
    await cluster.make("later", {0: [2, 1]})


async def session_expiry(cluster: IncidentCluster) -> None:
    """refold is paused for longer than its session while a broker fails; then it is resumed."""
    cluster.refold.pause()
    cluster.broker(3).kill()
    await cluster.until_controller_is_not(cluster.daemon_id)
    cluster.refold.resume()
    await cluster.until_controller_is(cluster.daemon_id)
    await cluster.until_no_leader_is(3)
    await cluster.broker(3).start()
    await cluster.until_in_sync(TOPIC)


async def topics(cluster: IncidentCluster) -> None:
    """Topics are created and extended; an existing topic is requested again."""
    await _create(cluster, "second", 2)
    await cluster.ask(lambda admin: admin.create_partitions({"second": 4}, raise_errors=False))
    await cluster.until_partitions("second", 4)
    await cluster.ask(
        lambda admin: admin.create_topics([NewTopic(TOPIC, 1, 1)], raise_errors=False)
    )
    await cluster.ask(lambda admin: admin.delete_topics(["second"], raise_errors=False))
    await cluster.until_gone("second")


async def _create(cluster: IncidentCluster, topic: str, partitions: int) -> None:
    def create(admin: KafkaAdminClient) -> Any:
        return admin.create_topics([NewTopic(topic, partitions, 2)], raise_errors=False)

    await cluster.ask(create)
    await cluster.until_partitions(topic, partitions)
    await cluster.until_in_sync(topic)


# Rollbacks: a target contains a broker that never registers, so the reassignment never completes.


async def cancellation(cluster: IncidentCluster) -> None:
    """A reassignment is cancelled with /admin/reassign_cancel: one partition is led by an added
    replica, the other one by an original replica."""
    await cluster.submit({("moved", 0): [3, 2, UNREGISTERED], ("moved", 1): [3, UNREGISTERED]})
    await cluster.until_isr("moved", 0, {1, 2, 3})
    await cluster.until_isr("moved", 1, {1, 2, 3})
    partition = {"moved": [0]}
    await cluster.ask(lambda admin: admin.elect_leaders(0, partition, raise_errors=False))
    await cluster.until_led("moved", 0, by=3)
    await cluster.cancel()
    await cluster.until_assigned("moved", 0, [1, 2])
    await cluster.until_assigned("moved", 1, [1, 2])
    await cluster.until_in_sync("moved")
    await cluster.remove_cancel()


async def cancellation_failover(cluster: IncidentCluster) -> None:
    """A rollback waits for a failed broker. refold is killed, takes over again, and rolls back when
    the broker is in sync."""
    await cluster.make("guarded", {0: [1, 2]}, {"min.insync.replicas": "2"})
    cluster.broker(2).kill()
    await cluster.until_no_leader_is(2)
    await cluster.submit({("guarded", 0): [3, UNREGISTERED]})
    await cluster.until_isr("guarded", 0, {1, 3})
    await cluster.cancel()
    await cluster.until_logged("rollback_waits")
    cluster.refold.kill()
    await cluster.refold.ended()
    await cluster.until_controller_is_not(cluster.daemon_id)
    await cluster.take_over()
    await cluster.broker(2).start()
    await cluster.until_assigned("guarded", 0, [1, 2])
    await cluster.until_in_sync("guarded")
    await cluster.remove_cancel()


async def cancellation_removed(cluster: IncidentCluster) -> None:
    """A rollback waits for a failed broker. /admin/reassign_partitions_extra requests another
    target, so the rollback still waits when the cancellation is removed."""
    await cluster.make("guarded", {0: [1, 2]}, {"min.insync.replicas": "2"})
    cluster.broker(2).kill()
    await cluster.until_no_leader_is(2)
    await cluster.submit({("guarded", 0): [3, UNREGISTERED]})
    await cluster.until_isr("guarded", 0, {1, 3})
    await cluster.cancel()
    await cluster.until_logged("rollback_waits")
    await cluster.submit({("guarded", 0): [2, 3]}, znodes.REASSIGN_PARTITIONS_EXTRA)
    await cluster.znodes.delete(znodes.REASSIGN_CANCEL)
    await cluster.until_logged("reassignments_go_on")
    await cluster.broker(2).start()
    await cluster.until_assigned("guarded", 0, [2, 3])
    await cluster.until_in_sync("guarded")
    await cluster.until_deleted(znodes.REASSIGN_PARTITIONS)


async def extra_conflict(cluster: IncidentCluster) -> None:
    """/admin/reassign_partitions_extra requests another target for a partition that is being
    reassigned, and a target for a partition that is not."""
    await cluster.submit({("moved", 0): [3, UNREGISTERED]})
    await cluster.until_isr("moved", 0, {1, 2, 3})
    extra = znodes.REASSIGN_PARTITIONS_EXTRA
    await cluster.submit({("moved", 0): [2, 3], ("moved", 1): [3, 2]}, extra)
    await cluster.until_assigned("moved", 0, [2, 3])
    await cluster.until_assigned("moved", 1, [3, 2])
    await cluster.until_in_sync("moved")
    await cluster.until_deleted(znodes.REASSIGN_PARTITIONS)


async def legacy_request(cluster: IncidentCluster) -> None:
    """Entries of /admin/reassign_partitions become requests: one partition moves, one stays in
    progress. Two manual requests are refused: one for the partition in progress, and one legacy
    request without an entry. The reassignment in progress is cancelled."""
    await cluster.submit({("moved", 0): [3, UNREGISTERED], ("moved", 1): [3, 1]})
    await cluster.until_isr("moved", 0, {1, 2, 3})
    await cluster.until_assigned("moved", 1, [3, 1])
    await cluster.until_no_request_is_left()
    await cluster.request(100, "moved", 0, [2, 3], legacy=False)
    await cluster.request(101, "moved", 1, [1, 2], legacy=True)
    await cluster.until_no_request_is_left()
    await cluster.cancel()
    await cluster.until_assigned("moved", 0, [1, 2])
    await cluster.until_in_sync("moved")
    await cluster.remove_cancel()


async def shutdown_reassignment(cluster: IncidentCluster) -> None:
    """The leader of a partition that is being reassigned does a controlled shutdown. The
    reassignment is cancelled meanwhile; then the broker is restarted."""
    await cluster.submit({("moved", 0): [3, UNREGISTERED]})
    await cluster.until_isr("moved", 0, {1, 2, 3})
    await cluster.broker(1).stop()
    await cluster.until_no_leader_is(1)
    await cluster.cancel()
    await cluster.until_assigned("moved", 0, [1, 2])
    await cluster.broker(1).start()
    await cluster.until_in_sync("moved")
    await cluster.until_in_sync(TOPIC)
    await cluster.remove_cancel()


async def bounced_broker(cluster: IncidentCluster) -> None:
    """A broker to which a partition is being reassigned restarts while refold is paused, so that
    refold finds it with another broker epoch. Then the reassignment is cancelled."""
    await cluster.hand_back()
    await cluster.take_over(session_ms=60_000)
    await cluster.submit({("moved", 0): [3, UNREGISTERED]})
    await cluster.until_isr("moved", 0, {1, 2, 3})
    cluster.refold.pause()
    cluster.broker(3).kill()
    await cluster.broker(3).start()
    cluster.refold.resume()
    await cluster.until_in_sync(TOPIC)
    await cluster.until_isr("moved", 0, {1, 2, 3})
    await cluster.cancel()
    await cluster.until_assigned("moved", 0, [1, 2])
    await cluster.until_in_sync("moved")
    await cluster.remove_cancel()


async def stuck_registration(cluster: IncidentCluster) -> None:
    """A broker fails, and a registration of it is left. Then the session of the broker ends while
    it does not run; it finds the left registration, and does not register when that is deleted."""
    path, broker = znodes.broker_path(2), cluster.broker(2)
    content = await cluster.znodes.read(path)
    broker.kill()
    await cluster.until_registered(2, is_registered=False)
    await cluster.znodes.create(path, content)
    await cluster.until_logged("registration_left_over")
    await cluster.znodes.delete(path)
    await broker.start()
    await cluster.until_in_sync(TOPIC)
    broker.pause()
    await cluster.until_registered(2, is_registered=False)
    await cluster.znodes.create(path, content)
    broker.resume()
    await asyncio.sleep(_REGISTERS_S)
    await cluster.znodes.delete(path)
    await cluster.until_logged("broker_not_registered")
    await broker.restart()
    await cluster.until_in_sync(TOPIC)


class IncidentScript(NamedTuple):
    """A script, and its cluster: the brokers' inter.broker.protocol.version, further settings of
    the brokers and of refold, and the number of each broker's log directories. `of_zookeeper`: the
    incident is ZooKeeper's log, and not refold's."""

    script: Script
    protocol: str = "3.9"
    config: Mapping[str, str] = {}
    log_dirs: int = 1
    of_zookeeper: bool = False


INCIDENTS: Final[Mapping[str, IncidentScript]] = {
    "broker-crash": IncidentScript(broker_crash),
    "broker-crash-2.6": IncidentScript(broker_crash, "2.6"),
    "controlled-shutdown": IncidentScript(controlled_shutdown),
    "unclean-election": IncidentScript(unclean_election),
    "reassignment": IncidentScript(reassignment),
    "reassignment-end": IncidentScript(reassignment_end),
    "topic-deletion": IncidentScript(topic_deletion),
    "failover": IncidentScript(failover),
    "standby": IncidentScript(standby),
    "session-expiry": IncidentScript(session_expiry, "2.8"),
    "topics": IncidentScript(topics),
    "cancellation": IncidentScript(cancellation),
    "cancellation-failover": IncidentScript(cancellation_failover),
    "cancellation-removed": IncidentScript(cancellation_removed),
    "extra-conflict": IncidentScript(extra_conflict),
    "legacy-request": IncidentScript(legacy_request),
    "shutdown-reassignment": IncidentScript(shutdown_reassignment),
    "bounced-broker": IncidentScript(bounced_broker),
    "leader-rebalance": IncidentScript(
        rule_scripts.leader_rebalance, config=rule_scripts.REBALANCE
    ),
    "unclean-default": IncidentScript(rule_scripts.unclean_default),
    "preferred-election": IncidentScript(rule_scripts.preferred_election),
    "brokers-together": IncidentScript(rule_scripts.brokers_together),
    "log-dir": IncidentScript(rule_scripts.log_dir, log_dirs=2),
    "stale-requests": IncidentScript(rule_scripts.stale_requests),
    "rare-requests": IncidentScript(request_scripts.rare_requests),
    "exceeded-quota": IncidentScript(request_scripts.exceeded_quota),
    "admin-requests": IncidentScript(rule_scripts.admin_requests),
    "rejected-requests": IncidentScript(rule_scripts.rejected_requests),
    "added-partitions": IncidentScript(rule_scripts.added_partitions),
    "partitions-added-meanwhile": IncidentScript(rule_scripts.partitions_added_meanwhile),
    "deletion-failover": IncidentScript(rule_scripts.deletion_failover),
    "unreadable-requests": IncidentScript(rule_scripts.unreadable_requests),
    "extra-same-target": IncidentScript(rule_scripts.extra_same_target),
    "entries-dropped": IncidentScript(rule_scripts.entries_dropped),
    "replica-removed": IncidentScript(rule_scripts.replica_removed),
    "reassignment-replaced": IncidentScript(rule_scripts.reassignment_replaced),
    "reassignment-adopted": IncidentScript(rule_scripts.reassignment_adopted),
    "cancellation-unclean": IncidentScript(rule_scripts.cancellation_unclean),
    "epoch-changed": IncidentScript(rule_scripts.epoch_changed),
    "stuck-registration": IncidentScript(stuck_registration, config=REGISTRATIONS),
    "failed-failover": IncidentScript(rule_scripts.failed_failover),
    "kraft-epoch-above": IncidentScript(
        migration_scripts.kraft_epoch_above, config=migration_scripts.NO_SHRINKING
    ),
    "migration-left": IncidentScript(migration_scripts.migration_left, of_zookeeper=True),
    "migration-malformed": IncidentScript(migration_scripts.migration_malformed, of_zookeeper=True),
}
"""The incidents by name."""
