"""Leader election: E-01 to E-08, and the end of a leadership: L-05, L-06."""

import pytest

from controller.core.commands import StartTimer, WriteAtomically
from controller.core.error_codes import NOT_LEADER_OR_FOLLOWER
from controller.core.operations import Create, Delete, SetData
from controller.core.values import ANY_VERSION
from controller.kafka_0_8 import rules
from controller.kafka_0_8.configuration import CURRENT_RULES, FIRST_RULES, THIRD_RULES
from replay.world.inputs import WriteZnode
from replay.world.kafka_0_8.networked.cluster import NetworkedCluster
from replay.world.scheduler import SECOND
from tests.controller.kafka_0_8.clusters import (
    T,
    change_before,
    cluster,
    error_of,
    issued,
    leader_of,
    notices,
    partition,
    replicated,
)
from tests.replay.explore.kafka_0_8.small import small


def test_preferred_replica_is_elected_at_once() -> None:
    found = cluster(1, 2)
    found.create_topic("t", {0: (2, 1)})
    found.start(1, 2)
    assert leader_of(found) == "2;1"
    assert issued(found, 2, "E-02") == []


def test_replica_that_is_not_preferred_waits_for_the_election_wait_time() -> None:
    found = replicated(leader_election_wait_time_ms=700)
    found.stop(1)
    found.run(690)
    assert leader_of(found) is None
    found.run(30)
    assert leader_of(found) in ("2;2", "3;2")
    assert StartTimer("election:t:0", 700) in issued(found, 2, rules.ELECTION_WAIT)


def test_wait_of_one_partition_does_not_delay_another() -> None:
    found = cluster(1, 2, leader_election_wait_time_ms=60_000)
    found.create_topic("t", {0: (1, 2), 1: (2, 1)})
    found.start(2)
    assert leader_of(found) is None
    assert leader_of(found, ("t", 1)) == "2;1"


def test_creation_of_the_leader_znode_decides() -> None:
    found = replicated()
    found.stop(1)
    found.run(2000)
    leaders = [one for one in (2, 3) if partition(found, one).is_leader]
    assert len(leaders) == 1
    (follower,) = {2, 3} - set(leaders)
    assert partition(found, follower).leader == leaders[0]
    assert leader_of(found) == f"{leaders[0]};2"


def test_replica_outside_of_the_isr_is_not_elected() -> None:
    found = replicated()
    found.stop(3)
    found.produce(1, T, ["a"], -1, wait_ms=5000)
    assert found.data("/brokers/topics/t/0/ISR") == "1,2;1"
    found.stop(2)
    found.stop(1)
    found.start(3)
    found.run(5000)
    assert leader_of(found) is None
    assert notices(found, 3, "not_eligible")
    found.start(2)
    found.run(2000)
    assert leader_of(found) == "2;2"


def test_any_assigned_replica_is_elected_if_there_is_no_isr() -> None:
    found = cluster(1, 2)
    found.create_topic("t", {0: (1, 2)})
    found.start(2)
    found.run(1000)
    assert leader_of(found) == "2;1"
    assert found.data("/brokers/topics/t/0/ISR") == "2;1"


def test_epoch_isr_and_leader_are_one_transaction() -> None:
    found = replicated()
    (written,) = issued(found, 1, rules.WRITE_LEADERSHIP)[:1]
    assert written == WriteAtomically(
        (
            SetData("/brokers/epoch", b"1", 0),
            Create("/brokers/topics/t/0/ISR", b"1;1"),
            Create("/brokers/topics/t/0/leader", b"1;1", True),
        )
    )


def test_each_new_leader_increments_the_epoch() -> None:
    found = replicated()
    for epoch in (2, 3):
        found.stop(int(leader_of(found).split(";")[0]))
        found.run(4000)
        assert leader_of(found).endswith(f";{epoch}")
        assert found.data("/brokers/epoch") == str(epoch)
        found.start(*(one for one in (1, 2, 3) if not found.brokers[one].is_running))
        found.run(3000)


def test_leaderships_of_one_broker_have_different_epochs() -> None:
    found = cluster(1)
    found.create_topic("t", {0: (1,), 1: (1,)})
    found.start(1)
    assert sorted(leader_of(found, ("t", number)) for number in (0, 1)) == ["1;1", "1;2"]
    assert found.data("/brokers/epoch") == "2"


def test_isr_that_changed_after_the_read_prevents_the_election() -> None:
    """Broker 2 waits; meanwhile another leader removed it from the ISR and died."""
    found = replicated()
    found.stop(1)
    found.stop(3)
    found.run(400)
    found.write(SetData("/brokers/topics/t/0/ISR", b"3;2", ANY_VERSION))
    found.run(2000)
    assert leader_of(found) is None


def test_isr_that_changes_between_the_read_and_the_transaction_prevents_the_election() -> None:
    found = replicated()
    found.stop(1)
    found.stop(3)
    change_before(found, 2, "E-06", SetData("/brokers/topics/t/0/ISR", b"3;2", ANY_VERSION))
    found.run(2000)
    assert leader_of(found) is None


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/brokers/topics/t/0/ISR", b"\xff\xfe"),
        ("/brokers/topics/t/0/ISR", b";1"),
    ],
)
def test_election_is_repeated_until_its_znodes_are_readable(path: str, content: bytes) -> None:
    found = replicated()
    before = found.data(path).encode()
    found.stop(1)
    found.write(SetData(path, content, ANY_VERSION))
    found.run(3000)
    assert leader_of(found) is None
    assert path in notices(found, 2, "unreadable_znode")[0].text
    found.write(SetData(path, before, ANY_VERSION))
    found.run(2000)
    assert leader_of(found) in ("2;2", "3;2")


@pytest.mark.parametrize(
    ("path", "content"),
    [("/brokers/topics/t/0/ISR", b"8,9;1"), ("/brokers/topics/t/0/replicas", b"8,9")],
)
def test_election_is_repeated_until_an_assigned_replica_is_in_the_isr(
    path: str, content: bytes
) -> None:
    found = replicated()
    before = found.data(path).encode()
    for times in (1, 2):
        found.write(SetData(path, content, ANY_VERSION))
        found.write(Delete("/brokers/topics/t/0/leader", ANY_VERSION))
        found.run(3000)
        assert leader_of(found) is None
        assert len(notices(found, 2, "unassigned_isr")) == times
        found.write(SetData(path, before, ANY_VERSION))
        found.run(3000)
        assert leader_of(found) is not None
    notice = notices(found, 2, "unassigned_isr")[0]
    assert (notice.level, notice.subject) == ("warning", "/brokers/topics/t/0/ISR")
    replicas, isr = (
        ("[8, 9]", "[1, 2, 3]") if path.endswith("replicas") else ("[1, 2, 3]", "[8, 9]")
    )
    assert f"assigned replicas {replicas} is in the ISR {isr}" in notice.text


def test_first_rules_do_not_repeat_the_election_of_an_isr_without_an_assigned_replica() -> None:
    found = replicated(rules=FIRST_RULES)
    found.stop(1)
    found.write(SetData("/brokers/topics/t/0/ISR", b"8,9;1", ANY_VERSION))
    found.run(3000)
    assert len(notices(found, 2, "not_eligible")) == 1
    assert notices(found, 2, "unassigned_isr") == []


def test_leader_whose_znode_is_deleted_steps_down_and_is_elected_again() -> None:
    found = replicated()
    found.cut = {(1, 2): None, (1, 3): None}
    request = found.produce(1, T, ["a"], -1, wait_ms=50)
    found.write(Delete("/brokers/topics/t/0/leader", ANY_VERSION))
    found.run(200)
    assert notices(found, 1, "stepped_down")
    assert error_of(found, request) == NOT_LEADER_OR_FOLLOWER
    assert leader_of(found) == "1;2"


def test_end_of_the_session_ends_leadership_and_rejects_waiting_requests() -> None:
    found = replicated()
    found.cut = {(1, 2): None, (1, 3): None}
    request = found.produce(1, T, ["a"], -1, wait_ms=50)
    assert error_of(found, request) is None
    found.end_session(1)
    found.run(5)
    assert error_of(found, request) == NOT_LEADER_OR_FOLLOWER
    assert not partition(found, 1).is_leader


def test_twenty_leaders_have_twenty_epochs() -> None:
    found = replicated()
    seen = {}
    for _ in range(20):
        leader, epoch = leader_of(found).split(";")
        assert seen.setdefault(epoch, leader) == leader
        found.end_session(int(leader))
        found.run(1500)
    assert len(seen) == 20


def test_leader_writes_its_isr_after_another_leader_has_incremented_the_epoch() -> None:
    found = replicated()
    found.create_topic("u", {0: (2, 1)})
    found.run(1000)
    assert leader_of(found, ("u", 0)) == "2;2"
    found.stop(3)
    found.produce(1, T, ["a"], -1)
    found.run(5000)
    assert found.data("/brokers/topics/t/0/ISR") == "1,2;1"
    assert leader_of(found) == "1;1"


def test_leader_that_sees_another_leader_follows_it() -> None:
    found = replicated()
    found.cut = {(1, 2): None, (1, 3): None}
    request = found.produce(1, T, ["a"], -1, wait_ms=50)
    found.write(SetData("/brokers/topics/t/0/leader", b"2;9", ANY_VERSION))
    found.run(500)
    assert "broker 2 is the leader" in notices(found, 1, "stepped_down")[0].text
    assert error_of(found, request) == NOT_LEADER_OR_FOLLOWER
    assert (partition(found, 1).leader, partition(found, 1).epoch) == (2, 9)
    assert found.brokers[1].logs[T] == []


def test_every_change_of_the_leader_is_noticed_with_watches_that_fire_once() -> None:
    """ZooKeeper before 3.6 has no other watches."""
    path = "/brokers/topics/t/0/leader"
    changes = [WriteZnode(5_000 + epoch, path, f"2;{epoch}") for epoch in (400, 800)]
    found = NetworkedCluster(small((1, 2), brokers=2, acks=(), zookeeper="3.5"), changes)
    for epoch, seconds in ((1, 5.3), (400, 5.7), (800, 6.1)):
        while found.scheduler.now_us < seconds * SECOND:
            assert found.step()
        known = found.brokers[1].partition(T)
        assert known is not None
        assert known.epoch == epoch


def test_second_leadership_of_a_broker_is_followed_from_its_beginning() -> None:
    found = replicated()
    found.produce(1, T, ["a"], -1, wait_ms=1000)
    found.write(SetData("/brokers/topics/t/0/leader", b"1;9", ANY_VERSION))
    found.run(500)
    assert partition(found, 2).epoch == 9
    assert len(issued(found, 2, rules.FOLLOW)) > len(issued(found, 2, "X-"))


@pytest.mark.parametrize(("rules", "leader"), [(THIRD_RULES, "2;2"), (CURRENT_RULES, None)])
@pytest.mark.parametrize("restarts", [False, True])
def test_partition_whose_isr_was_deleted_has_no_leader_until_it_is_created(
    rules: int, leader: str | None, restarts: bool
) -> None:
    """E-01. A broker knows by its records, or by an earlier leader, that there was an ISR."""
    path = "/brokers/topics/t/0/ISR"
    found = replicated(rules=rules)
    if restarts:
        found.produce(1, T, ["a"], -1, wait_ms=1000)
    found.stop(1)
    if restarts:
        found.stop(2)
    found.stop(3)
    found.write(Delete(path, ANY_VERSION))
    if restarts:
        found.boot(2)
    found.run(3000)
    assert leader_of(found) == leader
    reported = notices(found, 2, "missing_isr")
    assert len(reported) == (rules == CURRENT_RULES)
    if reported:
        assert f"{path} does not exist, although the partition had a leader" in reported[0].text
        found.write(Create(path, b"2;1"))
        found.run(3000)
        assert (leader_of(found), found.data(path)) == ("2;2", "2;2")


def test_leader_whose_isr_was_deleted_reports_it_once_and_leads_when_it_is_created() -> None:
    path = "/brokers/topics/t/0/ISR"
    found = replicated()
    found.write(Delete(path, ANY_VERSION))
    found.cut = {(1, 3): None}
    found.produce(1, T, ["a"], -1, wait_ms=6000)
    assert (partition(found, 1).is_leader, found.data(path)) == (False, None)
    (reported,) = notices(found, 1, "missing_isr")
    assert (reported.level, reported.subject) == ("error", path)
    assert "create it with the replicas that have all committed records, such as 1;1" in (
        reported.text
    )
    assert notices(found, 1, "unreadable_znode") == []
    found.write(Create(path, b"1,2;1"))
    found.run(1000)
    assert (partition(found, 1).is_leader, found.data(path)) == (True, "1,2;1")
