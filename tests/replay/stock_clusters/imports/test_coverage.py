"""The requests that a broker's request log must contain."""

import pytest

from replay.stock_clusters.imported_log.events import STARTED, ControllerLogged, RequestServed
from replay.stock_clusters.imports.coverage import RequestLogCoverage

BROKER = 2
SERVED_S = (1, 2, 3, 9, 12)
"""The process ends after the third request, and the next process starts at 8 s."""


def update_metadata(second: int, epoch: int | None) -> RequestServed:
    broker_epoch = b"" if epoch is None else b'"brokerEpoch":%d,' % epoch
    content = b'{"controllerId":1,%s"topicStates":[]}' % broker_epoch
    return RequestServed(
        BROKER, "UPDATE_METADATA", 6, "1", second, "1-2-0", second * 1000, content, b"{}"
    )


def covered(*, epochs: tuple[int | None, int | None], is_start_logged: bool) -> list[bool]:
    """Whether each of the first five seconds is covered."""
    found = RequestLogCoverage()
    for second in SERVED_S:
        if second == 9 and is_start_logged:
            found.note(8_000, ControllerLogged(BROKER, STARTED, ""))
        found.note(second * 1000, update_metadata(second, epochs[second >= 9]))
    return [found.covers(BROKER, second * 1000) for second in range(1, 6)]


@pytest.mark.parametrize(
    ("epochs", "is_start_logged"), [((71, 99), False), ((71, 99), True), ((None, None), True)]
)
def test_last_requests_of_a_process_are_not_covered(
    epochs: tuple[int | None, int | None], is_start_logged: bool
) -> None:
    """A new process is recognised by its start or, without that line, by the broker epoch."""
    assert covered(epochs=epochs, is_start_logged=is_start_logged) == [True, *[False] * 4]


@pytest.mark.parametrize("epoch", [71, None])
def test_requests_of_a_running_process_are_covered(epoch: int | None) -> None:
    assert all(covered(epochs=(epoch, epoch), is_start_logged=False))


def test_requests_of_a_process_that_registers_again_are_covered() -> None:
    """A log with lines about starts shows that it is the same process."""
    found = RequestLogCoverage()
    found.note(0, ControllerLogged(BROKER, STARTED, ""))
    for second in SERVED_S:
        found.note(second * 1000, update_metadata(second, 71 if second < 9 else 99))
    assert all(found.covers(BROKER, second * 1000) for second in range(1, 6))
