"""Znodes that cannot be used are reported once, until their content changes (S-10)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from controller.core.commands import WriteAtomically
from controller.core.events import ZnodesWritten
from controller.core.operations import NO_AUTH, Create, Delete, SetData, WriteOperation
from controller.core.values import ANY_VERSION
from controller.kafka_0_8 import znodes
from controller.kafka_0_8.znodes import StateChange
from replay.world.kafka_0_8 import cluster as cluster_08
from replay.world.kafka_0_8.cluster import Cluster08
from replay.world.outcomes import carry_out, without_reply
from tests.controller.kafka_0_8.clusters import cluster, notices, replicated

REPLICAS = "/brokers/topics/t/0/replicas"
ISR = "/brokers/topics/t/0/ISR"
LEADER = "/brokers/topics/t/0/leader"
EPOCH = "/brokers/epoch"
REFUSED = "election_refused"
MOVES = "/brokers/partitions_reassigned/t"


def reported(found: Cluster08, broker: int, path: str, code: str = "unreadable_znode") -> int:
    """How often a broker has reported a subject in its present run."""
    return sum(one.subject == path for one in notices(found, broker, code))


@contextmanager
def one_more_report(
    found: Cluster08, broker: int, path: str, code: str = "unreadable_znode"
) -> Iterator[None]:
    """The writes of the block are reported once, however much time passes."""
    before = reported(found, broker, path, code)
    yield
    found.run(5000)
    assert reported(found, broker, path, code) == before + 1


def change(found: Cluster08, path: str, content: bytes) -> None:
    """Change a znode, and let some time pass."""
    found.write(SetData(path, content, ANY_VERSION))
    found.run(1000)


@pytest.mark.parametrize("path", [ISR, REPLICAS])
def test_content_that_prevents_an_election_is_reported_once_until_it_changes(path: str) -> None:
    found = replicated()
    usable = found.data(path).encode()
    found.stop(1)
    found.stop(3)
    with one_more_report(found, 2, path):
        change(found, path, b"nobody")
    with one_more_report(found, 2, path):
        change(found, path, b"everyone")
    change(found, path, usable)
    found.run(1000)
    assert found.data(LEADER).startswith("2;")
    found.write(Delete(LEADER, ANY_VERSION), SetData(path, b"everyone", ANY_VERSION))
    found.run(5000)
    assert reported(found, 2, path) == 3


def test_unreadable_epoch_is_reported_once_for_each_time_it_is_restored() -> None:
    found = replicated()
    found.stop(1)
    found.stop(3)
    for epoch in (2, 3):
        with one_more_report(found, 2, EPOCH, "epoch_restored"):
            found.write(SetData(EPOCH, b"nobody", ANY_VERSION))
            if epoch == 3:
                found.write(Delete(LEADER, ANY_VERSION))
        assert found.data(LEADER) == f"2;{epoch}"


def test_partition_created_again_with_the_same_content_is_reported_again() -> None:
    found = cluster(1)
    found.start(1)
    start = znodes.write_state_change(StateChange("start-replica", "u", 0))
    for _ in range(2):
        with one_more_report(found, 1, "/brokers/topics/u/0/replicas"):
            found.write(
                Create("/brokers/topics/u"),
                Create("/brokers/topics/u/0"),
                Create("/brokers/topics/u/0/replicas", b""),
                Create("/brokers/state/1/request-0", start),
            )
        found.delete_topic("u")
        found.run(1000)


def test_unreadable_leader_is_reported_once_until_it_is_deleted() -> None:
    found = replicated()
    found.stop(1)
    for _ in range(2):
        with one_more_report(found, 2, LEADER):
            found.write(Create(LEADER, b"nobody"))
            found.run(1000)
            found.lose_connection(2)
            change(found, LEADER, b"nobody")
        found.write(Delete(LEADER, ANY_VERSION))
        found.run(1000)
        found.write(Delete(LEADER, ANY_VERSION))


def test_unreadable_leader_is_reported_again_if_it_is_created_again_during_the_election_wait() -> (
    None
):
    found = replicated()
    found.stop(1)
    for _ in range(2):
        with one_more_report(found, 2, LEADER):
            found.write(Create(LEADER, b"nobody"))
        found.write(Delete(LEADER, ANY_VERSION))
        found.run(100)


def test_unreadable_address_is_reported_once_until_it_changes() -> None:
    found = replicated()
    found.stop(2)
    change(found, "/brokers/ids/1", b"nowhere")
    found.start(2)
    found.run(5000)
    assert reported(found, 2, "/brokers/ids/1") == 1
    with one_more_report(found, 2, "/brokers/ids/1"):
        change(found, "/brokers/ids/1", b"")
    for _ in range(2):
        found.write(Delete("/brokers/ids/1", ANY_VERSION))
        found.run(1000)
        with one_more_report(found, 2, "/brokers/ids/1"):
            found.write(Create("/brokers/ids/1", b""))


def test_child_of_the_queue_that_is_no_request_is_reported_once_until_it_is_deleted() -> None:
    found = replicated()
    for _ in range(2):
        with one_more_report(found, 3, "/brokers/state/3/hello"):
            found.write(Create("/brokers/state/3/hello"))
            found.run(1000)
            found.create_topic("u", {0: (3,)})
            found.run(1000)
            found.delete_topic("u")
        found.write(Delete("/brokers/state/3/hello", ANY_VERSION))
        found.run(1000)
    (text,) = {one.text for one in notices(found, 3, "unreadable_znode")}
    assert text == "/brokers/state/3/hello is not named request-NNNNNNNNNN; skipped"
    assert [len(notices(found, one, "unreadable_znode")) for one in (1, 2)] == [0, 0]


def test_child_of_a_topic_that_is_no_partition_is_reported_once_in_all_sessions() -> None:
    found = cluster(1)
    found.create_topic("t", {0: (1,)})
    found.write(Create("/brokers/topics/t/first"))
    found.start(1)
    found.end_session(1)
    found.run(1000)
    assert reported(found, 1, "/brokers/topics/t/first") == 1


def test_reassignment_that_is_not_of_a_partition_is_reported_once_by_the_leader() -> None:
    found = replicated()
    found.create_topic("t2", {0: (2, 1)})
    found.run(1000)
    parent: list[WriteOperation] = [Create(MOVES)]
    for _ in range(2):
        with one_more_report(found, 1, f"{MOVES}/first"):
            found.write(*parent, Create(f"{MOVES}/first", b"1"))
            found.run(1000)
            found.write(Create("/brokers/partitions_reassigned/other"))
            found.run(1000)
            found.write(Delete("/brokers/partitions_reassigned/other", ANY_VERSION))
        found.write(Delete(f"{MOVES}/first", ANY_VERSION))
        found.run(1000)
        parent = []
    assert reported(found, 2, f"{MOVES}/first") == 0


def test_unusable_reassignment_is_reported_once_until_it_changes() -> None:
    found = replicated()
    code, path = "unusable_reassignment", f"{MOVES}/0"
    parent: list[WriteOperation] = [Create(MOVES)]
    for _ in range(2):
        with one_more_report(found, 1, path, code):
            found.write(*parent, Create(path, b"1,9"))
            found.run(1000)
            found.write(Create(f"{MOVES}/7", b"1"))
            found.run(1000)
            found.write(Delete(f"{MOVES}/7", ANY_VERSION))
        found.write(Delete(path, ANY_VERSION))
        found.run(1000)
        parent = []
    found.write(Create(path, b"1,9"))
    found.run(1000)
    found.add_brokers(9)
    with one_more_report(found, 1, path, code):
        found.write(SetData(path, b"", ANY_VERSION), Delete(LEADER, ANY_VERSION))


def test_refused_step_of_a_reassignment_is_reported_once_until_it_succeeds() -> None:
    found = replicated()
    found.add_brokers(4)
    found.add(4)
    code, path = "unusable_reassignment", f"{MOVES}/0"
    with one_more_report(found, 1, path, code):
        found.write(SetData(REPLICAS, b"1,2,3", ANY_VERSION))
        found.reassign(("t", 0), (1, 2, 3, 4))
    assert found.data(REPLICAS) == "1,2,3,4"
    with one_more_report(found, 1, path, code):
        found.write(SetData(REPLICAS, b"1,2,3,4", ANY_VERSION))
        found.start(4)
    assert found.data(path) is None
    assert found.data(ISR) == "1,2,3,4;1"


def test_leader_that_is_not_in_the_isr_reports_that_once_until_it_is() -> None:
    found = cluster(1, 2)
    found.create_topic("t", {0: (1, 2)})
    found.start(1)
    name = ("t", 0)
    for content in (b"2;1", b"2,3;1", b"1;1", b"2,3;1"):
        # As after a lost reply, the broker has created the leader znode, and reads the ISR.
        found.brokers[1].fold.broker.partitions[name].forget_leader()
        found.write(SetData(ISR, content, ANY_VERSION))
        if content == b"1;1":
            change(found, LEADER, b"1;1")
            assert found.brokers[1].fold.broker.partitions[name].is_leader
        else:
            with one_more_report(found, 1, "t-0", "not_eligible"):
                change(found, LEADER, b"1;1")


def test_refused_election_is_reported_once_until_it_succeeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ZooKeeper does not allow the writes of an election."""

    def refuse(world: Any, session: int, id: Any, command: Any, now_ms: int) -> list[Any]:
        if isinstance(command, WriteAtomically):
            return [without_reply(ZnodesWritten(id, 0, [0] * 3, [0] * 3), NO_AUTH)]
        return list(carry_out(world, session, id, command, now_ms))

    found = cluster(1)
    found.create_topic("t", {0: (1,)})
    found.start(1)
    for _ in range(2):
        with monkeypatch.context() as patched, one_more_report(found, 1, LEADER, REFUSED):
            patched.setattr(cluster_08, "carry_out", refuse)
            found.write(Delete(LEADER, ANY_VERSION))
            found.run(5000)
        found.run(1000)
        assert found.data(LEADER).startswith("1;")
    assert "ZooKeeper refused the election (codes" in notices(found, 1, REFUSED)[0].text
