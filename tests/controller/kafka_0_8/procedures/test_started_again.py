"""A replica whose broker starts again while its leader writes the ISR with it: S-11, I-05."""

from typing import Any

import pytest

from controller.core.commands import WriteZnodes
from controller.core.error_codes import NONE
from controller.core.events import ZnodesWritten
from controller.core.operations import NO_NODE, Create, Delete, SetData
from controller.core.values import ANY_VERSION
from controller.kafka_0_8.commands import SendFetch, run_of
from controller.kafka_0_8.configuration import CURRENT_RULES, SECOND_RULES, THIRD_RULES
from controller.kafka_0_8.triggers import ElectionWaitOver, IsrChange, StatePathChanged
from replay.world.kafka_0_8 import cluster as world
from replay.world.kafka_0_8.cluster import Cluster08
from tests.controller.kafka_0_8.clusters import (
    T,
    cluster,
    error_of,
    issued,
    leader_of,
    notices,
    partition,
    replicated,
)

ISR = "/brokers/topics/t/0/ISR"


def busy_leader(**settings: int) -> Cluster08:
    """Broker 1 leads t-0 alone with one record, and elects leaders of 100 partitions. Broker 2 has
    fetched the record, and waits until broker 1 writes the ISR."""
    found = cluster(1, 2, 3, **settings)
    found.create_topic("t", {0: (1, 2)})
    found.create_topic("x", {one: (3, 1) for one in range(100)})
    found.start(1, 3)
    found.run(3000)
    request = found.produce(1, T, ["committed"], -1, wait_ms=50)
    assert (error_of(found, request), found.data(ISR)) == (NONE, "1;1")
    found.stop(3)
    found.run(505)
    found.boot(2)
    broker = found.brokers[1].fold.broker
    while IsrChange(*T) not in broker.triggers:
        found.run(1)
    assert any(isinstance(one, ElectionWaitOver) for one in broker.triggers)
    return found


def restart_unseen(found: Cluster08) -> None:
    """Broker 2 starts again, truncates its log, and cannot reach broker 1."""
    found.cut = {(1, 2): None}
    found.stop(2)
    found.boot(2)
    while found.brokers[2].logs[T]:
        found.run(1)
    assert found.data(ISR) == "1;1"


def lead_with_broker_2(found: Cluster08) -> None:
    """Broker 1 has written the ISR, and stops."""
    found.run(3000)
    found.stop(1)
    found.run(3000)


@pytest.mark.parametrize(
    ("rules", "isr", "leader"), [(SECOND_RULES, "1,2;1", True), (CURRENT_RULES, "1;1", False)]
)
def test_replica_that_was_started_again_does_not_join_before_its_next_fetch(
    rules: int, isr: str, leader: bool
) -> None:
    """With the rules before I-05, it joins, leads and has lost the committed record."""
    found = busy_leader(rules=rules)
    restart_unseen(found)
    while IsrChange(*T) in found.brokers[1].fold.broker.triggers:
        found.run(1)
    found.run(20)
    assert found.data(ISR) == isr
    assert len(notices(found, 1, "does_not_join")) == (rules == CURRENT_RULES)
    lead_with_broker_2(found)
    assert (leader_of(found) is not None) == leader
    found.cut.clear()
    found.start(1)
    found.run(3000)
    assert found.brokers[1].logs[T] == ([] if leader else ["committed"])
    assert found.brokers[2].logs[T] == found.brokers[1].logs[T]


def test_replica_that_was_started_again_joins_when_it_has_caught_up() -> None:
    found = busy_leader()
    restart_unseen(found)
    found.run(1000)
    assert partition(found, 1).cur == (2,)
    found.cut.clear()
    found.run(3000)
    assert found.data(ISR) == "1,2;1"
    assert found.brokers[2].logs[T] == ["committed"]


def test_each_start_and_each_session_has_another_run() -> None:
    found = replicated()
    runs = []
    for begin in (lambda: None, lambda: found.end_session(2), lambda: restart(found)):
        begin()
        found.run(2000)
        runs.append(found.brokers[2].fold.broker.run)
        fetches = [one for one in issued(found, 2) if isinstance(one, SendFetch)]
        assert run_of(fetches[-1]) == runs[-1]
    assert runs == [1, 2, 3]
    assert found.data("/brokers/state/2") == str(found.brokers[2].session)


def restart(found: Cluster08) -> None:
    found.stop(2)
    found.start(2)


def test_start_whose_reply_was_lost_is_noted_once() -> None:
    found = cluster(1)
    lost = iter([True])
    found.loses_reply = lambda one: one.reason.rule.startswith("S-11") and next(lost, False)
    found.start(1)
    stat = found.zookeeper.find("/brokers/state/1")
    assert stat is not None
    assert found.brokers[1].fold.broker.run == stat.version == 1


def test_another_replica_leaves_although_one_does_not_join() -> None:
    found = replicated()
    found.stop(3)
    found.produce(1, T, ["a"], -1, wait_ms=5000)
    assert found.data(ISR) == "1,2;1"
    found.write(Delete("/brokers/state/3", ANY_VERSION))
    found.stop(2)
    leader = partition(found, 1)
    leader.ar[3].leo = leader.local.leo
    found.produce(1, T, ["b"], 1, wait_ms=10)
    leader.ar[3].leo = leader.local.leo
    found.run(4000)
    assert found.data(ISR) == "1;1"
    (notice,) = notices(found, 1, "does_not_join")
    assert (notice.level, notice.subject) == ("error", "t-0")
    assert "/brokers/state/3 cannot be checked (NoNode)" in notice.text


def test_broker_that_may_not_note_its_start_does_not_start_until_it_may(
    unwritable_alone: list[str],
) -> None:
    found = cluster(1)
    found.create_topic("t", {0: (1,)})
    unwritable_alone.append("/brokers/state/1")
    found.start(1)
    found.run(3000)
    (notice,) = notices(found, 1, "start_refused")
    assert "the ACL of /brokers/state/1 does not allow to write it (NoAuth)" in notice.text
    assert (notice.level, found.data("/brokers/ids/1"), leader_of(found)) == ("error", None, None)
    unwritable_alone.clear()
    found.run(1000)
    assert (found.data("/brokers/ids/1"), leader_of(found)) == ("host1:9092", "1;1")


def test_replica_whose_queue_may_not_be_read_by_the_leader_does_not_join(
    unwritable: list[str],
) -> None:
    path = "/brokers/state/3"
    found = replicated()
    found.stop(3)
    found.produce(1, T, ["a"], -1, wait_ms=5000)
    unwritable.append(path)
    found.start(3)
    found.run(3000)
    assert found.data(ISR) == "1,2;1"
    (notice,) = notices(found, 1, "does_not_join")
    assert f"{path} cannot be checked (NoAuth): correct the znode or its ACL" in notice.text
    unwritable.clear()
    found.run(1000)
    assert found.data(ISR) == "1,2,3;1"


def without_3(**settings: int) -> Cluster08:
    """Broker 3 has left the ISR because it could not reach the leader."""
    found = replicated(**settings)
    found.cut = {(1, 3): None}
    found.produce(1, T, ["a"], -1, wait_ms=5000)
    assert found.data(ISR) == "1,2;1"
    return found


@pytest.mark.parametrize(("rules", "isr"), [(THIRD_RULES, "1,2;1"), (CURRENT_RULES, "1,2,3;1")])
def test_replica_joins_after_another_client_wrote_the_state_path_of_its_broker(
    rules: int, isr: str
) -> None:
    """S-13, D-08. With the rules before, it does not join until its broker is restarted."""
    found = without_3(rules=rules)
    before = found.data("/brokers/state/3")
    assert before is not None
    found.write(SetData("/brokers/state/3", b"garbage", ANY_VERSION))
    found.write(SetData("/brokers/state/3", before.encode(), ANY_VERSION))
    found.cut.clear()
    found.run(3000)
    assert found.data(ISR) == isr
    written = notices(found, 3, "state_path_changed")
    assert len(written) == (rules == CURRENT_RULES)
    if written:
        assert (written[0].level, written[0].subject) == ("warning", "/brokers/state/3")
        assert f"another client has written or deleted this znode (content: '{before}')" in (
            written[0].text
        )
        assert found.brokers[3].fold.broker.run == 4


def test_replica_joins_after_the_queue_of_its_broker_was_deleted_and_added() -> None:
    """S-13, D-08."""
    found = without_3()
    found.write(Delete("/brokers/state/3", ANY_VERSION))
    found.cut.clear()
    found.run(2000)
    assert found.data(ISR) == "1,2;1"
    (refused,) = notices(found, 3, "note_refused")
    assert "the queue /brokers/state/3 was deleted: run add-brokers 3" in refused.text
    found.produce(1, T, ["b"], 1, wait_ms=1000)
    assert found.brokers[3].logs[T] == ["a", "b"]
    found.write(Create("/brokers/state/3"))
    found.run(3000)
    assert found.data(ISR) == "1,2,3;1"
    found.create_topic("u", {0: (3,)})
    found.run(3000)
    assert leader_of(found, ("u", 0)) is not None


def test_two_partitions_have_the_state_path_written_again_once() -> None:
    found = cluster(1, 2, 3)
    found.create_topic("t", {0: (1, 3), 1: (2, 3)})
    found.start(1, 2, 3)
    found.run(1500)
    found.cut = {(1, 3): None, (2, 3): None}
    found.produce(1, T, ["a"], -1, wait_ms=1)
    found.produce(2, ("t", 1), ["a"], -1, wait_ms=5000)
    found.write(SetData("/brokers/state/3", b"garbage", ANY_VERSION))
    found.cut.clear()
    found.run(3000)
    assert (found.data(ISR), found.data("/brokers/topics/t/1/ISR")) == ("1,3;1", "2,3;2")
    assert len(notices(found, 3, "state_path_changed")) == 1
    found.brokers[3].fold.broker.enqueue(StatePathChanged())
    found.run(1000)
    assert len(notices(found, 3, "state_path_changed")) == 1


def test_broker_whose_chroot_does_not_exist_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # The simulated ZooKeeper has no chroot that could be missing.
    original = world.carry_out

    def carry_out(zookeeper: Any, session: int, id: Any, command: Any, now_ms: int) -> list[Any]:
        if isinstance(command, WriteZnodes):
            count = len(command.operations)
            return [ZnodesWritten(id, 0, [NO_NODE] * count, [-1] * count)]
        return list(original(zookeeper, session, id, command, now_ms))

    monkeypatch.setattr(world, "carry_out", carry_out)
    found = cluster(1)
    found.start(1)
    (notice,) = notices(found, 1, "start_refused")
    assert "/brokers/state/1 cannot be created (NoNode): create the chroot of" in notice.text
