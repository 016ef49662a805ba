"""The record at which a divergence is reported."""

from msgspec import structs

from replay.agreement.broker_requests.comparing import (
    DIFFERS,
    EXTRA,
    RequestDivergence,
    TermRequests,
)
from replay.agreement.conformance_result import ConformanceResult
from replay.agreement.results import result_of
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
