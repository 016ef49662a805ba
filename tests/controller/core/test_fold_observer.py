"""The order in which an observer is called for the steps of a fold."""

from collections.abc import Sequence

import pytest

from controller.core import error_codes as codes
from controller.core import pauses
from controller.core.api_requests import ApiResponse
from controller.core.commands import Issued
from controller.core.election import OFFLINE
from controller.core.fold_observer import FoldObserver
from controller.core.state import Partition
from controller.core.state_machines import PartitionState
from controller.core.triggers import Startup, Trigger, trigger_name
from tests.controller.core.cluster import Cluster, writes_state
from tests.controller.core.procedures.reassignment.interrupting import interruptible, submit
from tests.controller.core.procedures.reassignment.reassigning import T0, cluster_of
from tests.controller.core.procedures.topics.topic_requests import create, delete, new_topic
from tests.controller.core.test_urgent_events import (
    FIRST_PART,
    PART,
    TARGETS,
    alter_u0,
    with_25_partitions,
)
from tests.controller.core.unreliable import Delivery


class RecordingObserver(FoldObserver):
    """Notes the procedures that run. It does not distinguish pauses from ends."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def begins(self, trigger: Trigger) -> None:
        self.noted.append(trigger_name(trigger))

    def ends(self) -> None:
        self.noted.append("end")


class DetailedObserver(RecordingObserver):
    """Also notes pauses, answers and the end of a term."""

    def clears_queue(self) -> None:
        self.noted.append("clear")

    def pauses(self) -> None:
        self.noted.append("pause")

    def resumes(self, trigger: Trigger) -> None:
        self.noted.append(f"resume {trigger_name(trigger)}")

    def issues(self, issued: Issued) -> None:
        if isinstance(issued.command, ApiResponse):
            self.noted.append("answer")


class DecisionObserver(FoldObserver):
    """Notes the strategies of elections, and the error codes of rejected reassignments."""

    def __init__(self) -> None:
        self.strategies: list[str] = []
        self.errors: list[tuple[tuple[str, int], int]] = []

    def moves_partitions(
        self, partitions: Sequence[Partition], target: PartitionState, rule: str, strategy: str
    ) -> None:
        self.strategies += [strategy] * len(partitions)

    def rejects(self, name: tuple[str, int], error: int, why: str) -> None:
        self.errors.append((name, error))


def observed(cluster: Cluster) -> list[str]:
    """The notes from now on."""
    observer = cluster.fold.controller.observer = DetailedObserver()
    return observer.noted


def test_election_is_observed_with_the_name_of_its_strategy() -> None:
    cluster = cluster_of(2, 1, 2)
    observer = cluster.fold.controller.observer = DecisionObserver()
    cluster.stop_broker(1)
    assert cluster.leadership("t", 0).leader == 2
    assert OFFLINE.name in observer.strategies


def test_rejected_reassignment_is_observed_with_the_error_of_an_api_request() -> None:
    cluster = interruptible(2, 1)
    observer = cluster.fold.controller.observer = DecisionObserver()
    submit(cluster, {("no-topic", 0): [2], T0: [2, 2]})
    assert observer.errors == [
        (("no-topic", 0), codes.UNKNOWN_TOPIC_OR_PARTITION),
        (T0, codes.INVALID_REPLICA_ASSIGNMENT),
    ]


def test_paused_procedure_ends_and_begins_again() -> None:
    observer = RecordingObserver()
    observer.begins(Startup())
    observer.pauses()
    observer.resumes(Startup())
    assert observer.noted == ["Startup", "end", "Startup"]


def test_urgent_event_begins_after_the_pause_and_ends_before_the_long_work_resumes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pauses, "TOGETHER_MAX", PART)
    cluster = with_25_partitions()
    asked = alter_u0(cluster)
    cluster.once(FIRST_PART, lambda: cluster.happen_next(asked, "api:1"))
    noted = observed(cluster)
    submit(cluster, TARGETS)
    work = "ReassignmentRequests"
    begun = noted.index(work)
    urgent = ["AlterPartition", "answer", "end"]
    assert noted[begun : begun + 7] == [work, "pause", *urgent, f"resume {work}", "end"]


def test_end_of_a_term_clears_the_queue_and_the_procedure_does_not_end() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.lose(writes_state("t", 0), Delivery.SESSION_OVER)
    noted = observed(cluster)
    cluster.stop_broker(1)
    assert noted[:6] == ["BrokerChange", "clear", "Expire", "end", "Startup", "end"]


def test_answer_to_a_request_that_waits_follows_the_end_of_the_procedure() -> None:
    cluster = Cluster(1).start()
    create(cluster, new_topic("t", given={0: [1]}))
    noted = observed(cluster)
    delete(cluster, "t")
    assert noted[:5] == ["DeleteTopics", "end", "TopicDeletion", "end", "answer"]
