"""Bootstrap servers that do not answer."""

import socket

import pytest

from controller.operator.reassignment import kafka_client
from controller.operator.reassignment.errors import KafkaUnavailable
from controller.operator.reassignment.kafka_client import KafkaClient
from tools.lab.ports import free_port


@pytest.mark.parametrize(
    ("family", "host", "written"),
    [(socket.AF_INET, "127.0.0.1", "127.0.0.1"), (socket.AF_INET6, "::1", "[::1]")],
)
async def test_stopped_bootstrap_server_is_left_after_its_time_limit(
    family: socket.AddressFamily, host: str, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel accepts connections for a process that is stopped."""
    monkeypatch.setattr(kafka_client, "BOOTSTRAP_SECONDS", 0.2)
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with server as stopped:
        servers = f"{written}:{stopped.getsockname()[1]},127.0.0.1:{free_port()}"
        with pytest.raises(KafkaUnavailable) as refused:
            async with KafkaClient(servers, {}):
                pytest.fail("no broker answers")
    text = str(refused.value)
    assert text.startswith(f"no broker answers at {servers}: it accepted the connection and sent")
    assert text.endswith("check --bootstrap-server")
