"""Kafka's keys that limit the clients of the endpoint."""

from pathlib import Path

import pytest

from controller.api.limits import EndpointLimits, ListenerQuota
from controller.core.configuration import QuotaWindow
from controller.settings.errors import SettingsError
from controller.settings.settings import LoadedSettings, load

NEEDED = {
    "REFOLD_ZOOKEEPER_CONNECT": "zk1:2181/kafka",
    "REFOLD_BROKER_ID": "1000",
    "REFOLD_LOG_DIR": "/logs",
}


def loaded(tmp_path: Path, *lines: str) -> LoadedSettings:
    file = tmp_path / "server.properties"
    file.write_text("\n".join(lines))
    return load([], NEEDED, file)


def test_each_key_sets_its_limit(tmp_path: Path) -> None:
    settings, warnings = loaded(
        tmp_path,
        "max.connections=1",
        "max.connections.per.ip=2",
        "connections.max.idle.ms=3",
        "request.timeout.ms=4",
        "socket.request.max.bytes=5",
        "queued.max.requests=6",
        "queued.max.request.bytes=7",
    )
    assert settings.limits == EndpointLimits(
        connections_max=1,
        connections_per_address_max=2,
        connections_max_idle_ms=3,
        request_timeout_ms=4,
        request_bytes_max=5,
        waiting_requests_max=6,
        whole_bytes_max=7,
    )
    assert warnings == ()


def test_defaults_are_kafkas_where_kafka_has_a_limit(tmp_path: Path) -> None:
    limits = loaded(tmp_path).settings.limits
    assert limits == EndpointLimits()
    assert (limits.connections_max_idle_ms, limits.request_timeout_ms) == (600_000, 30_000)
    assert (limits.request_bytes_max, limits.waiting_requests_max) == (104_857_600, 500)


def test_unlimited_values_are_accepted(tmp_path: Path) -> None:
    limits = loaded(
        tmp_path,
        "max.connections=2147483647",
        "max.connections.per.ip=2147483647",
        "connections.max.idle.ms=-1",
        "queued.max.request.bytes=-1",
    ).settings.limits
    assert limits.connections_max == limits.connections_per_address_max == 2147483647
    assert limits.connections_max_idle_ms is limits.whole_bytes_max is None


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("max.connections=0", "a whole number from 1"),
        ("max.connections.per.ip=0", "max.connections.per.ip.overrides is not set"),
        ("connections.max.idle.ms=0", "-1 for no limit"),
        ("request.timeout.ms=0", "a whole number from 1"),
        ("socket.request.max.bytes=0", "a whole number from 1"),
        ("queued.max.requests=0", "a whole number from 1"),
        ("queued.max.request.bytes=0", "-1 for no limit"),
        ("queued.max.request.bytes=8388607", "must be at least 8388608"),
        ("queued.max.request.bytes=999\nsocket.request.max.bytes=1000", "must be at least 1000"),
    ],
)
def test_limits_that_admit_no_client_are_rejected(tmp_path: Path, line: str, reported: str) -> None:
    with pytest.raises(SettingsError) as raised:
        loaded(tmp_path, line)
    assert line.splitlines()[0] in str(raised.value)
    assert reported in str(raised.value)


OF_LISTENERS = (
    "listeners=CLIENTS://:9093,PLAINTEXT://:9092",
    "listener.security.protocol.map=CLIENTS:PLAINTEXT,PLAINTEXT:PLAINTEXT",
)


def test_limits_of_addresses_and_listeners(tmp_path: Path) -> None:
    limits = loaded(
        tmp_path,
        *OF_LISTENERS,
        "max.connections.per.ip=0",
        "max.connections.per.ip.overrides=10.0.0.1:5000, localhost:7, [fe80::1]:0",
        "max.connection.creation.rate=50",
        "listener.name.clients.max.connections=10",
        "refold.listener.name.clients.max.connection.creation.rate=5",
        "quota.window.num=4",
        "quota.window.size.seconds=2",
    ).settings.limits
    of_localhost = dict.fromkeys(("127.0.0.1", "0:0:0:0:0:0:0:1"), 7)
    given = limits.connections_of_address_max
    assert given.items() <= (of_localhost | {"10.0.0.1": 5000, "fe80:0:0:0:0:0:0:1": 0}).items()
    assert given["127.0.0.1"] == 7
    assert limits.connections_per_address_max == 0
    assert limits.creation_rate == 50
    assert limits.creation_burst_seconds == 6
    assert limits.of_listeners == {
        "CLIENTS": ListenerQuota(connections_max=10, creation_rate=5),
        "PLAINTEXT": ListenerQuota(creation_rate=50),
    }
    assert limits.exempt_listener == "PLAINTEXT"


def test_only_listener_is_not_exempt_from_the_rate(tmp_path: Path) -> None:
    limits = loaded(tmp_path, "max.connection.creation.rate=50").settings.limits
    assert limits.exempt_listener is None


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("max.connections.per.ip.overrides=10.0.0.1", "HOST:COUNT"),
        ("max.connections.per.ip.overrides=10.0.0.1:-1", "HOST:COUNT"),
        ("max.connections.per.ip.overrides=nowhere.invalid:1", "has none"),
        ("max.connection.creation.rate=0", "a whole number from 1"),
        ("quota.window.num=0", "a whole number from 1"),
        ("controller.quota.window.num=0", "a whole number from 1"),
        ("listener.name.clients.max.connections=0", "a whole number from 1"),
        ("listener.name.clients.max.connection.creation.rate=many", "a whole number from 1"),
    ],
)
def test_limits_that_cannot_be_read_are_rejected(tmp_path: Path, line: str, reported: str) -> None:
    with pytest.raises(SettingsError) as raised:
        loaded(tmp_path, *OF_LISTENERS, line)
    assert line in str(raised.value)
    assert reported in str(raised.value)


def test_windows_of_mutation_quotas(tmp_path: Path) -> None:
    assert loaded(tmp_path).settings.configuration().mutation_quotas == QuotaWindow()
    found = loaded(
        tmp_path, "controller.quota.window.num=3", "controller.quota.window.size.seconds=2"
    )
    assert found.settings.configuration().mutation_quotas == QuotaWindow(samples=3, seconds=2)
