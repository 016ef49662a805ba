"""A trace that goes back to a checkpoint is as it was there."""

import shutil
from collections import deque
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from controller.core.triggers import Startup
from eventstore.reader import LogReader
from replay.agreement.trace.controller_trace import ControllerTrace
from replay.checkpoint import Checkpointed, State
from replay.index.every_imported_fact import AllSubjectsShadowObserver
from replay.report.observing import ReportShadowObserver
from replay.shadow_folds import ShadowObserver, shadow_folds
from replay.stock_clusters.imports.importing import Selection, import_source
from replay.why.shadow_observer import ShadowFactObserver
from replay.why.subject import Subject

T_0 = Subject(topic="t", partition=0)
FIRST_SEQ = 7
Values = dict[tuple[str, str], object]
"""The value of each attribute of a trace, by class and name."""

_COMPARED = (int, str, bytes, tuple, list, dict, set, deque, type(None))
"""Other objects belong to the whole check, or have a state that is compared itself."""


def parts_of(part: Checkpointed, seen: set[int]) -> Iterator[Checkpointed]:
    """An object with a state, and those in it."""
    if id(part) in seen:
        return
    seen.add(id(part))
    yield part
    for one in vars(part).values():
        if isinstance(one, Checkpointed):
            yield from parts_of(one, seen)


def copied(value: object) -> object:
    """A copy; the values of a mapping may be containers that change, too."""
    return {key: copy(one) for key, one in value.items()} if type(value) is dict else copy(value)


def values_of(trace: ControllerTrace) -> Values:
    roots = (trace, trace.fold.controller.observer)
    seen: set[int] = set()
    return {
        (type(part).__name__, name): copied(value)
        for root in roots
        if isinstance(root, Checkpointed)
        for part in parts_of(root, seen)
        for name, value in vars(part).items()
        if isinstance(value, _COMPARED)
    }


@pytest.fixture(scope="module")
def log_without_lines(
    folder_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The log of a controller whose lines are missing, so that traces go back."""
    folder = tmp_path_factory.mktemp("without lines")
    lines = shutil.ignore_patterns("controller.log", "control-requests.log")
    shutil.copytree(folder_of("reassign-5"), folder / "source", ignore=lines)
    import_source(folder / "source", folder / "log", Selection())
    return folder / "log"


@pytest.mark.parametrize(
    "observer_of",
    [
        ShadowObserver,
        AllSubjectsShadowObserver,
        lambda trace: ShadowFactObserver(trace, T_0),
        lambda trace: ReportShadowObserver(trace, T_0),
    ],
    ids=["commands", "all facts", "facts", "report"],
)
def test_going_back_restores_each_attribute(
    log_without_lines: Path, observer_of: Callable[[ControllerTrace], Any]
) -> None:
    """The trace is saved between records, and goes back from the end of the log step by step."""
    traces: list[ControllerTrace] = []
    saved: list[tuple[ControllerTrace, State, Values]] = []

    def followed(trace: ControllerTrace) -> Any:
        traces.append(trace)
        return observer_of(trace)

    def save(*_: object) -> None:
        for one in traces:
            if one.fold.batch is None and one.fold.read is None:
                saved.append((one, one.save(), values_of(one)))

    with LogReader(log_without_lines) as reader:
        list(shadow_folds(reader, followed, progress=save))
    assert len(saved) > 100
    differing: set[tuple[str, str]] = set()
    for trace, state, values in reversed(saved):
        trace.restore(state)
        now = values_of(trace)
        differing.update(key for key, one in values.items() if now[key] != one)
    assert differing == set(), "name these attributes in `STATE` of their class"


def test_first_event_that_is_undone_does_not_count_as_begun(log_without_lines: Path) -> None:
    begun: list[int] = []

    def observer_of(trace: ControllerTrace) -> ShadowFactObserver:
        observer = ShadowFactObserver(trace, T_0)
        trace.fold.advance(FIRST_SEQ, 0, 0)
        state = observer.save()
        observer.begins(Startup())
        begun.append(observer.begun_at)
        observer.restore(state)
        begun.append(observer.begun_at)
        return observer

    with LogReader(log_without_lines) as reader:
        list(shadow_folds(reader, observer_of))
    assert begun[:2] == [FIRST_SEQ, 0]
