"""Whether a request that is in no log was asked for in it."""

import pytest

from replay.stock_clusters.imported_log.events import STARTED, ControllerLogged, RequestServed
from replay.stock_clusters.imports.coverage import RequestLogCoverage

BROKER = 2
SERVED_S = (1, 2, 3, 9, 12)
"""The process ends behind the third, and the next one begins at 8 s."""


def request(second: int, epoch: int | None) -> RequestServed:
    told = b"" if epoch is None else b'"brokerEpoch":%d,' % epoch
    content = b'{"controllerId":1,%s"topicStates":[]}' % told
    return RequestServed(
        BROKER, "UPDATE_METADATA", 6, "1", second, "1-2-0", second * 1000, content, b"{}"
    )


def covered(*, epochs: tuple[int | None, int | None], is_started_told: bool) -> list[bool]:
    """Of each second up to the fifth, whether it is."""
    found = RequestLogCoverage()
    for second in SERVED_S:
        if second == 9 and is_started_told:
            found.take(8_000, ControllerLogged(BROKER, STARTED, ""))
        found.take(second * 1000, request(second, epochs[second >= 9]))
    return [found.covers(BROKER, second * 1000) for second in range(1, 6)]


@pytest.mark.parametrize(
    ("epochs", "is_started_told"), [((71, 99), False), ((71, 99), True), ((None, None), True)]
)
def test_what_a_process_leaves_behind_at_its_end_is_not(
    epochs: tuple[int | None, int | None], is_started_told: bool
) -> None:
    """That it is another process its start tells, else the registration in what it is told."""
    assert covered(epochs=epochs, is_started_told=is_started_told) == [True, *[False] * 4]


@pytest.mark.parametrize("epoch", [71, None])
def test_one_process_leaves_nothing_behind(epoch: int | None) -> None:
    assert all(covered(epochs=(epoch, epoch), is_started_told=False))


def test_one_process_may_register_anew() -> None:
    """Where starts are told, it is one."""
    found = RequestLogCoverage()
    found.take(0, ControllerLogged(BROKER, STARTED, ""))
    for second in SERVED_S:
        found.take(second * 1000, request(second, 71 if second < 9 else 99))
    assert all(found.covers(BROKER, second * 1000) for second in range(1, 6))
