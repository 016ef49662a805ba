"""What the daemon logs while ZooKeeper does not answer."""

import logging

import pytest

from controller.daemon import zookeeper_silence
from controller.daemon.zookeeper_silence import report_silence
from controller.zookeeper.connection import ConnectionStatus

CONNECTED = ConnectionStatus(1, True, "zk:2181", 6000, 5, "")
LOST = ConnectionStatus(1, False, "zk:2181", 6000, 900, "connection refused")
END_S = 300.0


class _Ended(Exception):
    """The end of a test."""


class Clock:
    """Time that passes only while something sleeps. `losses`: when the connection is lost."""

    def __init__(self, *losses: tuple[float, float]) -> None:
        self._losses = losses
        self._now_s = 0.0

    def monotonic(self) -> float:
        return self._now_s

    async def sleep(self, seconds: float) -> None:
        self._now_s += seconds
        if self._now_s > END_S:
            raise _Ended

    def status(self) -> ConnectionStatus:
        is_lost = any(first <= self._now_s < end for first, end in self._losses)
        return LOST if is_lost else CONNECTED


async def logged(
    *losses: tuple[float, float], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> list[str]:
    caplog.set_level(logging.INFO)
    clock = Clock(*losses)
    monkeypatch.setattr(zookeeper_silence, "time", clock)
    monkeypatch.setattr(zookeeper_silence, "anyio", clock)
    with pytest.raises(_Ended):
        await report_silence(clock.status, 10.0)
    return caplog.messages


async def test_silence_is_reported_less_and_less_often_and_then_its_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    messages = await logged((20.5, 120.5), monkeypatch=monkeypatch, caplog=caplog)
    *reports, end = messages
    assert reports == [
        f"ZooKeeper has not answered for {seconds} s, the daemon acts on nothing: "
        "connection refused"
        for seconds in (10, 30, 70)
    ]
    assert end == "ZooKeeper answers after 100 s"


async def test_short_losses_of_the_connection_are_not_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    losses = [(first + 0.5, first + 5.5) for first in range(10, 290, 10)]
    assert await logged(*losses, monkeypatch=monkeypatch, caplog=caplog) == []
