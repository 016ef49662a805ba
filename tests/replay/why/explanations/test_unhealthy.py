"""Failures of the controller are the headline, and `--unhealthy` groups by root cause."""

from pathlib import Path

import pytest

from controller.core.values import Assignment, LeaderAndIsr
from replay.cluster_view.views import (
    BrokerView,
    ClusterView,
    ControllerView,
    TopicView,
    partition_view,
)
from replay.why.explanations.explanation import explanation_of
from replay.why.facts import NoticeIssued
from replay.why.history import FactHistory
from replay.why.subject import CONTROLLER_FAILURES, Subject
from tests.controller.core.cluster import Cluster as SimulatedCluster
from tests.controller.core.procedures.reassignment.reassigning import ask_for_isr
from tests.replay.why.asked import plain, why

STUCK = "nothing is moved to OnlineReplica: requests of an earlier change were never sent"
HEADLINE = (
    "The controller of term 3 could not send requests to brokers at event N, 2 times up to "
    f"event N: {STUCK}."
)


def stuck(subject: Subject, epoch: int = 3) -> FactHistory:
    """Broker 2 is registered, and never becomes a member of the ISR of t-0."""
    state = LeaderAndIsr(leader=1, leader_epoch=0, isr=(1,), partition_epoch=0, controller_epoch=3)
    partition = partition_view("t", 0, "online", state, Assignment((1, 2)), ())
    cluster = ClusterView(
        seq=30,
        time="2026-11-21T00:00:00.000000Z",
        log="recorded",
        controller=ControllerView("active", 9, 3, 1),
        brokers=[BrokerView(one, one, [], None) for one in (1, 2)],
        topics=[TopicView("t", None, [partition])],
    )
    notices = [
        NoticeIssued(
            seq=seq,
            wall_ns=0,
            epoch=epoch,
            level="error",
            code=CONTROLLER_FAILURES[0],
            subject="replica state machine",
            text=STUCK,
        )
        for seq in (10, 20)
    ]
    return FactHistory(subject, cluster, [*notices])


@pytest.mark.parametrize(
    "subject",
    [
        Subject(topic="t", partition=0),
        Subject(topic="t", partition=0, broker=2),
        Subject(topic="t", partition=0, is_reassignment=True),
        Subject(topic="t"),
        Subject(broker=2),
    ],
)
def test_stuck_controller_is_the_headline_of_every_answer(subject: Subject) -> None:
    answer = explanation_of(stuck(subject))
    assert plain(answer.answer).startswith(HEADLINE)
    assert [one.seq for one in answer.chain if "never sent" in one.text] == [20, 10]


def test_failures_of_an_earlier_term_are_not_the_headline() -> None:
    answer = explanation_of(stuck(Subject(topic="t", partition=0), epoch=2))
    assert "could not send" not in answer.answer


def test_replicas_that_wait_for_a_stuck_controller_are_grouped_under_it() -> None:
    answer = explanation_of(stuck(Subject(is_unhealthy=True)))
    assert answer.answer == "1 root cause; not well: 1 of 1 partition."
    [group] = answer.unhealthy
    assert plain(group.cause) == HEADLINE
    assert group.affected == ["t-0"]


def test_partitions_are_grouped_by_the_broker_that_is_gone(
    cluster: SimulatedCluster, tmp_path: Path
) -> None:
    assert why(cluster, tmp_path, is_unhealthy=True).answer == (
        "All partitions are online and in sync."
    )
    ask_for_isr(cluster, 1, 3)
    cluster.stop_broker(1)
    answer = why(cluster, tmp_path, is_unhealthy=True)
    assert [(plain(one.cause), one.affected) for one in answer.unhealthy] == [
        (
            "broker 1 is not registered: the registration of broker 1 is gone (event N)",
            ["t-0"],
        ),
        ("broker 2: live, but has not caught up", ["t-0"]),
    ]
