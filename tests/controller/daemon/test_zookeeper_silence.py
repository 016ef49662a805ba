"""The daemon's log messages while ZooKeeper does not answer."""

import logging

import pytest

from controller.daemon import zookeeper_silence
from controller.daemon.zookeeper_silence import report_silence
from controller.zookeeper.connection import ConnectionStatus

CONNECTED = ConnectionStatus(1, True, "zk:2181", 6000, 5, "")
LOST = ConnectionStatus(1, False, "zk:2181", 6000, None, "connection refused")
NOTICED_S = 4.0
"""The connection is lost this time after ZooKeeper was last heard."""
END_S = 300.0
HANGS_S = 20.0


class _Ended(Exception):
    """The end of a test."""


class Clock:
    """Time that passes only while something sleeps. `losses`: when the connection is lost. At
    HANGS_S the process is suspended for `hung_s`."""

    def __init__(self, *losses: tuple[float, float], hung_s: float) -> None:
        self._losses = losses
        self._now_s = 0.0
        self._hung_s = hung_s

    def monotonic(self) -> float:
        return self._now_s

    async def sleep(self, seconds: float) -> None:
        self._now_s += seconds
        if self._now_s >= HANGS_S:
            self._now_s += self._hung_s
            self._hung_s = 0
        if self._now_s > END_S:
            raise _Ended

    def status(self) -> ConnectionStatus:
        for first, end in self._losses:
            if first <= self._now_s < end:
                heard_s = max(first - NOTICED_S, 0)
                return LOST._replace(heard_ms_ago=round((self._now_s - heard_s) * 1000))
        return CONNECTED


async def logged(
    *losses: tuple[float, float],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    hung_s: float = 0,
) -> list[str]:
    caplog.set_level(logging.INFO)
    clock = Clock(*losses, hung_s=hung_s)
    monkeypatch.setattr(zookeeper_silence, "time", clock)
    monkeypatch.setattr(zookeeper_silence, "anyio", clock)
    with pytest.raises(_Ended):
        await report_silence(clock.status, 10.0)
    return caplog.messages


async def test_silence_since_zookeeper_was_heard_is_reported_less_often_and_then_its_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    messages = await logged((20.5, 120.5), monkeypatch=monkeypatch, caplog=caplog)
    *reports, end = messages
    assert reports == [
        f"ZooKeeper has not answered for {seconds} s, the daemon acts on nothing; the last "
        "failure: connection refused"
        for seconds in (10, 30, 70)
    ]
    assert end == "ZooKeeper answers after 104 s"


async def test_late_loss_of_the_connection_is_reported_with_the_whole_silence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(f"{__name__}.NOTICED_S", 12.0)
    first, end = await logged((20.5, 25.5), monkeypatch=monkeypatch, caplog=caplog)
    assert first.startswith("ZooKeeper has not answered for 12 s, ")
    assert end == "ZooKeeper answers after 18 s"


async def test_zookeeper_that_never_answered_is_silent_since_the_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    messages = await logged((0.0, 15.5), monkeypatch=monkeypatch, caplog=caplog)
    assert messages[0].startswith("ZooKeeper has not answered for 10 s, ")


async def test_short_losses_of_the_connection_are_not_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    losses = [(first + 0.5, first + 5.5) for first in range(10, 290, 10)]
    assert await logged(*losses, monkeypatch=monkeypatch, caplog=caplog) == []


async def test_silence_in_which_the_process_was_suspended_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection is lost while the process is suspended."""
    losses = [(23.0, 45.5)]
    first, end = await logged(*losses, monkeypatch=monkeypatch, caplog=caplog, hung_s=22)
    text = "ZooKeeper has not answered for 23 s (for 22 s of these refold itself did not run), the"
    assert first.startswith(text)
    assert end == "ZooKeeper answers after 27 s"


async def test_silence_after_the_process_was_suspended_does_not_mention_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    losses = [(60.0, 80.5)]
    first, _ = await logged(*losses, monkeypatch=monkeypatch, caplog=caplog, hung_s=22)
    assert first.startswith("ZooKeeper has not answered for 10 s, the daemon acts on nothing; ")
