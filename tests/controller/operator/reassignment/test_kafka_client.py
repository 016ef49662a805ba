"""Bootstrap servers that do not answer."""

import socket

import pytest

from controller.operator.reassignment import kafka_client
from controller.operator.reassignment.errors import KafkaUnavailable
from controller.operator.reassignment.kafka_client import KafkaClient
from tools.lab.ports import free_port


async def test_stopped_bootstrap_server_is_left_after_its_time_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel accepts connections for a process that is stopped."""
    monkeypatch.setattr(kafka_client, "BOOTSTRAP_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as stopped:
        servers = f"127.0.0.1:{stopped.getsockname()[1]},127.0.0.1:{free_port()}"
        with pytest.raises(KafkaUnavailable) as refused:
            async with KafkaClient(servers, {}):
                pytest.fail("no broker answers")
    text = str(refused.value)
    assert text.startswith(f"no broker answers at {servers}: it accepted the connection and sent")
    assert text.endswith("check --bootstrap-server")
