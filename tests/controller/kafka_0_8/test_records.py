"""Produce, commit and fetch: D-01 to D-07, F-01 to F-05, R-02 and R-05."""

import pytest

from controller.core.error_codes import (
    INELIGIBLE_REPLICA,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from controller.core.events import SessionExpired
from controller.core.operations import SetData
from controller.core.values import ANY_VERSION
from controller.kafka_0_8.commands import (
    AppendRecords,
    RespondFetch,
    RespondProduce,
    SendFetch,
    TruncateLog,
    WriteCheckpoint,
)
from controller.kafka_0_8.events import (
    FetchReceived,
    FetchResponded,
    ProduceReceived,
    RecordsAppended,
)
from controller.kafka_0_8.fold import BrokerFold
from controller.kafka_0_8.triggers import LeaderChanged
from replay.world.kafka_0_8.cluster import Cluster08
from tests.controller.kafka_0_8.clusters import (
    T,
    cluster,
    error_of,
    issued,
    notices,
    partition,
    replicated,
)


def test_request_with_acks_all_is_answered_when_every_member_of_the_isr_has_it() -> None:
    found = replicated()
    found.cut = {(1, 3): None}
    request = found.produce(1, T, ["a"], -1, wait_ms=500)
    assert error_of(found, request) is None
    assert len(partition(found, 1).commit_queue) == 1
    assert found.brokers[2].logs[T] == ["a"]
    found.cut = {}
    found.run(1500)
    assert error_of(found, request) == NONE
    assert partition(found, 1).local.hw == 1


def test_requests_are_committed_in_order() -> None:
    found = replicated()
    found.cut = {(1, 2): None}
    requests = [found.produce(1, T, [name], -1) for name in "abc"]
    found.run(200)
    assert [one.request for one in partition(found, 1).commit_queue] == requests
    found.cut = {}
    found.run(1500)
    assert [found.responses[one][0].offset for one in requests] == [1, 2, 3]


def test_request_is_committed_before_a_later_one() -> None:
    """Broker 2 fetches one of three records, then the others."""
    found = replicated()
    found.cut = {(1, 2): None}
    requests = [found.produce(1, T, [name], -1, wait_ms=200) for name in "abc"]
    fetched = FetchReceived(999, 2, *T, 1, 1)
    assert answered(found, fetched) == [RespondProduce(requests[0], NONE, 1, 1)]
    assert [one.request for one in partition(found, 1).commit_queue] == requests[1:]
    fetched = FetchReceived(999, 2, *T, 3, 1)
    later = [
        RespondProduce(one, NONE, end, 1) for one, end in zip(requests[1:], (2, 3), strict=True)
    ]
    assert answered(found, fetched) == later
    assert list(partition(found, 1).commit_queue) == []


def answered(found: Cluster08, fetch: FetchReceived) -> list[RespondProduce]:
    """The produce requests that the leader responds to when a replica fetches."""
    issued_now = found.brokers[1].apply(fetch, "replica", found.now_ms, [])
    return [one.command for one in issued_now if isinstance(one.command, RespondProduce)]


def test_request_with_acks_1_is_answered_after_the_append() -> None:
    found = replicated()
    found.cut = {(1, 2): None, (1, 3): None}
    request = found.produce(1, T, ["a"], 1, wait_ms=10)
    assert error_of(found, request) == NONE
    assert partition(found, 1).local.hw == 0


def test_request_with_acks_0_is_not_answered() -> None:
    found = replicated()
    request = found.produce(1, T, ["a"], 0, wait_ms=2000)
    assert error_of(found, request) is None
    assert found.brokers[2].logs[T] == ["a"]


def test_rejected_request_with_acks_0_is_not_answered() -> None:
    found = replicated()
    assert error_of(found, found.produce(2, T, ["a"], 0, wait_ms=100)) is None


@pytest.mark.parametrize(("acks", "errors"), [(0, []), (1, [NOT_LEADER_OR_FOLLOWER])])
def test_records_that_are_appended_after_the_leadership_are_rejected(
    acks: int, errors: list[int]
) -> None:
    found = replicated()
    process = found.brokers[1]
    sent = process.apply(ProduceReceived(900, *T, 1, acks), "client", found.now_ms, ["a"])
    (append,) = (one.id for one in sent if isinstance(one.command, AppendRecords))
    process.apply(SessionExpired(process.session), "zookeeper", found.now_ms, [])
    answers = process.apply(RecordsAppended(append, 1), "log:t-0", found.now_ms, [])
    assert [
        one.command.error for one in answers if isinstance(one.command, RespondProduce)
    ] == errors


def test_follower_rejects_produce_requests_and_names_the_leader() -> None:
    found = replicated()
    request = found.produce(2, T, ["a"], 1, wait_ms=10)
    response, _ = found.responses[request]
    assert (response.error, response.leader) == (NOT_LEADER_OR_FOLLOWER, 1)
    assert found.consume(2, T, 0)[0] == NOT_LEADER_OR_FOLLOWER


def test_consumer_reads_up_to_the_high_watermark() -> None:
    found = replicated()
    found.produce(1, T, ["a"], -1, wait_ms=1000)
    found.cut = {(1, 2): None}
    found.produce(1, T, ["b"], 1, wait_ms=1000)
    assert found.consume(1, T, 0) == (NONE, ["a"])
    assert found.consume(1, T, 1) == (NONE, [])
    assert found.consume(1, T, 2) == (NONE, [])
    assert found.consume(1, T, 3)[0] == OFFSET_OUT_OF_RANGE


def respond(found: Cluster08, request: FetchReceived) -> RespondFetch:
    """The leader's response to a fetch request."""
    issued_now = found.brokers[1].apply(request, "replica", found.now_ms, [])
    (response,) = (one.command for one in issued_now if isinstance(one.command, RespondFetch))
    return response


@pytest.mark.parametrize(
    ("replica", "offset", "epoch", "error"),
    [
        (2, 1, 1, NONE),
        (2, 1, 7, NOT_LEADER_OR_FOLLOWER),
        (2, 9, 1, OFFSET_OUT_OF_RANGE),
        (9, 0, 1, UNKNOWN_TOPIC_OR_PARTITION),
        (1, 0, 1, UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_fetch_of_a_replica_is_checked(replica: int, offset: int, epoch: int, error: int) -> None:
    found = replicated()
    found.produce(1, T, ["a"], -1, wait_ms=1000)
    request = FetchReceived(999, replica, *T, offset, epoch)
    assert respond(found, request).error == error


def test_fetch_of_an_earlier_epoch_does_not_move_the_high_watermark() -> None:
    found = replicated()
    found.cut = {(1, 2): None, (1, 3): None}
    found.produce(1, T, ["a"], 1, wait_ms=20)
    for replica in (2, 3):
        respond(found, FetchReceived(999, replica, *T, 1, 0))
    assert partition(found, 1).local.hw == 0
    for replica in (2, 3):
        respond(found, FetchReceived(999, replica, *T, 1, 1))
    assert partition(found, 1).local.hw == 1


def stored_again(found: Cluster08) -> None:
    """A client writes the replicas znode, with the content that it has."""
    found.write(SetData("/brokers/topics/t/0/replicas", b"1,2,3", ANY_VERSION))


def test_fetch_of_the_deleted_log_of_a_replica_that_was_added_again_does_not_count() -> None:
    found = replicated()
    found.produce(1, T, ["a", "b"], -1, wait_ms=1000)
    before = partition(found, 1).replicas_version
    for target in ((1, 2), (1, 2, 3)):
        found.reassign(T, target)
        found.run(3000)
    leader = partition(found, 1)
    assert (leader.epoch, leader.isr) == (1, (1, 2, 3))
    leader.isr, leader.ar[3].leo = (1, 2), 0
    late = FetchReceived(999, 3, *T, 2, 1, before)
    assert respond(found, late).error == INELIGIBLE_REPLICA
    assert leader.ar[3].leo == 0
    now = FetchReceived(999, 3, *T, 2, 1, leader.replicas_version)
    assert respond(found, now).error == NONE
    assert leader.ar[3].leo == 2


def test_leader_that_reads_the_assignment_again_takes_no_earlier_fetch() -> None:
    """After a lost reply it does not know whether replicas were removed and added again."""
    found = replicated()
    found.produce(1, T, ["a"], -1, wait_ms=1000)
    before = partition(found, 1).replicas_version
    stored_again(found)
    leader = partition(found, 1)
    leader.forget_leader()
    found.lose_connection(1)
    found.brokers[1].fold.broker.enqueue(LeaderChanged(*T))
    found.run(3000)
    assert (leader.epoch, leader.is_leader, leader.isr) == (1, True, (1, 2, 3))
    late = FetchReceived(999, 3, *T, 1, 1, before)
    assert respond(found, late).error == INELIGIBLE_REPLICA


def test_refused_replica_reads_the_assignment_and_fetches_again() -> None:
    found = replicated()
    stored_again(found)
    partition(found, 1).ar[3].assigned_at = 1
    assert partition(found, 3).replicas_version == 0
    request = found.produce(1, T, ["a"], -1, wait_ms=3000)
    assert error_of(found, request) == NONE
    assert partition(found, 3).replicas_version == 1


def test_follower_learns_the_high_watermark_with_its_next_fetch() -> None:
    found = replicated()
    found.produce(1, T, ["a"], -1, wait_ms=2000)
    assert [partition(found, one).local.hw for one in (1, 2, 3)] == [1, 1, 1]


def test_high_watermark_of_a_follower_is_at_most_its_log_end() -> None:
    found = replicated()
    found.stop(3)
    found.produce(1, T, ["a", "b"], -1, wait_ms=5000)
    found.brokers[3].checkpoint[T] = 9
    found.start(3)
    for _ in range(200):
        found.run(1)
        local = partition(found, 3).local
        assert local.hw <= len(found.brokers[3].logs[T])


def test_high_watermark_of_the_leader_is_taken_over_up_to_the_log_end() -> None:
    found = replicated()
    while partition(found, 2).fetch is None:
        found.run(1)
    found.cut = {(1, 2): None}
    fetch = partition(found, 2).fetch
    assert fetch is not None
    found.brokers[2].apply(FetchResponded(fetch, NONE, 0, 9, 9), "fetch", found.now_ms, [])
    assert partition(found, 2).local.hw == 0


def test_high_watermarks_are_checkpointed_and_read_at_the_start() -> None:
    found = replicated(checkpoint_interval_ms=300)
    found.produce(1, T, ["a", "b"], -1, wait_ms=2000)
    assert WriteCheckpoint((("t", 0, 2),)) in issued(found, 2)
    assert found.brokers[2].checkpoint == {T: 2}
    found.stop(2)
    found.start(2)
    assert TruncateLog("t", 0, 2) in issued(found, 2)
    assert partition(found, 2).local.hw == 2


def test_high_watermark_of_every_replica_is_checkpointed_again_and_again() -> None:
    found = replicated(checkpoint_interval_ms=300)
    found.create_topic("u", {0: (2, 1)})
    found.run(1500)
    for times in (1, 2):
        for leader, name in ((1, T), (2, ("u", 0))):
            found.produce(leader, name, ["a"], -1, wait_ms=1000)
        for broker in (1, 2):
            assert found.brokers[broker].checkpoint == {T: times, ("u", 0): times}


def test_checkpoint_above_the_log_end_is_reduced() -> None:
    found = cluster(1)
    found.create_topic("t", {0: (1,)})
    found.brokers[1].logs[T] = ["a"]
    found.brokers[1].checkpoint[T] = 5
    found.start(1)
    assert partition(found, 1).local.hw == 1


def test_follower_truncates_to_its_high_watermark_and_fetches_from_the_log_end() -> None:
    found = replicated()
    found.produce(1, T, ["a"], -1, wait_ms=2000)
    found.silent[1] = None
    found.produce(1, T, ["x", "y"], 1, wait_ms=2)
    found.end_session(1)
    found.run(1500)
    found.learn_of_expiry(1)
    found.run(2000)
    new = int(found.data("/brokers/topics/t/0/leader").split(";")[0])
    assert new in (2, 3)
    assert TruncateLog("t", 0, 1) in issued(found, 1, "F-01")
    assert found.brokers[1].logs[T] == found.brokers[new].logs[T]


def test_address_of_an_unregistered_leader_is_read_again() -> None:
    found = replicated()
    found.stop(2)
    found.zookeeper.end_session(found.brokers[2].session)
    found.start(2)
    fetches = [one for one in issued(found, 2) if isinstance(one, SendFetch)]
    assert fetches[0].address == "host1:9092"


def test_new_leader_keeps_its_high_watermark() -> None:
    found = replicated()
    found.produce(1, T, ["a"], -1, wait_ms=1000)
    found.cut = {(1, 3): None, (2, 3): None}
    found.produce(1, T, ["b"], 1, wait_ms=200)
    found.stop(1)
    found.stop(3)
    found.run(1000)
    assert partition(found, 2).is_leader
    assert partition(found, 2).local.leo == 2
    assert partition(found, 2).local.hw == 1


def test_longer_log_than_that_of_the_leader_is_cut_and_reported() -> None:
    """The flaw of the design: a restarted follower forgets records that were committed."""
    found = replicated(checkpoint_interval_ms=1_000_000)
    found.produce(1, T, ["a"], -1, wait_ms=2000)
    found.stop(3)
    found.run(3000)
    found.stop(2)
    found.stop(1, session_ends=False)
    found.brokers[2].logs[T] = []
    found.start(2)
    found.end_session(1)
    found.run(3000)
    assert found.data("/brokers/topics/t/0/leader").startswith("2;")
    found.brokers[1].checkpoint[T] = 1
    found.start(1)
    found.run(2000)
    assert found.brokers[1].logs[T] == []
    assert partition(found, 1).local.hw == 0
    assert notices(found, 1, "records_lost")
    found.produce(2, T, ["b"], -1, wait_ms=2000)
    assert found.brokers[1].logs[T] == ["b"]


def test_truncation_to_the_high_watermark_can_lose_a_committed_record() -> None:
    """The design's flaw (docs/design-0.8.md#flaws): acknowledged with acks -1, and lost."""
    found = replicated(checkpoint_interval_ms=1_000_000)
    request = found.produce(1, T, ["a"], -1, wait_ms=500)
    assert error_of(found, request) == NONE
    found.cut = {(1, 2): None, (1, 3): None}
    for follower in (2, 3):
        found.stop(follower)
        found.start(follower)
    found.stop(1)
    found.run(1000)
    leader = int(found.data("/brokers/topics/t/0/leader").split(";")[0])
    assert leader in (2, 3)
    assert found.brokers[leader].logs[T] == []


def test_response_to_an_earlier_fetch_is_ignored() -> None:
    found = replicated()
    fold: BrokerFold = found.brokers[2].fold
    before = dict(fold.broker.fetches)
    found.end_session(2)
    found.run(1500)
    assert not set(before) & set(fold.broker.fetches)
    found.produce(1, T, ["a"], -1, wait_ms=1000)
    assert found.brokers[2].logs[T] == ["a"]
