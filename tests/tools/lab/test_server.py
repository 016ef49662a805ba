"""Starting and stopping a server process, with a small server instead of ZooKeeper and Kafka."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from tests.waiting import until_found
from tools.lab.ports import HOST, free_port
from tools.lab.server import LabError, Server


class EchoServer(Server):
    """Answers each connection with one byte."""

    program = """if True:
        import socket, sys
        with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listener:
            while True:
                listener.accept()[0].send(b"!")
    """

    def __init__(self, folder: Path) -> None:
        super().__init__("echo", folder, free_port())

    def _command(self) -> Sequence[str]:
        return (sys.executable, "-IS", "-c", self.program, str(self.port))

    async def _answers(self) -> bool:
        return await answers(self.port)


class FailingServer(EchoServer):
    """Exits immediately."""

    program = "raise SystemExit('[today] ERROR no disk')"


async def answers(port: int, seconds: float = 1) -> bool:
    try:
        with anyio.fail_after(seconds):
            async with await anyio.connect_tcp(HOST, port) as stream:
                return await stream.receive() == b"!"
    except OSError:
        return False


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_started_server_answers_and_killed_server_does_not_exist(tmp_path: Path) -> None:
    server = EchoServer(tmp_path)
    await server.start()
    pid = server.pid
    assert await answers(server.port)
    server.kill()
    assert not is_alive(pid)
    assert server.state == "down"


async def test_paused_server_does_not_answer_until_resumed(tmp_path: Path) -> None:
    server = EchoServer(tmp_path)
    await server.start()
    server.pause()
    assert server.state == "paused"
    assert not await answers(server.port, seconds=0.2)
    server.resume()
    assert await answers(server.port)
    server.close()


async def test_restarted_server_keeps_its_port(tmp_path: Path) -> None:
    server = EchoServer(tmp_path)
    await server.start()
    before = server.pid
    await server.restart()
    assert server.pid != before
    assert await answers(server.port)
    server.close()


async def test_server_that_exits_while_starting_is_reported_with_its_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"echo exited while it started: .*ERROR no disk"):
        await FailingServer(tmp_path).start()


async def test_server_that_is_not_running_has_no_pid(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="echo is not running"):
        EchoServer(tmp_path).kill()


OWNER = """if True:
    import anyio, sys, time
    from pathlib import Path
    from tests.tools.lab.test_server import EchoServer
    server = EchoServer(Path(sys.argv[1]))
    anyio.run(server.start)
    print(server.pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.sampled
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_server_ends_with_the_process_that_started_it(
    number: signal.Signals, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).parents[3],
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert is_alive(pid)
        owner.send_signal(number)
    await until_found(lambda: not is_alive(pid), "the server exits", 10)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends it on Linux only")
async def test_server_ends_with_its_guard(tmp_path: Path) -> None:
    server = EchoServer(tmp_path)
    await server.start()
    pid = server.pid
    os.kill(int(Path(f"/proc/{pid}/stat").read_text().split()[3]), signal.SIGKILL)
    await until_found(lambda: not is_alive(pid), "the server exits", 10)
    assert server.state == "down"
