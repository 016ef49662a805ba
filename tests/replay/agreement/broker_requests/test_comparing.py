"""Each difference between sent requests is reported once, and nothing else is reported."""

from collections.abc import Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from replay.agreement.broker_requests.comparing import (
    DIFFERS,
    EXTRA,
    MISSING,
    NOT_SERVED,
    OTHER_PLACE,
    RequestDivergence,
    TermRequests,
    compare_term,
)
from replay.agreement.broker_requests.sent_request import (
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    SentRequest,
    agrees,
)
from replay.agreement.broker_requests.unknown_calls import UnknownCalls
from replay.agreement.cause import FoldCause
from tests.replay.agreement.broker_requests.samples import (
    by_broker,
    in_log,
    in_request_log,
    known,
    led,
    queues,
    stopped,
)

SOURCES = st.sampled_from(("log", "request log", "both"))


def compared(
    fold: Sequence[SentRequest], kafka: Sequence[SentRequest], source: str = "both"
) -> TermRequests:
    """The comparison with everything that Kafka sent in its logs."""
    logged = [*map(in_log, kafka)] if source != "request log" else None
    served = by_broker([*map(in_request_log, kafka)]) if source != "log" else None
    return compare_term(fold, logged, served)


def only(result: TermRequests) -> RequestDivergence:
    (difference,) = result.differences
    return difference


def is_seen(one: SentRequest, source: str) -> bool:
    """Whether the source shows a change of one of the request's partitions."""
    return bool(one.partitions) and (one.kind != UPDATE_METADATA or source != "log")


def changes(one: SentRequest) -> list[SentRequest]:
    """Variants of the request, each with one field of a partition changed."""
    assert one.partitions
    first = one.partitions[0]
    other = {"isr": (2,), "replicas": (3,), "delete": True, "is_new": True}
    fields = [name for name in first.__struct_fields__[2:] if getattr(first, name) is not None]
    return [
        replace(
            one, partitions=(replace(first, **{name: other.get(name, 99)}), *one.partitions[1:])
        )
        for name in fields
        if "_replicas" not in name
    ]


@given(queues(), SOURCES)
def test_equal_requests_agree(sent: list[SentRequest], source: str) -> None:
    result = compared(sent, sent, source)
    assert result.differences == []
    assert result.total.agreed == len(sent)


@given(queues(), SOURCES, st.data())
def test_request_that_the_fold_lacks_is_missing(
    sent: list[SentRequest], source: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(sent) - 1))
    result = compared(sent[:at] + sent[at + 1 :], sent, source)
    difference = only(result)
    assert (difference.what, difference.refold) == (MISSING, None)
    assert difference.stock is not None
    assert agrees(sent[at], difference.stock)
    assert result.total.agreed == len(sent) - 1


@given(queues(), SOURCES, st.data())
def test_request_that_the_fold_sends_twice_is_extra(
    sent: list[SentRequest], source: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(sent) - 1))
    result = compared([*sent[: at + 1], *sent[at:]], sent, source)
    total = result.total
    assert total.agreed == len(sent)
    if total.unjudged == 1:
        # A broker may not have served the last request to its registration.
        later = [one for one in sent[at + 1 :] if one.broker_epoch == sent[at].broker_epoch]
        assert source == "request log"
        assert all(one.kind == UPDATE_METADATA and not one.size for one in later)
    else:
        difference = only(result)
        assert (difference.what, difference.stock) == (EXTRA, None)
        assert difference.request.broker == sent[at].broker


@given(queues(), SOURCES, st.data())
def test_request_that_kafka_sent_twice_is_missing(
    sent: list[SentRequest], source: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(sent) - 1))
    result = compared(sent, [*sent[: at + 1], *sent[at:]], source)
    assert only(result).what == MISSING
    assert result.total.agreed == len(sent)


@given(queues(), SOURCES, st.data())
def test_changed_field_differs(sent: list[SentRequest], source: str, data: st.DataObject) -> None:
    seen = [at for at, one in enumerate(sent) if is_seen(one, source)]
    assume(seen)
    at = data.draw(st.sampled_from(seen))
    changed = data.draw(st.sampled_from(changes(sent[at])))
    result = compared([*sent[:at], changed, *sent[at + 1 :]], sent, source)
    difference = only(result)
    assert (difference.what, difference.refold) == (DIFFERS, changed)
    assert len(difference.details) == 1
    assert difference.stock is not None
    assert agrees(sent[at], difference.stock)
    assert result.total.agreed == len(sent) - 1


@given(queues(), SOURCES, st.data())
def test_different_order_in_the_queue_of_a_broker_differs(
    sent: list[SentRequest], source: str, data: st.DataObject
) -> None:
    neighbours = [
        at
        for at in range(len(sent) - 1)
        if sent[at].broker_epoch == sent[at + 1].broker_epoch
        and (sent[at].kind, sent[at].size) != (sent[at + 1].kind, sent[at + 1].size)
    ]
    assume(neighbours)
    at = data.draw(st.sampled_from(neighbours))
    result = compared([*sent[:at], sent[at + 1], sent[at], *sent[at + 2 :]], sent, source)
    difference = only(result)
    assert (difference.what, difference.details) == (DIFFERS, (OTHER_PLACE,))
    assert any(agrees(difference.request, one) for one in sent[at : at + 2])


@given(queues(), SOURCES)
def test_different_order_between_brokers_agrees(sent: list[SentRequest], source: str) -> None:
    by_number = sorted(sent, key=lambda one: one.broker)
    assert compared(by_number, sent, source).differences == []


@settings(max_examples=50)
@given(queues(), st.data())
def test_requests_after_the_last_one_that_a_broker_served_are_unjudged(
    sent: list[SentRequest], data: st.DataObject
) -> None:
    """Of each registration, any number of the last requests is not served."""
    served = []
    for epoch in sorted({one.broker_epoch or 0 for one in sent}):
        queue = [one for one in sent if one.broker_epoch == epoch]
        served += queue[: data.draw(st.integers(0, len(queue)))]
    logs = by_broker([*map(in_request_log, served)])
    assert compare_term(sent, [*map(in_log, sent)], logs).total.agreed == len(sent)
    alone = compare_term(sent, None, logs)
    assert alone.differences == []
    assert (alone.total.agreed, alone.total.unjudged) == (len(served), len(sent) - len(served))


def test_difference_in_the_last_served_request_is_that_requests() -> None:
    sent = [led(1), known(2), led(3), known(4), led(5)]
    refold = [*sent[:2], changes(sent[2])[0], *sent[3:]]
    difference = only(compare_term(refold, None, {1: [*map(in_request_log, sent[:3])]}))
    assert (difference.what, difference.refold) == (DIFFERS, refold[2])


def test_request_that_the_fold_sends_too_early_is_in_another_place() -> None:
    """state-change.log has the request after the last one that the broker served."""
    sent = [led(1), known(2), led(3)]
    served = {1: [*map(in_request_log, sent[:2])]}
    difference = only(compare_term([sent[0], sent[2], sent[1]], [*map(in_log, sent)], served))
    assert (difference.what, difference.details) == (DIFFERS, (OTHER_PLACE,))


def test_request_that_was_not_served_before_later_ones_is_extra() -> None:
    sent = [led(1), led(2), led(3)]
    served = {1: [in_request_log(sent[0]), in_request_log(sent[2])]}
    assert only(compare_term(sent, None, served)).what == EXTRA
    difference = only(compare_term(sent, [*map(in_log, sent)], served))
    assert (difference.what, difference.details) == (DIFFERS, (NOT_SERVED,))


def test_requests_to_a_broker_without_a_request_log_are_unjudged() -> None:
    result = compare_term([led(1), known(2)], None, {})
    assert result.differences == []
    assert result.by_kind[LEADER_AND_ISR].unjudged == 1
    assert result.by_kind[UPDATE_METADATA].unjudged == 1


@pytest.mark.parametrize(("connection", "missing"), [("b", 0), ("a", 1)])
def test_request_is_a_repetition_only_over_another_connection(
    connection: str, missing: int
) -> None:
    sent = [led(1), known(2), led(3)]
    served = [*map(in_request_log, sent)]
    served.insert(1, in_request_log(sent[0], connection))
    total = compare_term(sent, [*map(in_log, sent)], {1: served}).total
    assert (total.agreed, total.missing, total.repeated) == (3, missing, 1 - missing)


def test_request_to_another_registration_differs_once() -> None:
    sent = [led(1), led(2), led(3)]
    refold = [sent[0], replace(sent[1], broker_epoch=49), sent[2]]
    (difference,) = compared(sent, refold).differences
    assert difference.details == ("broker epoch 50, Kafka's 49",)


def test_request_to_an_earlier_registration_may_be_served_later() -> None:
    old, new = led(1, broker_epoch=50), led(2, broker_epoch=60)
    served = {1: [in_request_log(new), in_request_log(old)]}
    assert compare_term([old, new], None, served).total.agreed == 2
    assert compare_term([in_log(old), in_log(new)], None, served).total.agreed == 2


def test_extra_one_of_many_similar_requests_is_found_by_the_request_log() -> None:
    """state-change.log records only the number of partitions of UpdateMetadata."""
    sent = [known(1), known(3)]
    fold = [known(1), known(2), known(3)]
    result = compared(fold, sent)
    assert only(result).refold == fold[1]


def test_difference_is_described_in_a_sentence() -> None:
    sent = [led(1), known(2, size=5), stopped(3), known(4, size=0)]
    texts = [one.text for one in compared(sent, []).differences]
    assert texts == [
        "LeaderAndIsr to broker 1 of t-x-0: Kafka sent none",
        "UpdateMetadata to broker 1 of t-x-0, t-x-1, t-x-2, and 2 more: Kafka sent none",
        "StopReplica to broker 1 of t-x-0: Kafka sent none",
        "UpdateMetadata to broker 1 of no partitions: Kafka sent none",
    ]
    missing = [one.text for one in compared([], sent[:2], "log").differences]
    assert missing == [
        "LeaderAndIsr to broker 1 of t-x-0: Kafka sent it, the fold did not",
        "UpdateMetadata to broker 1 of 5 partitions: Kafka sent it, the fold did not",
    ]
    difference = only(compared([changes(sent[0])[0]], sent[:1]))
    assert difference.text == "LeaderAndIsr to broker 1: t-x-0: leader 99, Kafka's 1"


def test_kinds_of_requests_are_counted_separately() -> None:
    result = compared([led(1), stopped(2)], [led(1), known(3)], "log")
    assert result.by_kind[LEADER_AND_ISR].agreed == 1
    assert result.by_kind[STOP_REPLICA].extra == 1
    assert result.by_kind[UPDATE_METADATA].missing == 1


def test_requests_after_a_call_that_no_log_has_are_unjudged() -> None:
    """A request that no log has can cause requests after it only: the controller answers even an
    AlterPartition that changes nothing with UpdateMetadata."""
    kafka = [known(5), known(9)]
    unknown = UnknownCalls(since=8)
    found = compare_term([], [*map(in_log, kafka)], None, unknown_calls=unknown)
    assert [one.request.seq for one in found.differences] == [5]
    assert (found.total.missing, found.total.unjudged) == (1, 1)
    led_too = compare_term([], [in_log(led(9))], None, unknown_calls=unknown)
    assert led_too.total.missing == 1


@pytest.mark.parametrize("sizes", [(1, 4), (4, 1)])
def test_request_caused_by_an_unknown_call_is_not_matched_with_a_larger_one_of_the_fold(
    sizes: tuple[int, int],
) -> None:
    """The request comes before or after the fold's request, which has one partition more in Kafka's
    log."""
    kafka = [in_log(known(number, size=size)) for number, size in enumerate(sizes, 5)]
    found = compare_term([known(6, size=3)], kafka, None, unknown_calls=UnknownCalls(since=0))
    assert (found.differences, found.total.unjudged) == ([], 2)


def test_common_partitions_are_judged_in_spite_of_an_unknown_call() -> None:
    fold, kafka = known(5, size=2), known(5, size=3)
    unknown = UnknownCalls(since=0)

    def judged(served: SentRequest) -> tuple[int, int]:
        logs = {1: [in_request_log(served)]}
        total = compare_term([fold], None, logs, unknown_calls=unknown).total
        return total.differs, total.unjudged

    assert judged(kafka) == (0, 1)
    assert kafka.partitions is not None
    first = replace(kafka.partitions[0], leader=99)
    assert judged(replace(kafka, partitions=(first, *kafka.partitions[1:]))) == (1, 0)


def test_repeated_controlled_shutdown_explains_only_unchanged_requests() -> None:
    """All replicas of the broker are followers by then, and no replica is deleted."""
    again = in_request_log(replace(led(5), seq=9))
    stop = in_request_log(stopped(9))

    def missing(unknown: UnknownCalls, *more: SentRequest) -> list[str]:
        served = {1: [in_request_log(led(5)), *more]}
        found = compare_term([led(5)], None, served, unknown_calls=unknown)
        return [one.request.kind for one in found.differences]

    unknown = UnknownCalls(since=0, shutdowns_since=0)
    assert missing(unknown, again, stop) == []
    assert missing(UnknownCalls(since=0), again, stop) == [LEADER_AND_ISR, STOP_REPLICA]
    assert missing(unknown, in_request_log(led(9))) == [LEADER_AND_ISR]
    assert again.partitions is not None
    [partition] = again.partitions
    by_leader = replace(
        partition, isr=(1,), partition_epoch=partition.leader_epoch, controller_epoch=4
    )
    assert missing(unknown, replace(again, partitions=(by_leader,))) == [LEADER_AND_ISR]
    by_leader = replace(by_leader, partition_epoch=8)
    assert missing(unknown, replace(again, partitions=(by_leader,))) == []
    other_leader = replace(by_leader, leader=2)
    assert missing(unknown, replace(again, partitions=(other_leader,))) == [LEADER_AND_ISR]
    of_older_brokers = replace(again, partitions=(replace(partition, recovery_state=None),))
    assert missing(unknown, of_older_brokers) == []
    assert stop.partitions is not None
    deleted = replace(stop, partitions=(replace(stop.partitions[0], delete=True),))
    assert missing(unknown, deleted) == [STOP_REPLICA]


def test_requests_of_unknown_partitions_are_unjudged_after_a_controlled_shutdown() -> None:
    """state-change.log has the partitions at level TRACE only."""
    stop = replace(stopped(5), cause=FoldCause("ControlledShutdown", "controlled shutdown"))
    again = [replace(one, seq=9, partitions=None, size=1) for one in (led(5), stopped(5))]
    unknown = UnknownCalls(since=0, shutdowns_since=0)

    def missing(fold: SentRequest, *more: SentRequest) -> list[str]:
        found = compare_term([fold], [fold, *more], None, unknown_calls=unknown)
        return [one.request.kind for one in found.differences]

    assert missing(stop, *again) == []
    assert missing(replace(stop, cause=FoldCause("TopicDeletion", "topic deletion")), *again) == [
        LEADER_AND_ISR,
        STOP_REPLICA,
    ]
    to_2 = replace(again[1], broker=2)
    assert missing(stop, to_2) == [STOP_REPLICA]


def test_state_that_another_broker_was_sent_is_unjudged_after_an_unlogged_shutdown() -> None:
    """A repeated controlled shutdown can send a state to a broker that was not sent it before."""
    to_2 = replace(led(5), broker=2)
    served = {1: [in_request_log(replace(led(5), seq=9))]}

    def judged(unknown: UnknownCalls) -> tuple[int, int]:
        total = compare_term([to_2], None, served, unknown_calls=unknown).total
        return total.missing, total.unjudged

    assert judged(UnknownCalls(since=0, shutdowns_since=0)) == (0, 2)
    assert judged(UnknownCalls(since=0)) == (1, 1)
