"""Rollbacks that a client requests by API run in parts, with pauses in which urgent controller
events go first. Deletions and new topics are not urgent: they wait until the rollbacks are over."""

from collections.abc import Callable

import pytest

from controller.core import error_codes as codes
from controller.core import pauses, znodes
from controller.core.commands import Notice
from controller.core.operations import NODE_EXISTS, Create
from controller.core.procedures.reassignment import rollback
from controller.core.znodes import reassignment_path
from tests.controller.core.cluster import Cluster, topic_json, writes
from tests.controller.core.procedures.reassignment.interrupting import assert_nothing_is_left
from tests.controller.core.procedures.reassignment.many_moves import (
    ALL,
    COUNT,
    PART,
    with_25_partitions,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    ask,
    assert_no_failures,
    assignment,
)
from tests.controller.core.procedures.topics.deleting import mark_quietly, marked

BACK, DELETION = "reassignment_rolled_back", "topic_deletion_started"
NEW_TOPIC = topic_json({number: [5] for _, number in ALL}, topic_id="pPIRp0EbRlmoyqCvGidCAQ")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 10 partitions, so that the tests are fast."""
    monkeypatch.setattr(pauses, "TOGETHER_MAX", PART)


def answers_of_cancellation(cluster: Cluster, meanwhile: Callable[[], object]) -> list[int]:
    """Cancel the moves of all partitions of t. Before the last write of the first part, `meanwhile`
    happens and broker 4 dies, which is handled in the next pause. Returns the error codes."""

    def happen() -> None:
        meanwhile()
        cluster.unregister(4)

    cluster.once(writes(reassignment_path(*ALL[PART - 1])), happen)
    return [one.error for one in ask(cluster, *((name, None) for name in ALL)).partitions]


def moving() -> Cluster:
    """All partitions of t move from [1,2] to [3,4]."""
    cluster = with_25_partitions()
    ask(cluster, *((name, [3, 4]) for name in ALL))
    return cluster


def test_topic_that_is_marked_for_deletion_in_a_pause_is_deleted_after_its_rollback() -> None:
    """Until then ZooKeeper refuses a topic with the same name."""
    cluster = moving()
    seen = cluster.seen()
    refused: list[int] = []

    def meanwhile() -> None:
        mark_quietly(cluster, "t")
        refused.append(cluster.ask(Create(znodes.topic_path("t"), NEW_TOPIC)).error)

    assert answers_of_cancellation(cluster, meanwhile) == [codes.NONE] * COUNT
    assert refused == [NODE_EXISTS]
    codes_of_notices = [one.code for one in seen.commands if isinstance(one, Notice)]
    order = [one for one in codes_of_notices if one in (BACK, "broker_failed", DELETION)]
    # The broker's death is handled in the pause after the first part; the deletion is not.
    assert order == [
        *[BACK] * PART,
        "broker_failed",
        *[BACK] * (COUNT - PART),
        DELETION,
    ]
    assert (marked(cluster), cluster.data(znodes.topic_path("t"))) == ((), None)
    cluster.create_topic("t", {0: [5]})
    assert cluster.state("t", 0) == "leader 5 e 0 isr [5] v 0 ce 1"
    assert assignment(cluster) == "5"
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


def test_topic_that_is_deleted_and_created_by_hand_in_a_pause_is_not_rolled_back() -> None:
    """The new topic has no states yet, which a rollback reads first."""
    cluster = moving()
    seen = cluster.seen()

    def meanwhile() -> None:
        cluster.remove_quietly(znodes.topic_path("t"))
        cluster.ask(Create(znodes.topic_path("t"), NEW_TOPIC))

    answers = answers_of_cancellation(cluster, meanwhile)
    rejected = [codes.INVALID_REPLICA_ASSIGNMENT] * (COUNT - PART)
    assert answers == [*[codes.NONE] * PART, *rejected]
    assert ("broker_failed", "broker 4") in seen.notices()
    # Only the first part, before the pause, has written states and assignments.
    rules = [issued.reason.rule for _, commands in seen.history for issued in commands]
    assert rules.count(rollback.STORE_ORIGINALS) == 1
    assert {cluster.state(*name) for name in ALL} == {None}
