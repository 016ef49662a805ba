"""A run in the simulated cluster: its history, and the records that it loses."""

import pytest

from replay.errors import ReplayError
from replay.what_if.running import HistoryRecorder, lost_records, run_to_end
from replay.world.cluster import Cluster
from replay.world.inputs import CrashBroker, ElectLeaders, Input
from replay.world.scenario import SlowReplica, TopicSpec
from tests.replay.what_if.simulated import scenario

SLOW = scenario(TopicSpec("t", ((1, 2),)), slow=[SlowReplica(2, "t", 0, 5_000, None)])
CRASH = CrashBroker(12_000, 1, False, None)


def lost(*inputs: Input) -> dict[tuple[str, int], tuple[int, int]]:
    recorder = HistoryRecorder()
    return lost_records(run_to_end(SLOW, inputs, recorder), recorder)


def test_records_of_an_offline_partition_are_not_lost() -> None:
    assert lost() == lost(CRASH) == {}


def test_unclean_election_loses_acknowledged_records() -> None:
    ((name, (of_all, of_leader)),) = lost(
        CRASH, ElectLeaders(22_000, (("t", 0),), "unclean")
    ).items()
    assert name == ("t", 0)
    assert of_all
    assert of_leader


def test_run_ends_when_its_observer_says_so() -> None:
    recorder = HistoryRecorder(lambda history: True, begin_ms=9_000)
    cluster = run_to_end(SLOW, (), recorder)
    assert recorder.has_ended
    assert cluster.scheduler.now_us == 9_000_000


def test_error_of_the_code_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(cluster: Cluster) -> bool:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(Cluster, "step", fail)
    with pytest.raises(ReplayError, match="error of the controller's code: ZeroDivisionError"):
        run_to_end(SLOW, (), HistoryRecorder())
