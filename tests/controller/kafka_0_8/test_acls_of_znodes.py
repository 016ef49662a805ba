"""Znodes that the brokers may not read or write (NoAuth): S-10, S-12, I-04."""

import pytest

from controller.core.commands import Notice, ReadChildren, ReadZnodes, StartTimer
from controller.core.error_codes import NONE
from controller.core.operations import Create, SetData
from controller.core.values import ANY_VERSION
from controller.core.zookeeper_io import fetch_znodes
from controller.kafka_0_8 import fold, rules
from controller.kafka_0_8.broker import Broker
from controller.kafka_0_8.commands import BrokerCommand
from controller.kafka_0_8.configuration import FIRST_RULES, SECOND_RULES
from controller.kafka_0_8.triggers import Trigger
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

U = ("u", 0)
PARENT = "/brokers/topics/t/0"
MOVES = "/brokers/partitions_reassigned"


def errors_of(found: Cluster08, broker: int) -> list[str]:
    """The subjects of the errors that a broker logged."""
    notices = [one for one in issued(found, broker) if isinstance(one, Notice)]
    return [one.subject for one in notices if one.level == "error"]


def reads_of(found: Cluster08) -> list[BrokerCommand]:
    """The znodes that all brokers read."""
    commands = [one for broker in found.brokers for one in issued(found, broker)]
    return [one for one in commands if isinstance(one, ReadZnodes | ReadChildren)]


@pytest.mark.parametrize(
    "path",
    [
        f"{PARENT}/replicas",
        f"{PARENT}/ISR",
        f"{PARENT}/leader",
        "/brokers/topics/t",
        "/brokers/state/1",
        "/brokers/partitions_reassigned",
    ],
)
def test_denied_znode_is_reported_once_and_harms_no_other_partition(
    path: str, denied: list[str]
) -> None:
    found = cluster(1, 2, 3)
    found.create_topic("t", {0: (1, 2)})
    found.create_topic("u", {0: (1, 2)})
    found.start(1, 2)
    found.run(2000)
    denied.append(path)
    for broker in (1, 2):
        found.stop(broker)
    found.start(1, 2)
    found.run(5000)
    assert error_of(found, found.produce(1, U, ["a"], -1, wait_ms=1000)) == NONE
    assert errors_of(found, 1) == [path]
    notice = next(one for one in issued(found, 1) if isinstance(one, Notice) and path in one.text)
    assert "cannot be read (NoAuth): its ACL does not allow it" in notice.text
    assert "correct the ACL" in notice.text
    found.reassign(T, (2, 1))
    found.run(1000)
    denied.clear()
    found.run(3000)
    leader = int(leader_of(found)[0])
    assert error_of(found, found.produce(leader, T, ["a"], -1, wait_ms=1000)) == NONE
    assert (found.data(f"{PARENT}/replicas"), found.data(f"{MOVES}/t/0")) == ("2,1", None)


@pytest.mark.parametrize("path", [f"{PARENT}/replicas", f"{PARENT}/ISR", "/brokers/epoch"])
def test_election_goes_on_when_the_znode_can_be_read_again(path: str, denied: list[str]) -> None:
    found = replicated()
    denied.append(path)
    found.stop(1)
    found.run(3000)
    assert leader_of(found) is None
    assert errors_of(found, 2) == [path]
    denied.clear()
    found.run(2000)
    assert leader_of(found) == "2;2"


def test_leader_whose_znode_is_gone_steps_down_although_the_replicas_are_denied(
    denied: list[str],
) -> None:
    found = replicated()
    request = found.produce(1, T, ["a"], -1)
    denied.append(f"{PARENT}/replicas")
    found.end_session(1)
    found.run(1000)
    assert error_of(found, request) is not None
    assert error_of(found, found.produce(1, T, ["a"], 1, wait_ms=10)) != NONE


def test_denied_registration_of_a_leader_is_reported(denied: list[str]) -> None:
    found = replicated()
    denied.append("/brokers/ids/2")
    found.stop(1)
    found.run(3000)
    assert leader_of(found) == "2;2"
    assert errors_of(found, 3) == ["/brokers/ids/2"]


def test_denied_reassignment_is_reported(denied: list[str]) -> None:
    found = replicated()
    path = f"{MOVES}/t/0"
    denied.append(path)
    found.reassign(T, (1, 2))
    found.run(1000)
    assert errors_of(found, 1) == [path]
    (notice,) = notices(found, 1, "unusable_reassignment")
    assert "the partition is not reassigned: correct the ACL" in notice.text
    assert found.data(f"{PARENT}/replicas") == "1,2,3"
    denied.clear()
    found.run(500)
    assert (found.data(f"{PARENT}/replicas"), found.data(path)) == ("1,2", None)


@pytest.mark.parametrize("path", [MOVES, f"{MOVES}/t", f"{MOVES}/t/0"])
@pytest.mark.parametrize("is_earlier", [False, True], ids=["watched before", "requested before"])
def test_denied_reassignment_ends_when_it_can_be_read_again(
    path: str, is_earlier: bool, denied: list[str]
) -> None:
    """The reassignment was requested before the broker became the leader, or while the broker
    watched its path and the parent of this path."""
    found = replicated(keep_in_sync_time_ms=60_000)
    found.reassign(T, (1, 3, 2))
    found.run(1000)
    denied.append(path)
    if is_earlier:
        found.end_session(1)
    found.reassign(T, (2, 1))
    found.run(5000)
    assert found.data(f"{PARENT}/replicas") == "1,3,2"
    denied.clear()
    found.run(500)
    assert (found.data(f"{PARENT}/replicas"), found.data(f"{MOVES}/t/0")) == ("2,1", None)
    timers = [one for one in issued(found, 1, "S-12") if isinstance(one, StartTimer)]
    found.run(3000)
    assert [one for one in issued(found, 1, "S-12") if isinstance(one, StartTimer)] == timers


@pytest.mark.parametrize("path", [MOVES, f"{MOVES}/t", f"{MOVES}/t/0"])
def test_denied_reassignment_is_read_again_without_an_event_of_its_watch(
    path: str, denied: list[str]
) -> None:
    """ZooKeeper sends no event of a watch to a session that may not read the znode."""
    found = replicated()
    found.reassign(T, (1, 3, 2))
    found.run(1000)
    denied.append(path)
    found.reassign(T, (1, 2))
    found.run(1000)
    found.silent = {1: None}
    found.write(SetData(f"{MOVES}/t/0", b"2,1", ANY_VERSION))
    found.silent = {}
    denied.clear()
    found.run(500)
    assert (found.data(f"{PARENT}/replicas"), found.data(f"{MOVES}/t/0")) == ("2,1", None)


def test_broker_reads_nothing_as_long_as_all_was_read() -> None:
    found = replicated()
    found.reassign(T, (1, 3))
    found.run(5000)
    reads = reads_of(found)
    assert reads
    found.run(60_000)
    assert reads_of(found) == reads


def test_second_rules_do_not_read_a_denied_reassignment_again(denied: list[str]) -> None:
    found = replicated(rules=SECOND_RULES)
    denied.append(f"{MOVES}/t/0")
    found.reassign(T, (1, 2))
    found.run(1000)
    denied.clear()
    found.run(9000)
    assert found.data(f"{PARENT}/replicas") == "1,2,3"
    assert "correct or delete the znode" in notices(found, 1, "unusable_reassignment")[0].text


@pytest.mark.parametrize("path", [f"{PARENT}/ISR", "/brokers/epoch"])
def test_leader_that_may_not_write_the_isr_keeps_it_until_it_may(
    path: str, unwritable: list[str]
) -> None:
    found = replicated()
    unwritable.append(path)
    found.stop(3)
    waiting = found.produce(1, T, ["a"], -1)
    found.run(9000)
    assert error_of(found, waiting) is None
    assert leader_of(found) == "1;1"
    assert not notices(found, 1, "stepped_down")
    assert errors_of(found, 1) == [f"{PARENT}/ISR"]
    unwritable.clear()
    found.run(3000)
    assert found.data(f"{PARENT}/ISR") == "1,2;1"
    assert error_of(found, waiting) == NONE


def test_replica_that_may_not_join_the_isr_is_not_counted(unwritable: list[str]) -> None:
    found = replicated()
    found.stop(3)
    found.produce(1, T, ["a"], -1, wait_ms=5000)
    assert found.data(f"{PARENT}/ISR") == "1,2;1"
    unwritable.append(f"{PARENT}/ISR")
    found.start(3)
    found.run(3000)
    assert partition(found, 1).cur == (3,)
    unwritable.clear()
    found.run(1000)
    assert found.data(f"{PARENT}/ISR") == "1,2,3;1"


def test_replica_whose_assignment_is_denied_is_not_closed(denied: list[str]) -> None:
    found = replicated()
    found.produce(1, T, ["a"], -1, wait_ms=1000)
    denied.append(f"{PARENT}/replicas")
    request = b'{"request":"close-replica","topic":"t","partition":0}'
    found.write(Create("/brokers/state/2/request-0000000099", request))
    found.run(1000)
    assert found.brokers[2].logs[T] == ["a"]
    assert errors_of(found, 2) == [f"{PARENT}/replicas"]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/brokers/state/1", "the ACL of /brokers/state/1 does not allow to read it (NoAuth)"),
        ("/brokers/ids/1", "the ACL of /brokers/ids does not allow to create /brokers/ids/1 (NoA"),
    ],
)
def test_refused_registration_is_reported_once_with_the_cause(
    path: str, why: str, unwritable: list[str]
) -> None:
    found = cluster(1)
    unwritable.append(path)
    found.start(1)
    found.run(1000)
    (notice,) = notices(found, 1, "registration_refused")
    assert notice.subject == "/brokers/ids/1"
    assert why in notice.text
    assert notices(found, 1, "already_registered") == []
    unwritable.clear()
    found.run(1000)
    assert found.data("/brokers/ids/1") == "host1:9092"


def test_refused_registration_has_the_earlier_notice_with_the_first_rules(
    unwritable: list[str],
) -> None:
    found = cluster(1, rules=FIRST_RULES)
    unwritable.append("/brokers/state/1")
    found.start(1)
    found.run(1000)
    (notice,) = notices(found, 1, "already_registered")
    assert notice.text == "the id is not registered (ZooKeeper code -2); it is tried again"


def test_any_other_denied_read_ends_only_the_work_that_needs_it(
    denied: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each read of the design expects a denial: another one is added to all procedures.
    original = fold.process
    denied.append("/brokers/epoch")

    async def process(broker: Broker, trigger: Trigger) -> None:
        if broker.id == 1:
            await fetch_znodes(broker, ["/brokers/epoch"], rules.READ_ASSIGNED)
        await original(broker, trigger)

    found = cluster(1)
    monkeypatch.setattr(fold, "process", process)
    found.start(1)
    assert errors_of(found, 1) == ["Startup"]
