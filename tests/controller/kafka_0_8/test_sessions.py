"""Lost connections and replies, and the end of sessions: X-01 to X-03."""

import pytest

from controller.core.commands import (
    ReadChildren,
    ReadZnodes,
    SyncZnodes,
    WriteAtomically,
    WriteZnodes,
)
from controller.core.error_codes import NOT_LEADER_OR_FOLLOWER
from controller.core.events import (
    SessionConnected,
    SessionDisconnected,
    SessionExpired,
    WatchFired,
)
from controller.core.operations import Create, Delete, SetData
from controller.core.values import ANY_VERSION
from controller.kafka_0_8 import znodes
from controller.kafka_0_8.commands import IssuedByBroker
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


def lose_reply(found: Cluster08, rule: str) -> list[IssuedByBroker]:
    """The reply to the next write of broker 1 with this rule is lost. Returns the lost command,
    once it is issued."""
    lost: list[IssuedByBroker] = []

    def loses(issued: IssuedByBroker) -> bool:
        is_lost = (
            not lost
            and issued.reason.rule.startswith(rule)
            and isinstance(issued.command, (WriteZnodes, WriteAtomically))
            and any(issued in steps for run in found.brokers[1].runs for _, steps in run[-1:])
        )
        if is_lost:
            lost.append(issued)
        return is_lost

    found.loses_reply = loses
    return lost


@pytest.mark.parametrize("rule", ["S-01", "S-08", "E-06", "L-04", "Q-02", "I-02"])
def test_lost_reply_during_startup_changes_nothing(rule: str) -> None:
    found = cluster(1, 2)
    found.create_topic("t", {0: (1, 2)})
    lost = lose_reply(found, rule)
    found.start(2)
    found.start(1)
    found.run(3000)
    assert len(lost) == 1
    assert leader_of(found).startswith("1;")
    assert found.data("/brokers/topics/t/0/ISR").startswith("1,2;")
    assert found.data("/brokers/ids/1") == "host1:9092"
    assert notices(found, 1, "already_registered") == []
    assert partition(found, 1).is_leader
    request = found.produce(1, T, ["a"], -1, wait_ms=1000)
    assert error_of(found, request) == 0


@pytest.mark.parametrize("rule", ["A-01", "A-02"])
def test_lost_reply_during_a_reassignment_changes_nothing(rule: str) -> None:
    found = replicated()
    found.add_brokers(4)
    found.add(4)
    found.start(4)
    lost = lose_reply(found, rule)
    found.reassign(T, (1, 4))
    found.run(5000)
    assert len(lost) == 1
    assert found.data("/brokers/topics/t/0/replicas") == "1,4"
    assert found.data("/brokers/partitions_reassigned/t/0") is None
    assert leader_of(found) == "1;1"
    assert tuple(partition(found, 1).ar) == (1, 4)
    assert notices(found, 1, "unusable_reassignment") == []


def test_lost_reply_to_the_last_step_of_a_leader_that_gives_up() -> None:
    found = replicated()
    found.add_brokers(4)
    found.add(4)
    found.start(4)
    lost = lose_reply(found, "A-03")
    found.reassign(T, (2, 4))
    found.run(5000)
    assert len(lost) == 1
    assert found.data("/brokers/topics/t/0/replicas") == "2,4"
    assert leader_of(found).startswith("2;")
    assert T not in found.brokers[1].logs


def test_leader_that_has_given_up_unknowingly_rejects_the_waiting_requests() -> None:
    found = replicated()
    found.cut = {(1, 2): None, (1, 3): None}
    request = found.produce(1, T, ["a"], -1, wait_ms=50)
    lost = lose_reply(found, "A-03")
    found.reassign(T, (2, 3))
    found.run(1000)
    assert len(lost) == 1
    assert error_of(found, request) == NOT_LEADER_OR_FOLLOWER
    assert leader_of(found).startswith("2;")


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"many", "unreadable_znode"), (b"2;1", "not_eligible"), (b"1;1", "")],
)
def test_election_whose_reply_is_lost_ends_with_a_readable_isr_that_has_the_broker(
    content: bytes, code: str
) -> None:
    found = cluster(1, 2)
    found.create_topic("t", {0: (1, 2)})
    lost = lose_reply(found, "E-06")
    found.boot(1)
    while not lost:
        found.run(1)
    found.write(SetData("/brokers/topics/t/0/ISR", content, ANY_VERSION))
    found.run(300)
    assert partition(found, 1).is_leader == (not code)
    if code:
        assert notices(found, 1, code)
    found.write(SetData("/brokers/topics/t/0/ISR", b"1;1", ANY_VERSION))
    found.run(300)
    assert partition(found, 1).is_leader
    assert leader_of(found) == "1;1"


def test_write_whose_reply_is_lost_is_settled_by_a_read_and_not_repeated() -> None:
    found = replicated()
    found.stop(3)
    found.produce(1, T, ["a"], -1, wait_ms=6000)
    path = "/brokers/topics/t/0/ISR"
    before = found.zookeeper.find(path)
    assert before is not None
    version = before.version
    lost = lose_reply(found, "I-02")
    found.start(3)
    found.run(3000)
    assert len(lost) == 1
    assert found.data(path) == "1,2,3;1"
    after = found.zookeeper.find(path)
    assert after is not None
    assert after.version == version + 1
    parent = "/brokers/topics/t/0"
    paths = ("/brokers/epoch", f"{parent}/replicas", f"{parent}/leader", path)
    read = [SyncZnodes("/"), ReadZnodes(paths, False)]
    assert issued(found, 1, "X-03 settle writes whose reply was lost") == read
    assert partition(found, 1).is_leader


def test_election_write_is_repeated_only_if_it_did_not_happen() -> None:
    found = cluster(1)
    found.create_topic("t", {0: (1,)})
    lose_reply(found, "E-06")
    found.start(1)
    assert leader_of(found) == "1;1"
    written = [one for one in issued(found, 1, "E-06") if isinstance(one, WriteAtomically)]
    assert len(written) == 1


def test_broker_goes_on_after_a_lost_connection() -> None:
    found = replicated()
    found.lose_connection(1)
    request = found.produce(1, T, ["a"], -1, wait_ms=1000)
    assert error_of(found, request) == 0
    assert not notices(found, 1, "stepped_down")


@pytest.mark.parametrize("after_ms", range(1, 30))
def test_broker_starts_again_if_its_session_ends_during_startup(after_ms: int) -> None:
    found = cluster(1)
    found.create_topic("t", {0: (1,)})
    found.boot(1)
    found.run(after_ms)
    found.end_session(1)
    found.run(3000)
    assert leader_of(found).startswith("1;")
    assert partition(found, 1).is_leader
    assert found.data("/brokers/ids/1") == "host1:9092"


def test_nothing_is_sent_to_zookeeper_while_there_is_no_connection() -> None:
    found = replicated()
    process = found.brokers[1]
    lost = SessionDisconnected(process.session, "reset")
    assert process.apply(lost, "session", found.now_ms, []) == []
    watch = WatchFired("/brokers/state/1", "children", 9)
    assert process.apply(watch, "watches", found.now_ms, []) == []
    back = SessionConnected(process.session, 6000, "world:2181", True)
    (asked,) = process.apply(back, "session", found.now_ms, [])
    assert asked.command == ReadChildren("/brokers/state/1", True)


def test_work_of_an_ended_session_is_dropped() -> None:
    found = replicated()
    process = found.brokers[2]
    for event in (
        WatchFired("/brokers/state/2", "children", 9),
        WatchFired("/brokers/topics/t/0/leader", "deleted", 9),
        SessionExpired(process.session),
    ):
        issued_now = process.apply(event, "session", found.now_ms, [])
    assert issued_now == []
    assert partition(found, 2).leader == -1
    begun = SessionConnected(99, 6000, "world:2181", False)
    (first,) = process.apply(begun, "session", found.now_ms, [])
    assert first.reason.rule.startswith("S-01")


def test_first_broker_creates_the_paths_of_the_cluster() -> None:
    found = cluster(1)
    found.write(
        *(
            Delete(path, ANY_VERSION)
            for path in (
                "/brokers/state/1",
                "/brokers/epoch",
                *reversed(znodes.PERSISTENT),
            )
        )
    )
    found.start(1)
    assert found.data("/brokers/ids/1") == "host1:9092"
    found.create_topic("t", {0: (1,)})
    found.run(500)
    assert leader_of(found) == "1;1"


def test_registration_that_zookeeper_refuses_is_tried_again() -> None:
    found = cluster(1)
    found.write(Delete("/brokers/ids", ANY_VERSION))
    found.start(1)
    assert "-101" in notices(found, 1, "registration_refused")[0].text
    found.write(Create("/brokers/ids"))
    found.run(500)
    assert found.data("/brokers/ids/1") == "host1:9092"


def test_log_is_opened_again_if_the_outcome_of_a_truncation_was_lost_with_the_session() -> None:
    found = replicated()
    found.produce(1, T, ["a"], -1, wait_ms=1000)
    found.stop(2)
    found.brokers[2].logs[T] = ["a", "x", "y"]
    found.brokers[2].checkpoint[T] = 1
    found.boot(2)
    while not issued(found, 2, "F-01"):
        found.run(1)
    assert partition(found, 2).local.leo == 3
    process = found.brokers[2]
    process.apply(SessionExpired(process.session), "session", found.now_ms, [])
    found.stop(1)
    found.stop(3)
    found.end_session(2)
    found.run(2000)
    assert partition(found, 2).is_leader
    assert partition(found, 2).local.leo == len(found.brokers[2].logs[T])
