"""Kafka's dynamic limits of connections in /config/brokers, as the daemon reads them."""

import anyio
import pytest

from controller.api.messages import ConnectionLimits
from controller.core import znodes
from controller.daemon import followed_settings
from controller.daemon.connection_limits import ConnectionLimitReader
from tests.controller.daemon.test_address_rates import Session


async def applied_for(
    monkeypatch: pytest.MonkeyPatch, *contents: dict[str, bytes] | None
) -> list[ConnectionLimits]:
    """The limits that the front receives while ZooKeeper has these contents, one after another."""
    monkeypatch.setattr(followed_settings, "READ_EVERY_SECONDS", 0.01)
    applied: list[ConnectionLimits] = []
    session = Session({})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ConnectionLimitReader(session.reads, 1000, applied.append).keep)
        for content in contents:
            session.content = content
            await session.was_read()
        tasks.cancel_scope.cancel()
    return applied


def config(**values: str) -> bytes:
    return znodes.write_config({key.replace("_", "."): value for key, value in values.items()})


async def test_limits_of_all_brokers_are_followed_and_those_of_the_daemon_come_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everywhere = config(
        max_connections="9", max_connections_per_ip="5", max_connection_creation_rate="3"
    )
    own = config(max_connections="7", max_connections_per_ip_overrides="127.0.0.2:1")
    found = await applied_for(
        monkeypatch,
        {"<default>": everywhere, "1": config(max_connections="1")},
        None,
        {"<default>": everywhere, "1000": own},
        {},
    )
    assert found == [
        ConnectionLimits(9, 5, None, 3),
        ConnectionLimits(7, 5, {"127.0.0.2": 1}, 3),
        ConnectionLimits(),
    ]


async def test_value_that_cannot_be_used_is_reported_once_and_ignored(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bad = config(max_connections="many", max_connections_per_ip="6")
    found = await applied_for(
        monkeypatch, {"<default>": bad}, {"<default>": config(max_connections_per_ip="0")}
    )
    assert found == [ConnectionLimits(connections_per_address_max=6)]
    warned = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert len(warned) == 2
    assert "/config/brokers/<default>: max.connections: must be" in warned[0]
    assert "max.connections.per.ip=0 needs max.connections.per.ip.overrides" in warned[1]
