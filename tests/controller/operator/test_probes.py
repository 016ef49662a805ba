import socket
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from controller.core.topic_configs import OF_BROKER, OF_CLUSTER
from controller.core.values import Endpoint
from controller.operator.probes import (
    probe_brokers,
    probe_disk,
    probe_listeners,
    probe_servers,
)
from controller.zookeeper.servers import ServerAddress
from tests.controller.operator.settings import settings
from tests.scripted_broker import ScriptedBroker, with_settings


@pytest.mark.parametrize("below", ["", "logs", "logs/of/mine"])
def test_existing_or_creatable_log_directory_passes(tmp_path: Path, below: str) -> None:
    disk = probe_disk(tmp_path / below)
    assert disk.fault == ""
    assert disk.free_bytes > 0
    assert disk.sync_ms > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["", "logs"])
def test_log_directory_that_is_a_file_is_reported(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert probe_disk(file / below).fault == f"{file} is not a folder"


def test_log_directory_that_is_a_dangling_link_is_reported(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "absent")
    assert probe_disk(link).fault == f"{link} is not a folder"


async def test_invalid_server_name_is_reported() -> None:
    (found,) = await probe_servers([ServerAddress("zk ☃", 2181)])
    assert "not allowed" in found.fault


@pytest.mark.parametrize("offered", [(0, 2), (1, 4)], ids=["Kafka 2.4", "Kafka 3.9"])
async def test_policies_of_a_broker_are_read(offered: tuple[int, int]) -> None:
    policies = {"create.topic.policy.class.name": "a.B", "alter.config.policy.class.name": "c.D"}
    broker = ScriptedBroker(with_settings(policies | {"broker.rack": "r"}))
    broker.offered[32] = offered
    async with broker.listening():
        [found] = await probe_brokers(settings(), [broker.registered(7)])
    assert (found.broker, found.fault, found.settings_fault) == (7, "", "")
    assert found.policies == policies
    assert len(found.versions) == 3


async def test_broker_without_policies_has_none() -> None:
    broker = ScriptedBroker(with_settings({}))
    async with broker.listening():
        [found] = await probe_brokers(settings(), [broker.registered()])
    assert (found.policies, found.settings_fault) == ({}, "")


async def test_broker_that_rejects_the_request_for_policies_is_reported() -> None:
    broker = ScriptedBroker(with_settings({}, ErrorCode.cluster_authorization_failed))
    async with broker.listening():
        [found] = await probe_brokers(settings(), [broker.registered()])
    assert found.fault == ""
    assert "not authorized (code 31)" in found.settings_fault


@pytest.mark.parametrize(
    ("source", "expected"),
    [(OF_BROKER, {"min.insync.replicas": "2"}), (OF_CLUSTER, {})],
    ids=["file of the broker", "dynamic default of the cluster"],
)
async def test_settings_that_only_the_broker_has_are_read(
    source: int, expected: dict[str, str]
) -> None:
    broker = ScriptedBroker(with_settings({"min.insync.replicas": "2"}, source=source))
    async with broker.listening():
        [found] = await probe_brokers(settings(), [broker.registered()])
    assert (found.deciding, found.policies) == (expected, {})


@pytest.mark.parametrize("listener", ["SSL", "PLAINTEXT"])
def test_address_in_use_is_reported(listener: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = Endpoint(listener, listener, "127.0.0.1", taken.getsockname()[1])
        assert "cannot listen on" in probe_listeners([endpoint])
    assert probe_listeners([endpoint]) == ""


def test_log_directory_that_others_may_write_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o775)
    found = probe_disk(tmp_path)
    assert found.fault == (
        "other users may write it (mode 0775): run chmod go-w, or use another folder"
    )
    tmp_path.chmod(0o755)
    assert probe_disk(tmp_path).fault == ""


@pytest.mark.parametrize("name", ["existing", "missing"])
def test_log_directory_that_others_may_replace_is_reported(tmp_path: Path, name: str) -> None:
    (tmp_path / "existing").mkdir(0o700)
    tmp_path.chmod(0o777)
    assert probe_disk(tmp_path / name).fault == (
        f"other users may replace it, because they may write {tmp_path} (mode 0777): run chmod go-w"
        f" or chmod +t on {tmp_path}, or use another folder"
    )
    tmp_path.chmod(0o755)
    assert probe_disk(tmp_path / name).fault == ""
