"""Decisions that depend on requests without a log line are not judged."""

from replay.agreement.cause import NO_CAUSE, FoldCause
from replay.agreement.results import AgreementResult, Divergence
from replay.agreement.unjudged_divergences import BrokersWithLogs, leave_unjudged

CAUSE = FoldCause("AlterPartitionReassignments", "reassignment")


def divergence(seq: int, **changes: object) -> Divergence:
    values: dict[str, object] = {
        "subject": "decision",
        "verdict": "missing",
        "kind": "partition_state",
        "seq": seq,
        "since": seq,
        "zxid": seq,
        "broker": 1,
        "epoch": 4,
        "paths": ("/brokers/topics/t",),
        "differences": (),
        "cause": FoldCause("BrokerChange", "broker failure"),
        "explained": "",
        "controller": 1,
    }
    return Divergence(**(values | changes))  # type: ignore[arg-type]


def judged(*divergences: Divergence, logs: frozenset[int] = frozenset()) -> AgreementResult:
    """The result without what is not judged. One decision more agrees."""
    result = AgreementResult(source="log")
    result.count("election", NO_CAUSE, "agreed")
    for one in divergences:
        side = result if one.subject == "decision" else result.requests
        side.count(one.kind, one.cause, one.verdict)
        result.divergences.append(one)
    leave_unjudged(result, BrokersWithLogs(set(logs), set()), {})
    return result


def test_decision_of_a_request_that_no_log_has_is_not_judged() -> None:
    result = judged(divergence(5, cause=CAUSE))
    assert (result.decisions, result.missing, result.unjudged) == (1, 0, 1)
    assert result.divergences == []
    assert result.is_explained
    assert not result.is_whole
    [note] = result.notes
    assert note.startswith("not judged: 1 decision of broker 1 in epoch 4, from record 5 on")


def test_assignment_that_only_kafka_wrote_is_not_judged() -> None:
    assert judged(divergence(5, kind="assignment")).unjudged == 1
    assert judged(divergence(5, kind="assignment", verdict="differs")).unjudged == 0


def test_later_decisions_and_requests_of_the_term_are_not_judged_either() -> None:
    before, of_other_term = divergence(4), divergence(7, epoch=5)
    sent = divergence(8, subject="request", kind="LeaderAndIsr")
    result = judged(before, divergence(5, cause=CAUSE), divergence(6), of_other_term, sent)
    assert result.divergences == [before, of_other_term]
    assert (result.missing, result.unjudged, result.requests.unjudged) == (2, 2, 1)
    assert not result.is_explained


def test_decision_is_judged_if_the_controller_has_a_request_log() -> None:
    result = judged(divergence(5, cause=CAUSE), logs=frozenset({1}))
    assert (result.missing, result.unjudged) == (1, 0)
    assert judged(divergence(5, cause=CAUSE), logs=frozenset({2})).unjudged == 1


def test_decision_with_another_cause_is_judged() -> None:
    assert judged(divergence(5)).missing == 1


def test_rule_with_the_name_of_an_unseen_event_is_judged() -> None:
    cause = FoldCause("BrokerChange", f"{CAUSE}")
    result = judged(divergence(5, cause=cause))
    assert (result.missing, result.unjudged) == (1, 0)
    assert result.by_rule["AlterPartitionReassignments: reassignment"].missing == 1
