import socket
from pathlib import Path

import pytest

from controller.core.values import Endpoint
from controller.operator.probes import probe_disk, probe_listeners, probe_servers
from controller.zookeeper.servers import Server


@pytest.mark.parametrize("below", ["", "logs", "logs/of/mine"])
def test_a_log_directory_that_is_there_or_can_be_made(tmp_path: Path, below: str) -> None:
    disk = probe_disk(tmp_path / below)
    assert disk.fault == ""
    assert disk.free_bytes > 0
    assert disk.sync_ms > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["", "logs"])
def test_a_log_directory_that_is_a_file(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert probe_disk(file / below).fault == f"{file} is not a folder"


def test_a_log_directory_that_is_a_link_to_nothing(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "absent")
    assert probe_disk(link).fault == f"{link} is not a folder"


async def test_a_server_whose_name_cannot_be() -> None:
    (found,) = await probe_servers([Server("zk ☃", 2181)])
    assert "not allowed" in found.fault


@pytest.mark.parametrize("listener", ["SSL", "PLAINTEXT"])
def test_an_address_that_cannot_be_listened_on(listener: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = Endpoint(listener, listener, "127.0.0.1", taken.getsockname()[1])
        assert "cannot listen on" in probe_listeners([endpoint])
    assert bool(probe_listeners([endpoint])) is (listener == "SSL")
