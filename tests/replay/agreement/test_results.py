"""The record at which a divergence is reported, and results that are added."""

import msgspec
from msgspec import structs

from replay.agreement.broker_requests.comparing import (
    DIFFERS,
    EXTRA,
    RequestDivergence,
    TermRequests,
)
from replay.agreement.cause import FoldCause
from replay.agreement.conformance_result import ConformanceResult
from replay.agreement.results import EITHER_ORDER, AgreementResult, ExplainedDivergences, result_of
from tests.replay.agreement.broker_requests.samples import led


def test_request_that_differs_is_reported_where_kafka_sent_it() -> None:
    refold = structs.replace(led(1), seq=5, since=4)
    stock = structs.replace(refold, seq=9)
    term = TermRequests(
        differences=[RequestDivergence(DIFFERS, refold, stock, ("leader 1, Kafka's 2",))]
    )
    term.differences.append(RequestDivergence(EXTRA, refold, None))
    found = result_of(ConformanceResult(requests={1: term}), "").divergences
    assert [(one.verdict, one.seq, one.since) for one in found] == [
        ("extra", 5, 4),
        ("differs", 9, 4),
    ]


def test_range_added_to_a_copy_changes_neither_the_result_nor_the_range() -> None:
    first, second = _range_with(zxid=1), _range_with(zxid=2)
    before = [msgspec.json.encode(one) for one in (first, second)]
    total = first.copy()
    total.add_range(second)
    total.add_range(_range_with(zxid=3))
    assert [msgspec.json.encode(one) for one in (first, second)] == before
    assert [one.zxids for one in total.explained] == [[1, 2, 3]]
    assert (total.decisions, total.by_rule["broker failure"].agreed) == (3, 3)


def test_explained_zxids_of_the_first_range_are_not_shared() -> None:
    first, total = _range_with(zxid=1), AgreementResult()
    total.add_range(first)
    total.add_range(_range_with(zxid=2))
    assert [one.zxids for one in first.explained] == [[1]]


def _range_with(zxid: int) -> AgreementResult:
    result = AgreementResult(notes=[f"zxid {zxid}"])
    result.count("partition_state", FoldCause("BrokerChange", "broker failure"), "agreed")
    explained = ExplainedDivergences(EITHER_ORDER.name, EITHER_ORDER.kafka_method, [zxid])
    result.add_explained(explained)
    return result
