"""The option that writes the golden transcripts again, and failovers that fail."""

import pytest

from controller.core.controller import Controller
from controller.core.procedures.role import failover
from controller.core.state import Partition


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-transcripts", action="store_true", help="write tests/transcripts/*.txt again"
    )


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
