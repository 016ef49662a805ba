"""The option that writes the golden transcripts again, deviations that are observed, and failovers
that fail."""

from collections.abc import Iterator

import pytest

from controller.core.controller import Controller
from controller.core.deviations import ALL, Deviation
from controller.core.fold_observer import FoldObserver
from controller.core.procedures.role import failover
from controller.core.state import Partition


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-transcripts", action="store_true", help="write tests/transcripts/*.txt again"
    )


@pytest.fixture(autouse=True)
def _deviations_are_observed(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A test that is marked `deviates` shows that the fold notifies its observer; with the
    parameter "kafka", that it does so only for a deviation that is always on."""
    observed = set()

    def deviates(_observer: FoldObserver, deviation: Deviation, _subject: str) -> None:
        observed.add(deviation.name)

    monkeypatch.setattr(FoldObserver, "deviates", deviates)
    yield
    marked = {mark.args[0] for mark in request.node.iter_markers("deviates")}
    parameters = getattr(request.node, "callspec", None)
    is_kafka = parameters is not None and "kafka" in parameters.params.values()
    expected = {one.name for one in ALL if one.always or not is_kafka}
    assert marked & observed == marked & expected


class FailingFailovers:
    """Every failover ends in an unexpected error while `fails`. `epochs` are those of the failed
    failovers. No content of ZooKeeper makes a failover fail under refold's rules."""

    def __init__(self) -> None:
        self.fails = True
        self.epochs: list[int] = []


@pytest.fixture
def failing_failovers(monkeypatch: pytest.MonkeyPatch) -> FailingFailovers:
    failing, load_context = FailingFailovers(), failover.load_context

    async def load_or_fail(controller: Controller) -> list[Partition]:
        if not failing.fails:
            return await load_context(controller)
        failing.epochs.append(controller.context.epoch)
        raise RuntimeError("unexpected")

    monkeypatch.setattr(failover, "load_context", load_or_fail)
    return failing
