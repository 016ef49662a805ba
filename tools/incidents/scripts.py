"""What happens in each incident, once refold is controller of three brokers with two topics."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import NewTopic

from tools.incidents.stage import NOBODY, Stage

TOPIC: Final = "orders"
PARTITIONS: Final = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2], 3: [1, 3]}

Script = Callable[[Stage], Awaitable[None]]


async def broker_crash(stage: Stage) -> None:
    """A broker is killed, and comes back."""
    stage.broker(2).kill()
    await stage.until_no_leader_is(2)
    await stage.broker(2).start()
    await stage.until_in_sync(TOPIC)


async def controlled_shutdown(stage: Stage) -> None:
    """A broker is stopped in order, and comes back; then its partitions go back to it."""
    await stage.broker(1).stop()
    await stage.until_no_leader_is(1)
    await stage.broker(1).start()
    await stage.until_in_sync(TOPIC)
    await stage.ask(lambda admin: admin.elect_leaders(0, None, raise_errors=False))


async def unclean_election(stage: Stage) -> None:
    """Both replicas of a partition die, the last in sync for longer; then the one that is behind
    may lead."""
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
    """Partitions move: one completes, one waits for a dead target and is cancelled."""
    stage.broker(3).kill()
    await stage.until_no_leader_is(3)
    plan: dict[TopicPartition, Any] = {TopicPartition("moved", 0): [2, 1]}
    await stage.ask(lambda admin: admin.alter_partition_reassignments(plan))
    await stage.until_assigned("moved", 0, [2, 1])
    # The API would refuse a broker that is not there.
    await stage.submit({("moved", 1): [1, 3]})
    await stage.until_assigned("moved", 1, [1, 3, 2])
    cancelled = {TopicPartition("moved", 1): None}
    await stage.ask(lambda admin: admin.alter_partition_reassignments(cancelled))
    await stage.until_assigned("moved", 1, [1, 2])
    await stage.broker(3).start()
    await stage.until_in_sync(TOPIC)


async def reassignment_end(stage: Stage) -> None:
    """Two partitions move to a broker that has nothing of them, and end there: one loses its leader
    to that, the other a follower."""
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
    """A topic is deleted while one of its brokers is down, and goes when that is back."""
    stage.broker(2).kill()
    await stage.until_no_leader_is(2)
    await stage.ask(lambda admin: admin.delete_topics([TOPIC], raise_errors=False))
    await asyncio.sleep(2)
    await stage.broker(2).start()
    await stage.until_gone(TOPIC)


async def failover(stage: Stage) -> None:
    """refold is killed, a broker dies while a stock broker is controller, refold takes over."""
    stage.refold.kill()
    await stage.refold.ended()
    stage.broker(2).kill()
    await stage.until_no_leader_is(2)
    await stage.take_over()
    await stage.broker(2).start()
    await stage.until_in_sync(TOPIC)


async def session_expiry(stage: Stage) -> None:
    """refold stands still for longer than its session, while a broker dies; then it goes on."""
    stage.refold.pause()
    stage.broker(3).kill()
    await stage.until_controller_is_not(stage.own_id)
    stage.refold.resume()
    await stage.until_controller_is(stage.own_id)
    await stage.until_no_leader_is(3)
    await stage.broker(3).start()
    await stage.until_in_sync(TOPIC)


async def topics(stage: Stage) -> None:
    """Topics are made and grow, one is asked for that is there already."""
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


# Rollbacks: the target of a reassignment has a broker that never registers, so it stays under way.


async def cancellation(stage: Stage) -> None:
    """A reassignment is cancelled with /admin/reassign_cancel: one partition is led by a replica
    that was added, the other one by an original replica."""
    await stage.submit({("moved", 0): [3, 2, NOBODY], ("moved", 1): [3, NOBODY]})
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
    """A rollback waits for a dead broker. refold is killed, takes over again, and rolls back when
    the broker is in sync."""
    await stage.make("guarded", {0: [1, 2]}, {"min.insync.replicas": "2"})
    stage.broker(2).kill()
    await stage.until_no_leader_is(2)
    await stage.submit({("guarded", 0): [3, NOBODY]})
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
    """/admin/reassign_partitions_extra asks for another target of a partition that is being
    reassigned, and for a partition that is not."""
    await stage.submit({("moved", 0): [3, NOBODY]})
    await stage.until_isr("moved", 0, {1, 2, 3})
    extra = "/admin/reassign_partitions_extra"
    await stage.submit({("moved", 0): [2, 3], ("moved", 1): [3, 2]}, extra)
    await stage.until_assigned("moved", 0, [2, 3])
    await stage.until_assigned("moved", 1, [3, 2])
    await stage.until_in_sync("moved")
    await stage.until_deleted("/admin/reassign_partitions")


async def legacy_request(stage: Stage) -> None:
    """Entries of /admin/reassign_partitions become requests: one partition moves, one stays under
    way. Two requests by hand are refused: one for the partition that is under way, one legacy
    request without an entry. What is under way is cancelled."""
    await stage.submit({("moved", 0): [3, NOBODY], ("moved", 1): [3, 1]})
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
    """The leader of a partition that is being reassigned shuts down in order. The reassignment is
    cancelled meanwhile; then the broker comes back."""
    await stage.submit({("moved", 0): [3, NOBODY]})
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
    """A broker to which a partition is being reassigned restarts while refold is paused: refold
    finds it under another broker epoch. Then the reassignment is cancelled."""
    await stage.hand_back()
    await stage.take_over(session_ms=60_000)
    await stage.submit({("moved", 0): [3, NOBODY]})
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
"""By name: what happens, and the brokers' inter.broker.protocol.version."""
