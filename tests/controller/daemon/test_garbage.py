"""When the garbage collector runs."""

import gc
from collections.abc import Iterator

import pytest

from controller.daemon.garbage import GarbageCollection


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
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
