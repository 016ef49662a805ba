"""The script of each incident. It starts with refold as controller of three brokers with two
topics."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import NewTopic

from tools.incidents.stage import UNREGISTERED, Stage

TOPIC: Final = "orders"
PARTITIONS: Final = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2], 3: [1, 3]}

Script = Callable[[Stage], Awaitable[None]]


async def broker_crash(stage: Stage) -> None:
    """A broker is killed and restarted."""
    stage.broker(2).kill()
    await stage.until_no_leader_is(2)
    await stage.broker(2).start()
    await stage.until_in_sync(TOPIC)


async def controlled_shutdown(stage: Stage) -> None:
    """A broker shuts down cleanly and is restarted; then its partitions are moved back to it."""
    await stage.broker(1).stop()
    await stage.until_no_leader_is(1)
    await stage.broker(1).start()
    await stage.until_in_sync(TOPIC)
    await stage.ask(lambda admin: admin.elect_leaders(0, None, raise_errors=False))


async def unclean_election(stage: Stage) -> None:
    """Both replicas of a partition fail, the last member of the ISR second; then the replica that
    is not in sync may lead."""
    stage.broker(3).kill()
    await stage.until_no_leader_is(3)
    stage.broker(1).kill()
    await stage.until_offline(TOPIC, 3)
    await stage.broker(3).start()
    await asyncio.sleep(2)
    partition = {TOPIC: [3]}
    await stage.ask(lambda admin: admin.elect_leaders(1, partition, raise_errors=False))
    await stage.until_led(TOPIC, 3, by=3)
    await stage.broker(1).start()
    await stage.until_in_sync(TOPIC)


async def reassignment(stage: Stage) -> None:
    """Two partitions are reassigned: one completes, one waits for a failed target and is
    cancelled."""
    stage.broker(3).kill()
    await stage.until_no_leader_is(3)
    plan: dict[TopicPartition, Any] = {TopicPartition("moved", 0): [2, 1]}
    await stage.ask(lambda admin: admin.alter_partition_reassignments(plan))
    await stage.until_assigned("moved", 0, [2, 1])
    # The API would reject a broker that is not alive.
    await stage.submit({("moved", 1): [1, 3]})
    await stage.until_assigned("moved", 1, [1, 3, 2])
    cancelled = {TopicPartition("moved", 1): None}
    await stage.ask(lambda admin: admin.alter_partition_reassignments(cancelled))
    await stage.until_assigned("moved", 1, [1, 2])
    await stage.broker(3).start()
    await stage.until_in_sync(TOPIC)


async def reassignment_end(stage: Stage) -> None:
    """Two partitions are reassigned to a broker without replicas of them, and complete. This
    removes the leader of one and a follower of the other."""
    plan: dict[TopicPartition, Any] = {
        TopicPartition("moved", 0): [3, 2],
        TopicPartition("moved", 1): [1, 3],
    }
    await stage.ask(lambda admin: admin.alter_partition_reassignments(plan))
    await stage.until_assigned("moved", 0, [3, 2])
    await stage.until_assigned("moved", 1, [1, 3])
    await stage.until_in_sync("moved")
    await stage.until_none_is_reassigned()


async def topic_deletion(stage: Stage) -> None:
    """A topic is deleted while one of its brokers is down; the deletion completes when the broker
    is back."""
    stage.broker(2).kill()
    await stage.until_no_leader_is(2)
    await stage.ask(lambda admin: admin.delete_topics([TOPIC], raise_errors=False))
    await asyncio.sleep(2)
    await stage.broker(2).start()
    await stage.until_gone(TOPIC)


async def failover(stage: Stage) -> None:
    """refold is killed, a broker fails while a stock broker is controller, and refold takes
    over."""
    stage.refold.kill()
    await stage.refold.ended()
    stage.broker(2).kill()
    await stage.until_no_leader_is(2)
    await stage.take_over()
    await stage.broker(2).start()
    await stage.until_in_sync(TOPIC)


async def session_expiry(stage: Stage) -> None:
    """refold is paused for longer than its session while a broker fails; then it is resumed."""
    stage.refold.pause()
    stage.broker(3).kill()
    await stage.until_controller_is_not(stage.own_id)
    stage.refold.resume()
    await stage.until_controller_is(stage.own_id)
    await stage.until_no_leader_is(3)
    await stage.broker(3).start()
    await stage.until_in_sync(TOPIC)


async def topics(stage: Stage) -> None:
    """Topics are created and extended; an existing topic is requested again."""
    await _create(stage, "second", 2)
    await stage.ask(lambda admin: admin.create_partitions({"second": 4}, raise_errors=False))
    await stage.until_partitions("second", 4)
    await stage.ask(lambda admin: admin.create_topics([NewTopic(TOPIC, 1, 1)], raise_errors=False))
    await stage.ask(lambda admin: admin.delete_topics(["second"], raise_errors=False))
    await stage.until_gone("second")


async def _create(stage: Stage, topic: str, partitions: int) -> None:
    def create(admin: KafkaAdminClient) -> Any:
        return admin.create_topics([NewTopic(topic, partitions, 2)], raise_errors=False)

    await stage.ask(create)
    await stage.until_partitions(topic, partitions)
    await stage.until_in_sync(topic)


# Rollbacks: a target contains a broker that never registers, so the reassignment never completes.


async def cancellation(stage: Stage) -> None:
    """A reassignment is cancelled with /admin/reassign_cancel: one partition is led by an added
    replica, the other one by an original replica."""
    await stage.submit({("moved", 0): [3, 2, UNREGISTERED], ("moved", 1): [3, UNREGISTERED]})
    await stage.until_isr("moved", 0, {1, 2, 3})
    await stage.until_isr("moved", 1, {1, 2, 3})
    partition = {"moved": [0]}
    await stage.ask(lambda admin: admin.elect_leaders(0, partition, raise_errors=False))
    await stage.until_led("moved", 0, by=3)
    await stage.cancel()
    await stage.until_assigned("moved", 0, [1, 2])
    await stage.until_assigned("moved", 1, [1, 2])
    await stage.until_in_sync("moved")
    await stage.remove_cancel()


async def cancellation_failover(stage: Stage) -> None:
    """A rollback waits for a failed broker. refold is killed, takes over again, and rolls back when
    the broker is in sync."""
    await stage.make("guarded", {0: [1, 2]}, {"min.insync.replicas": "2"})
    stage.broker(2).kill()
    await stage.until_no_leader_is(2)
    await stage.submit({("guarded", 0): [3, UNREGISTERED]})
    await stage.until_isr("guarded", 0, {1, 3})
    await stage.cancel()
    await stage.until_logged("rollback_waits")
    stage.refold.kill()
    await stage.refold.ended()
    await stage.until_controller_is_not(stage.own_id)
    await stage.take_over()
    await stage.broker(2).start()
    await stage.until_assigned("guarded", 0, [1, 2])
    await stage.until_in_sync("guarded")
    await stage.remove_cancel()


async def extra_conflict(stage: Stage) -> None:
    """/admin/reassign_partitions_extra requests another target for a partition that is being
    reassigned, and a target for a partition that is not."""
    await stage.submit({("moved", 0): [3, UNREGISTERED]})
    await stage.until_isr("moved", 0, {1, 2, 3})
    extra = "/admin/reassign_partitions_extra"
    await stage.submit({("moved", 0): [2, 3], ("moved", 1): [3, 2]}, extra)
    await stage.until_assigned("moved", 0, [2, 3])
    await stage.until_assigned("moved", 1, [3, 2])
    await stage.until_in_sync("moved")
    await stage.until_deleted("/admin/reassign_partitions")


async def legacy_request(stage: Stage) -> None:
    """Entries of /admin/reassign_partitions become requests: one partition moves, one stays in
    progress. Two manual requests are refused: one for the partition in progress, and one legacy
    request without an entry. The reassignment in progress is cancelled."""
    await stage.submit({("moved", 0): [3, UNREGISTERED], ("moved", 1): [3, 1]})
    await stage.until_isr("moved", 0, {1, 2, 3})
    await stage.until_assigned("moved", 1, [3, 1])
    await stage.until_no_request_is_left()
    await stage.request(100, "moved", 0, [2, 3], legacy=False)
    await stage.request(101, "moved", 1, [1, 2], legacy=True)
    await stage.until_no_request_is_left()
    await stage.cancel()
    await stage.until_assigned("moved", 0, [1, 2])
    await stage.until_in_sync("moved")
    await stage.remove_cancel()


async def shutdown_reassignment(stage: Stage) -> None:
    """The leader of a partition that is being reassigned does a controlled shutdown. The
    reassignment is cancelled meanwhile; then the broker is restarted."""
    await stage.submit({("moved", 0): [3, UNREGISTERED]})
    await stage.until_isr("moved", 0, {1, 2, 3})
    await stage.broker(1).stop()
    await stage.until_no_leader_is(1)
    await stage.cancel()
    await stage.until_assigned("moved", 0, [1, 2])
    await stage.broker(1).start()
    await stage.until_in_sync("moved")
    await stage.until_in_sync(TOPIC)
    await stage.remove_cancel()


async def bounced_broker(stage: Stage) -> None:
    """A broker to which a partition is being reassigned restarts while refold is paused, so that
    refold finds it with another broker epoch. Then the reassignment is cancelled."""
    await stage.hand_back()
    await stage.take_over(session_ms=60_000)
    await stage.submit({("moved", 0): [3, UNREGISTERED]})
    await stage.until_isr("moved", 0, {1, 2, 3})
    stage.refold.pause()
    stage.broker(3).kill()
    await stage.broker(3).start()
    stage.refold.resume()
    await stage.until_in_sync(TOPIC)
    await stage.until_isr("moved", 0, {1, 2, 3})
    await stage.cancel()
    await stage.until_assigned("moved", 0, [1, 2])
    await stage.until_in_sync("moved")
    await stage.remove_cancel()


SCRIPTS: Final[Mapping[str, tuple[Script, str]]] = {
    "broker-crash": (broker_crash, "3.9"),
    "broker-crash-2.6": (broker_crash, "2.6"),
    "controlled-shutdown": (controlled_shutdown, "3.9"),
    "unclean-election": (unclean_election, "3.9"),
    "reassignment": (reassignment, "3.9"),
    "reassignment-end": (reassignment_end, "3.9"),
    "topic-deletion": (topic_deletion, "3.9"),
    "failover": (failover, "3.9"),
    "session-expiry": (session_expiry, "2.8"),
    "topics": (topics, "3.9"),
    "cancellation": (cancellation, "3.9"),
    "cancellation-failover": (cancellation_failover, "3.9"),
    "extra-conflict": (extra_conflict, "3.9"),
    "legacy-request": (legacy_request, "3.9"),
    "shutdown-reassignment": (shutdown_reassignment, "3.9"),
    "bounced-broker": (bounced_broker, "3.9"),
}
"""By name: the script, and the brokers' inter.broker.protocol.version."""
