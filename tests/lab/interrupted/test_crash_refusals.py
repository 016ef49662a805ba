"""The table of crash points accepts a rejected request in one situation only."""

from collections.abc import Sequence

import pytest

from controller.core.procedures.reassignment.assignments import STORE
from tests.lab.interrupted.crash_procedures import (
    CANCELLATION,
    CONFLICT,
    DROP,
    Procedure,
    Successor,
    Topic,
)
from tests.lab.interrupted.crash_refusals import REFUSED, accepted, refusals_of
from tests.lab.interrupted.failpoint import Counted

FIRST, SECOND = (Topic(name, CONFLICT.situations[0], unclean=False) for name in ("a", "b"))
TEXT = (
    "the reassignment to 3,6,7, requested by /admin/reassignment_requests/request_0000000012, is "
    "rejected: /admin/reassign_partitions has no such entry"
)
REQUEST = Counted("create /admin/reassignment_requests/request_", "reassignment entries")
BEGIN = Counted("multi: create /admin/reassignments/T/0", STORE)
RAISE = Counted("set /brokers/topics/T/partitions/0/state", "reassignment: raise the leader epoch")
BETWEEN = (REQUEST, BEGIN, BEGIN)
"""refold was killed before the second partition began."""


def is_accepted(
    text: str = TEXT,
    procedure: Procedure = CONFLICT,
    successor: Successor = Successor.STOCK,
    counted: Sequence[Counted] = BETWEEN,
) -> bool:
    found = accepted({"b": [text]}, procedure, successor, counted, 2)
    assert found <= {"b"}
    return bool(found)


def test_rejected_request_is_accepted_between_two_beginnings_before_a_stock_controller() -> None:
    assert is_accepted()


@pytest.mark.parametrize("procedure", [CANCELLATION, DROP])
def test_rejected_request_is_a_violation_in_another_procedure(procedure: Procedure) -> None:
    assert not is_accepted(procedure=procedure)


def test_rejected_request_is_a_violation_without_a_stock_controller() -> None:
    assert not is_accepted(successor=Successor.REFOLD)


@pytest.mark.parametrize(
    "counted",
    [
        (),
        (REQUEST,),
        (REQUEST, BEGIN),
        (REQUEST, BEGIN, BEGIN, RAISE),
        (REQUEST, BEGIN, RAISE),
        (REQUEST, BEGIN, BEGIN, BEGIN),
    ],
)
def test_rejected_request_is_a_violation_after_another_crash(counted: Sequence[Counted]) -> None:
    assert not is_accepted(counted=counted)


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("/admin/reassignment_requests/request_0000000012", "a client"),
        TEXT.replace("3,6,7", "4,5,6"),
        TEXT.replace("has no such entry", "has another entry"),
    ],
)
def test_rejection_that_does_not_name_the_request_is_a_violation(text: str) -> None:
    assert not is_accepted(text)


def test_more_rejections_than_partitions_that_had_not_begun_are_violations() -> None:
    found = {"a": [TEXT], "b": [TEXT]}
    assert not accepted(found, CONFLICT, Successor.STOCK, BETWEEN, 2)


def test_rejections_are_found_by_their_code_and_partition() -> None:
    messages = [
        {"code": REFUSED, "subject": "b-0", "message": TEXT},
        {"code": REFUSED, "subject": "another-0", "message": TEXT},
        {"code": "reassignment_begun", "subject": "a-0", "message": "a reassignment begins"},
        {"message": "refold 0.1.0 starts"},
    ]
    assert refusals_of(messages, [FIRST, SECOND]) == {"b": [TEXT]}
