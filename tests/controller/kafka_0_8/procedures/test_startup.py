"""brokerStartup(): S-01 to S-10."""

from controller.core.commands import Notice, ReadChildren, ReadStats, WriteAtomically, WriteZnodes
from controller.core.operations import Check, Create, Delete
from controller.core.values import ANY_VERSION
from controller.kafka_0_8 import rules
from controller.kafka_0_8.commands import OpenLog
from replay.world.kafka_0_8.cluster import Cluster08
from tests.controller.kafka_0_8.clusters import (
    cluster,
    issued,
    leader_of,
    notices,
    partition,
    replicated,
)


def steps_of_startup(found: Cluster08, broker: int, since: int = 0) -> tuple[list[str], list[str]]:
    """The rules of the lines of brokerStartup(), in the order of their first commands after an
    event; and in the order of the design."""
    lines = (
        rules.STATE_PATH,
        rules.WATCH_STATE,
        rules.SESSION_LISTENER,
        rules.DRAIN,
        rules.READ_ASSIGNED,
        rules.WATCH_LEADER,
        rules.START_REPLICA,
        rules.REGISTER,
    )
    history = found.brokers[broker].history[since:]
    seen = [one.reason.rule for _, part in history for one in part]
    return sorted(lines, key=seen.index), list(lines)


def test_lines_of_startup_are_in_the_order_of_the_design() -> None:
    found = replicated()
    found.stop(1)
    found.start(1)
    order, lines = steps_of_startup(found, 1)
    assert order == lines


def test_registration_follows_the_start_of_every_replica() -> None:
    """The queue is empty at the second start, so that no request starts a replica."""
    found = cluster(1)
    found.create_topic("t", {0: (1,), 1: (1,)})
    found.start(1)
    found.stop(1)
    assert found.children("/brokers/state/1") == []
    found.start(1)
    commands = issued(found, 1)
    opened = [place for place, one in enumerate(commands) if isinstance(one, OpenLog)]
    create = Create("/brokers/ids/1", b"host1:9092", True)
    registered = commands.index(WriteAtomically((Check("/brokers/state/1", -1), create)))
    assert len(opened) == 2
    assert max(opened) < registered
    assert found.data("/brokers/ids/1") == "host1:9092"


def test_state_path_is_created_if_it_does_not_exist() -> None:
    found = cluster(1)
    found.remove_brokers(1)
    assert found.children("/brokers/state") == []
    found.start(1)
    assert found.children("/brokers/state") == ["1"]
    assert WriteZnodes((Create("/brokers/state/1"),), None) in issued(found, 1, "S-01")


def test_broker_that_is_removed_before_it_registers_starts_again() -> None:
    found = cluster(1)
    found.write(Create("/brokers/ids/1", b"earlier:9092"))
    found.start(1)
    found.run(50)
    found.write(Delete("/brokers/state/1", ANY_VERSION), Delete("/brokers/ids/1", ANY_VERSION))
    found.run(1000)
    assert found.data("/brokers/ids/1") == "host1:9092"
    found.create_topic("t", {0: (1,)})
    found.run(1000)
    assert found.data("/brokers/topics/t/0/leader") == "1;1"


def test_state_path_and_leaders_are_watched() -> None:
    found = cluster(1, 2, 3)
    found.create_topic("t", {0: (1, 2, 3), 1: (3, 2, 1)})
    found.start(1, 2, 3)
    for broker in (1, 2, 3):
        assert ReadChildren(f"/brokers/state/{broker}", True) in issued(found, broker, "S-02")
        for number in (0, 1):
            watched = ReadStats((f"/brokers/topics/t/{number}/leader",), True)
            assert watched in issued(found, broker, "S-06")


def test_requests_in_the_queue_are_carried_out_before_the_assigned_replicas_are_read() -> None:
    found = replicated()
    found.stop(3)
    found.delete_topic("t")
    found.create_topic("u", {0: (3,)})
    assert len(found.children("/brokers/state/3")) == 2
    found.start(3)
    commands = issued(found, 3)
    deleted = [one for one in issued(found, 3, "Q-02") if isinstance(one, WriteZnodes)]
    carried_out = [*issued(found, 3, "Q-06"), *issued(found, 3, "R-02"), *deleted]
    assert len(carried_out) == 4
    read = commands.index(issued(found, 3, "S-05")[0])
    assert max(map(commands.index, carried_out)) < read
    assert found.children("/brokers/state/3") == []
    assert list(found.brokers[3].logs) == [("u", 0)]


def test_only_assigned_replicas_are_started() -> None:
    found = cluster(1, 2)
    found.create_topic("t", {0: (1,)})
    found.create_topic("u", {0: (2,), 1: (2,)})
    found.start(2)
    found.stop(2)
    assert found.children("/brokers/state/2") == []
    found.start(2)
    assert list(found.brokers[2].fold.broker.partitions) == [("u", 0), ("u", 1)]
    commands = issued(found, 2)
    read = [path for one in commands for path in getattr(one, "paths", ())]
    assert [one for one in read if one.startswith("/brokers/topics/t/0/")] == [
        "/brokers/topics/t/0/replicas"
    ]
    assert [one for one in commands if isinstance(one, Notice) and one.level != "info"] == []


def test_registration_of_an_earlier_session_is_waited_for() -> None:
    found = replicated()
    found.stop(1, session_ends=False)
    old = found.brokers[1].session
    found.start(1)
    found.run(1000)
    assert len(notices(found, 1, "already_registered")) == 1
    found.zookeeper.end_session(old)
    found.run(1000)
    assert found.data("/brokers/ids/1") == "host1:9092"
    stat = found.zookeeper.find("/brokers/ids/1")
    assert stat is not None
    assert stat.owner == found.brokers[1].session


def test_leader_znode_of_an_earlier_session_is_not_followed() -> None:
    found = replicated()
    found.stop(1, session_ends=False)
    old = found.brokers[1].session
    found.start(1)
    found.run(200)
    assert notices(found, 1, "old_leader_znode")
    assert not partition(found, 1).is_leader
    found.zookeeper.end_session(old)
    found.run(1500)
    assert leader_of(found) == "1;2"
    assert partition(found, 1).epoch == 2


def test_session_listener_is_announced() -> None:
    found = cluster(1)
    found.start(1)
    (notice,) = issued(found, 1, "S-03")
    assert isinstance(notice, Notice)
    assert notice.code == "session_listener"


def test_new_session_starts_the_broker_again() -> None:
    found = replicated()
    since = len(found.brokers[1].history)
    found.end_session(1)
    found.run(2000)
    order, lines = steps_of_startup(found, 1, since)
    assert order == lines
    assert found.data("/brokers/ids/1") == "host1:9092"
    assert len(issued(found, 1, "S-01")) == 2
    assert sorted(found.data("/brokers/topics/t/0/ISR").split(";")[0].split(",")) == ["1", "2", "3"]
