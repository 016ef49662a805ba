"""The messages to systemd, on a real datagram socket."""

import logging
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from controller.daemon.service_manager import ServiceManager


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(tmp_path / "notify"))
        made.settimeout(10)
        yield made


def received(systemd: socket.socket) -> dict[str, str]:
    lines = systemd.recv(4096).decode().splitlines()
    return dict(line.split("=", 1) for line in lines)


def manager(systemd: socket.socket, **more: str) -> ServiceManager:
    return ServiceManager({"NOTIFY_SOCKET": systemd.getsockname(), **more})


def test_start_reload_and_end_are_reported(systemd: socket.socket) -> None:
    reporter = manager(systemd)
    before = time.monotonic_ns() // 1000
    reporter.reloading()
    reporter.ready()
    reporter.stopping("stopping: SIGTERM")
    reload = received(systemd)
    assert reload["RELOADING"] == "1"
    assert before <= int(reload["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
    assert received(systemd) == {"READY": "1"}
    assert received(systemd) == {"STOPPING": "1", "STATUS": "stopping: SIGTERM"}


async def test_event_loop_feeds_the_watchdog_three_times_in_its_time(
    systemd: socket.socket,
) -> None:
    reporter = manager(systemd, WATCHDOG_USEC="300000", WATCHDOG_PID=str(os.getpid()))
    began = time.monotonic()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reporter.keep_alive, lambda: "active, term 4")
        for _ in range(4):
            found = await anyio.to_thread.run_sync(received, systemd)
            assert found == {"WATCHDOG": "1", "STATUS": "active, term 4"}
        tasks.cancel_scope.cancel()
    assert time.monotonic() - began >= 0.3


def test_abstract_socket_is_reached() -> None:
    name = f"\0refold-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(name)
        made.settimeout(10)
        ServiceManager({"NOTIFY_SOCKET": f"@{name[1:]}"}).ready()
        assert received(made) == {"READY": "1"}


def test_unreachable_socket_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reporter = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "absent")})
    reporter.ready()
    reporter.ready()
    [one] = caplog.records
    assert one.levelno == logging.WARNING
    assert "absent: No such file or directory" in one.getMessage()


async def test_without_a_service_manager_nothing_is_sent_and_nothing_runs() -> None:
    reporter = ServiceManager({})
    reporter.ready()
    with anyio.fail_after(5):
        await reporter.keep_alive(lambda: "active")


async def test_watchdog_of_another_process_is_not_fed(systemd: socket.socket) -> None:
    reporter = manager(systemd, WATCHDOG_USEC="1000", WATCHDOG_PID="1")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reporter.keep_alive, lambda: "standby")
        assert await anyio.to_thread.run_sync(received, systemd)
        systemd.settimeout(0.2)
        with pytest.raises(TimeoutError):
            await anyio.to_thread.run_sync(received, systemd)
        tasks.cancel_scope.cancel()
