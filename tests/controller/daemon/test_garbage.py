"""When the garbage collector runs."""

import gc
from collections.abc import Iterator

import pytest

from controller.core.state import Partition, Topic
from controller.daemon.garbage import DroppedTopics, GarbageCollection
from tests.controller.core.procedures.role.standby_pair import StandbyPair


@pytest.fixture(autouse=True)
def unfreeze_after_the_test() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def test_collector_is_off_while_the_fold_has_work() -> None:
    with GarbageCollection() as garbage:
        garbage.work_begins()
        assert not gc.isenabled()
        garbage.events_folded(is_idle=False)
        assert not gc.isenabled()
        garbage.work_begins()
        garbage.events_folded(is_idle=True)
        assert gc.isenabled()


def test_collector_runs_again_during_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    with GarbageCollection() as garbage:
        garbage.work_begins()
        monkeypatch.setattr("time.monotonic", lambda: float("inf"))
        garbage.events_folded(is_idle=False)
        assert gc.isenabled()


def test_collector_is_on_after_an_error() -> None:
    def fail() -> None:
        with GarbageCollection() as garbage:
            garbage.work_begins()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert gc.isenabled()


def test_many_new_objects_are_not_examined_later() -> None:
    with GarbageCollection() as garbage:
        before = gc.get_freeze_count()
        garbage.work_begins()
        few = [[] for _ in range(10)]  # type: ignore[var-annotated]
        garbage.events_folded(is_idle=True)
        assert gc.get_freeze_count() == before
        garbage.work_begins()
        many = [[] for _ in range(60_000)]  # type: ignore[var-annotated]
        garbage.events_folded(is_idle=True)
        assert gc.get_freeze_count() >= before + len(few) + len(many)


def topic_of(partitions: int) -> Topic:
    topic = Topic("t")
    topic.partitions = {number: Partition(topic, number) for number in range(partitions)}
    return topic


def test_dropped_topics_are_freed_some_at_a_time() -> None:
    topics, dropped = [topic_of(6_000) for _ in range(4)], DroppedTopics()
    dropped.drops_topics(topics)
    dropped.free_some()
    assert [len(one.partitions) for one in topics] == [6_000, 6_000, 0, 0]
    dropped.free_some()
    dropped.free_some()
    assert not any(one.partitions for one in topics)


def test_controller_that_loses_its_session_frees_its_topics() -> None:
    pair, dropped = StandbyPair(), DroppedTopics()
    pair.active.fold.controller.observer = dropped
    known = pair.active.partition("t", 0).topic
    pair.active.expire()
    dropped.free_some()
    assert not known.partitions


def test_standby_that_loses_its_session_frees_its_topics() -> None:
    pair, dropped = StandbyPair(), DroppedTopics()
    pair.standby.fold.controller.observer = dropped
    known = pair.standby.fold.controller.standby.topics["t"]
    assert known is not None
    pair.standby.expire()
    dropped.free_some()
    assert not known.partitions
