"""The scripts of incidents on the way to KRaft and back. Each begins as those in `scripts`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from controller.core import znodes
from tools.incidents.incident_cluster import IncidentCluster
from tools.lab.cluster_view import ClusterReader, until
from tools.lab.migration import LabMigration

TOPIC: Final = "orders"
NO_SHRINKING: Final = {"replica.lag.time.max.ms": "60000"}
"""Leaders keep stopped replicas in the ISR: an ISR that the leader changes gets the epoch of the
controller again."""

_LATER: Final = "later"
_EPOCHS: Final = 14
"""The KRaft controller is elected this many times: more often than ZooKeeper controllers in the
rollback."""
_ELECTION_S: Final = 2.0
"""The elections for the partitions of a failed broker are over by then."""
_SECONDS_MAX: Final = 90.0
_HANGS: Final = "Unhandled error in RecoverMigrationStateFromZKEvent"


@asynccontextmanager
async def _migration(cluster: IncidentCluster) -> AsyncIterator[LabMigration]:
    """The migration of a cluster that refold has handed back."""
    await cluster.hand_back()
    await cluster.until_controller_is_not(cluster.daemon_id)
    async with ClusterReader(cluster.connect) as view:
        yield await LabMigration.prepared(cluster.lab, view)


async def kraft_epoch_above(cluster: IncidentCluster) -> None:
    """A migration to KRaft is rolled back while the KRaft epoch is above /controller_epoch
    (KAFKA-20488): refold elects no leader for a partition that the KRaft controller has written,
    until an operator raises /controller_epoch."""
    async with _migration(cluster) as migration:
        await migration.controller.start()
        await migration.elect_again(_EPOCHS)
        await migration.enter()
        await cluster.broker(3).stop()
        await cluster.until_no_leader_is(3)
        await cluster.broker(3).start()
        await cluster.until_in_sync(TOPIC)
        await cluster.ask(lambda admin: admin.elect_leaders(0, None, raise_errors=False))
        await cluster.until_led(TOPIC, 2, by=3)
        await migration.roll_back()
    await cluster.take_over()
    cluster.broker(3).kill()
    await cluster.until_logged("broker_failed")
    await asyncio.sleep(_ELECTION_S)
    highest = (await cluster.state(TOPIC, 2))["controller_epoch"]
    await cluster.znodes.set(znodes.CONTROLLER_EPOCH, highest)
    await cluster.elect_refold()
    await cluster.until_no_leader_is(3)
    await cluster.broker(3).start()
    await cluster.until_in_sync(TOPIC)


async def migration_left(cluster: IncidentCluster) -> None:
    """/migration is left after a rollback (strimzi #11262): the next migration does not copy the
    metadata, and the KRaft controller deletes a topic that was created since then."""
    async with _migration(cluster) as migration:
        await migration.controller.start()
        await migration.enter()
        await migration.roll_back(keeps_migration=True)
        cluster.begin()
        await cluster.make(_LATER, {0: [1, 2, 3]})
        await migration.controller.start()
        await migration.enter()
        await cluster.until_deleted(znodes.topic_path(_LATER))


async def migration_malformed(cluster: IncidentCluster) -> None:
    """/migration is empty, as zookeeper-security-migration creates it (KAFKA-19480): the KRaft
    controller does not begin until an operator deletes the znode."""
    async with _migration(cluster) as migration:
        cluster.begin()
        await cluster.znodes.create(znodes.MIGRATION)
        await migration.controller.start()
        await migration.enter(waits=False)
        log = migration.controller.folder / "server.log"

        async def hangs() -> bool:
            return log.read_text().count(_HANGS) > 1

        await until(hangs, _SECONDS_MAX, "the KRaft controller cannot read /migration")
        await cluster.znodes.delete(znodes.MIGRATION)
        await migration.until_dual_write()
