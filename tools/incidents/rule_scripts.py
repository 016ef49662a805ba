"""The scripts of incidents for single rules of the core, which are rare in a cluster. Each begins
as those in `scripts`.

Requests are sent to refold's endpoint, and znodes written, as a faulty or late client would do.
"""

import asyncio
from typing import Any

from kafka import KafkaAdminClient, TopicPartition

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
_PREFERRED_ELECTION = "/admin/preferred_replica_election"
_REASSIGN = "/admin/reassign_partitions"
_EXTRA = "/admin/reassign_partitions_extra"
_REQUESTS = "/admin/reassignment_requests"
_DELETIONS = "/admin/replica_deletions"


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
    await cluster.znodes.create("/config/brokers/<default>", default)
    change = {"version": 2, "entity_path": "brokers/<default>"}
    await cluster.znodes.create("/config/changes/config_change_0000009999", change)
    await cluster.until_led(TOPIC, 2, by=3)
    await cluster.until_led("moved", 0, by=2)
    await cluster.broker(1).start()
    await cluster.until_in_sync(TOPIC)


async def preferred_election(cluster: IncidentCluster) -> None:
    """/admin/preferred_replica_election names a partition whose preferred replica does not lead, a
    partition that has never had a leader, and one that does not exist."""
    unborn = {"version": 1, "partitions": {"0": [UNREGISTERED]}}
    await cluster.znodes.create("/brokers/topics/unborn", unborn)
    await cluster.until_logged("no_leader_created")
    await cluster.ask(lambda admin: _prefer(admin, ("moved", 0), [2, 1]))
    await cluster.until_assigned("moved", 0, [2, 1])
    named = [("moved", 0), ("unborn", 0), ("absent", 0)]
    entries = [{"topic": topic, "partition": partition} for topic, partition in named]
    await cluster.znodes.create(_PREFERRED_ELECTION, {"version": 1, "partitions": entries})
    await cluster.until_deleted(_PREFERRED_ELECTION)
    await cluster.until_led("moved", 0, by=2)
    partition = {"unborn": [0]}
    await cluster.ask(lambda admin: admin.elect_leaders(0, partition, raise_errors=False))


# The role -----------------------------------------------------------------------------------------


async def epoch_changed(cluster: IncidentCluster) -> None:
    """Another client changes /controller_epoch. Then a broker shuts down: refold's first write is
    rejected, and it takes the role again."""
    await cluster.znodes.set("/controller_epoch", 20)
    await cluster.broker(2).stop()
    await cluster.until_no_leader_is(2)
    await cluster.broker(2).start()
    await cluster.until_in_sync(TOPIC)


async def failed_failover(cluster: IncidentCluster) -> None:
    """refold's failover fails, because it may not create a znode. It gives the role up, and takes
    it later, when it may."""
    await cluster.hand_back()
    for path in (_REQUESTS, _DELETIONS):
        await cluster.znodes.delete(path)
    await cluster.znodes.permit("/admin", creation=False)
    await cluster.start_refold()
    await cluster.until_logged("failover_failed")
    await cluster.until_controller_is_not(cluster.daemon_id)
    await cluster.znodes.permit("/admin", creation=True)
    await cluster.elect_refold()
    await cluster.until_in_sync(TOPIC)
