"""A real daemon as a service: systemd's messages, probes, and a reload."""

import signal
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import HTTPError

import anyio.to_thread
import pytest

from tests.controller.cli.clusters import client, daemon_of, make_cluster, until_controller
from tools.lab import ZooKeeperServer
from tools.lab.cluster_view import until
from tools.lab.ports import free_port

pytestmark = [pytest.mark.lab, pytest.mark.ci]

CHROOT = "/service"


class Systemd:
    """The end of systemd: a datagram socket."""

    def __init__(self, folder: Path) -> None:
        self.address = folder / "notify"
        self.seen: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self.address))
        self._socket.settimeout(30)

    async def until(self, wanted: str) -> str:
        """Receive until a message with this line comes; returns the message."""
        while True:
            message = (await anyio.to_thread.run_sync(self._socket.recv, 4096)).decode()
            self.seen += message.splitlines()
            if wanted in message.splitlines():
                return message

    def close(self) -> None:
        self._socket.close()


async def status_of(port: int, path: str) -> int:
    def get() -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as found:
                return int(found.status)
        except HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 0

    return await anyio.to_thread.run_sync(get)


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Systemd]:
    with TemporaryDirectory() as folder:
        made = Systemd(Path(folder))
        monkeypatch.setenv("NOTIFY_SOCKET", str(made.address))
        monkeypatch.setenv("WATCHDOG_USEC", "600000")
        yield made
        made.close()


async def test_service_starts_reloads_and_stops(
    zookeeper: ZooKeeperServer, systemd: Systemd, tmp_path: Path
) -> None:
    port = free_port()
    file = tmp_path / "refold.properties"
    file.write_text("zookeeper.session.timeout.ms=6000\n")
    options = ("--config", str(file), "--standby", "--metrics-address", f"127.0.0.1:{port}")
    async with (
        client(zookeeper.connect) as znodes,
        daemon_of(zookeeper.connect + CHROOT, tmp_path / "logs", *options) as daemon,
    ):
        await make_cluster(znodes, CHROOT)
        await daemon.start()
        await systemd.until("READY=1")
        await until_controller(znodes, CHROOT, 1000)
        while "active, term 1" not in await systemd.until("WATCHDOG=1"):
            pass

        async def is_ready() -> bool:
            return await status_of(port, "/readyz") == 200

        await until(is_ready, 30, "the daemon is ready")
        assert await status_of(port, "/livez") == 200
        file.write_text("zookeeper.session.timeout.ms=9000\nrefold.messages.level=warning\n")
        daemon.signal(signal.SIGHUP)
        assert "MONOTONIC_USEC=" in await systemd.until("RELOADING=1")
        await systemd.until("READY=1")
        found = [one["message"] for one in daemon.messages()]
        assert "SIGHUP: these changes need a restart: zookeeper.session.timeout.ms" in found
        assert await daemon.stop() == 0
        await systemd.until("STOPPING=1")
        # Messages of level "info" ended with the reload.
        assert "stopped cleanly" not in daemon.last_output()


async def test_daemon_that_waits_for_zookeeper_is_alive_and_not_ready(
    systemd: Systemd, tmp_path: Path
) -> None:
    port = free_port()
    options = ("--wait-for-zookeeper", "--metrics-address", f"127.0.0.1:{port}")
    async with daemon_of(f"127.0.0.1:{free_port()}", tmp_path / "logs", *options) as daemon:
        await daemon.start()

        async def is_alive() -> bool:
            return await status_of(port, "/livez") == 200

        await until(is_alive, 30, "the daemon is alive")
        assert await status_of(port, "/readyz") == 503
        assert await status_of(port, "/metrics") == 503
        # A reload does not claim that the start is done.
        daemon.signal(signal.SIGHUP)

        async def is_waiting() -> bool:
            return "does not answer, nothing was changed" in daemon.last_output()

        await until(is_waiting, 30, "the daemon waits")
        assert await daemon.stop() == 0
        assert systemd.seen == []
