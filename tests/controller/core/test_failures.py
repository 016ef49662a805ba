"""Notices about what failed: their texts, and partitions in few notices."""

from fractions import Fraction

import pytest

from controller.core.commands import Choice, Notice
from controller.core.errors import ProcedureError
from controller.core.failures import Failures, excerpt, listed_names, report_error
from controller.core.fold_observer import FoldObserver
from controller.core.state import Partition
from tests.controller.core.driving import ControllerHarness

CHOICE = Choice("t", 0, -1, "test", ((1, "offline"),))


def notices(driven: ControllerHarness) -> list[tuple[str, str, tuple[Choice, ...]]]:
    """Subject, text and failed elections of each notice since the last call."""
    return [
        (one.command.subject, one.command.text, one.reason.choices)
        for one in driven.controller.take_issued()
        if isinstance(one.command, Notice)
    ]


def test_notice_about_an_error_has_its_text_and_one_about_a_defect_its_place() -> None:
    driven = ControllerHarness(5)
    report_error(driven.controller, "failed", "t", ProcedureError("no replicas"))
    try:
        Fraction("x")
    except ValueError as defect:
        report_error(driven.controller, "failed", "t", defect)
    (_, text, _), (_, place, _) = notices(driven)
    assert text == "no replicas"
    assert place.startswith("ValueError at fractions.py:")


@pytest.mark.parametrize(
    ("count", "end"), [(20, ", t-19"), (21, ", t-19 and 1 more"), (25, ", t-19 and 5 more")]
)
def test_list_of_partitions_names_twenty_and_counts_the_others(count: int, end: str) -> None:
    names = listed_names([("t", number) for number in range(count)])
    assert names.startswith("t-0, t-1, ")
    assert names.endswith(end)


def test_znode_without_content_has_an_empty_excerpt() -> None:
    assert excerpt(None) == excerpt(b"") == "''"


def test_failure_is_reported_once_with_its_election() -> None:
    driven = ControllerHarness(5)
    partition = driven.partition()
    failures = Failures(driven.controller, "no_leader")
    failures.add(partition, "no replica is online", CHOICE)
    failures.report()
    assert notices(driven) == [("t-0", "no replica is online", (CHOICE,))]
    failures.report()
    assert notices(driven) == []
    failures.add(partition, "its state cannot be read")
    failures.report()
    assert notices(driven) == [("t-0", "its state cannot be read", ())]


def test_failure_that_is_not_reported_again_is_observed() -> None:
    class Noting(FoldObserver):
        def fails(
            self, partition: Partition, code: str, text: str, election: Choice | None = None
        ) -> None:
            observed.append((partition, code, text, election))

    observed: list[object] = []
    driven = ControllerHarness(5)
    driven.controller.observer = Noting()
    partition = driven.partition()
    failures = Failures(driven.controller, "no_leader", {partition: "no replica is online"})
    failures.add(partition, "no replica is online", CHOICE)
    failures.report()
    assert notices(driven) == []
    assert observed == [(partition, "no_leader", "no replica is online", CHOICE)]
