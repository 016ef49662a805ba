"""The status socket: who may connect, what a killed daemon leaves, clients that do not read."""

import asyncio
import logging
import socket
import stat
from pathlib import Path

import pytest

from controller.daemon.status_socket import StatusSocket
from controller.settings.parsing import SOCKET_PATH_BYTES_MAX

ANSWER = b'{"role":"standby"}\n'


def status_socket(folder: Path, path: Path | None = None, answer: bytes = ANSWER) -> StatusSocket:
    return StatusSocket(folder, path, lambda: answer)


def only_socket(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


async def answered(path: Path) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


def left_over(path: Path) -> Path:
    """A socket on which no process listens, as a killed daemon leaves it."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
        made.listen()
    return path


async def test_client_gets_the_answer_and_the_end(folder: Path) -> None:
    with status_socket(folder) as served:
        await served.open()
        path = only_socket(folder)
        assert path.suffix == ".sock"
        assert await answered(path) == ANSWER
        assert await answered(path) == ANSWER
    assert list(folder.iterdir()) == []


async def test_socket_is_for_the_user_of_the_daemon_only(folder: Path) -> None:
    with status_socket(folder) as served:
        await served.open()
        assert stat.S_IMODE(only_socket(folder).stat().st_mode) == 0o600


async def test_no_folder_is_created_for_the_socket(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with status_socket(folder / "logs") as served:
        await served.open()
        assert not (folder / "logs").exists()
    assert "set refold.status.socket to another path" in caplog.text


async def test_socket_of_a_killed_daemon_is_removed(folder: Path) -> None:
    left_over(folder / "status-1.sock")
    other = left_over(folder / "other.sock")
    with status_socket(folder) as served:
        await served.open()
        assert not (folder / "status-1.sock").exists()
        assert other.exists(), "the socket of another program is left alone"


async def test_configured_socket_of_a_killed_daemon_is_replaced(folder: Path) -> None:
    path = left_over(folder / "refold")
    with status_socket(folder, path) as served:
        await served.open()
        assert await answered(path) == ANSWER


async def test_two_daemons_with_one_log_folder_have_a_socket_each(folder: Path) -> None:
    with status_socket(folder) as first, status_socket(folder, answer=b"2") as second:
        await first.open()
        await second.open()
        assert {await answered(one) for one in folder.iterdir()} == {ANSWER, b"2"}


async def test_configured_socket_of_a_live_daemon_is_not_taken(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = folder / "refold"
    with status_socket(folder, path) as first, status_socket(folder, path, b"2") as second:
        await first.open()
        await second.open()
        assert await answered(path) == ANSWER
    assert "another daemon listens there" in caplog.text
    assert "refold.status.socket" in caplog.text


async def test_suspended_daemon_keeps_its_socket(folder: Path) -> None:
    path = folder / "status-1.sock"
    with socket.socket(socket.AF_UNIX) as suspended:
        suspended.bind(str(path))
        suspended.listen(0)
        clients = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        try:
            for client in clients:
                client.setblocking(False)
                client.connect_ex(str(path))
            with status_socket(folder) as served:
                await asyncio.wait_for(served.open(), 1)
                assert path.exists()
        finally:
            for client in clients:
                client.close()


async def test_file_at_the_configured_path_is_not_overwritten(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = folder / "precious"
    path.write_text("content")
    with status_socket(folder, path) as served:
        await served.open()
    assert path.read_text() == "content"
    assert caplog.text.count("the file exists and is not a socket") == 1


async def test_path_that_is_too_long_is_reported_with_its_length(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    longest = folder / ("s" * (SOCKET_PATH_BYTES_MAX - len(str(folder)) - 1))
    with status_socket(folder, longest) as served:
        await served.open()
        assert await answered(longest) == ANSWER
    assert caplog.text == ""
    too_long = longest.with_name(longest.name + "s")
    with status_socket(folder, too_long) as served:
        await served.open()
        assert not too_long.exists()
    assert f"the path has {SOCKET_PATH_BYTES_MAX + 1} bytes, and may have" in caplog.text


async def test_client_that_does_not_read_holds_nothing_up(folder: Path) -> None:
    """Its answer does not fit into the buffers of the system: it loses its connection."""
    answers = [bytes(16 << 20), ANSWER]
    with StatusSocket(folder, None, lambda: answers.pop(0)) as served:
        await served.open()
        path = only_socket(folder)
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(str(path))
            assert await asyncio.wait_for(answered(path), 1) == ANSWER
            silent.settimeout(1)
            received = 0
            while part := silent.recv(1 << 20):
                received += len(part)
            assert received < 16 << 20


async def test_failure_to_answer_closes_the_connection(folder: Path) -> None:
    def fail() -> bytes:
        raise RuntimeError("a fault")

    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, one: reported.append(one))
    with StatusSocket(folder, None, fail) as served:
        await served.open()
        assert await asyncio.wait_for(answered(only_socket(folder)), 1) == b""
    assert reported
