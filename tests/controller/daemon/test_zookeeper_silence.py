"""What the daemon logs while ZooKeeper does not answer."""

import logging

import anyio
import pytest

from controller.daemon.zookeeper_silence import report_silence
from controller.zookeeper.connection import ConnectionStatus

CONNECTED = ConnectionStatus(1, True, "zk:2181", 6000, 5, "")
LOST = ConnectionStatus(1, False, "zk:2181", 6000, 900, "connection refused")
FIRST_S = 0.1


class Connection:
    def __init__(self) -> None:
        self.status = CONNECTED


async def test_silence_is_reported_less_and_less_often_and_then_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    connection = Connection()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(report_silence, lambda: connection.status, FIRST_S)
        await anyio.sleep(2 * FIRST_S)
        assert caplog.messages == []
        connection.status = LOST
        await anyio.sleep(10 * FIRST_S)
        connection.status = CONNECTED
        await anyio.sleep(2 * FIRST_S)
        tasks.cancel_scope.cancel()
    # After 1, 3 and 7 times the first pause.
    *reports, end = caplog.messages
    assert len(reports) == 3
    for one in reports:
        assert one.endswith("the daemon acts on nothing: connection refused")
    assert end == "ZooKeeper answers after 1 s"


async def test_short_loss_of_the_connection_is_not_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    connection = Connection()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(report_silence, lambda: connection.status, FIRST_S)
        for _ in range(4):
            connection.status = LOST
            await anyio.sleep(0.5 * FIRST_S)
            connection.status = CONNECTED
            await anyio.sleep(0.5 * FIRST_S)
        tasks.cancel_scope.cancel()
    assert caplog.messages == []
