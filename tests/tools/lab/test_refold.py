import asyncio
from pathlib import Path

import anyio
import pytest

from tests.listening import stop_listening
from tools.lab.ports import HOST, free_port
from tools.lab.refold import run


async def test_cancelled_command_is_killed(tmp_path: Path) -> None:
    """The server that it was connected to notices its end."""
    is_connected, is_disconnected = asyncio.Event(), asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_connected.set()
        await reader.read()
        writer.close()
        is_disconnected.set()

    server = await asyncio.start_server(listen, HOST, port := free_port())
    try:
        options = ("--zookeeper", f"{HOST}:{port}", "--broker-id", "1", "--log-dir", str(tmp_path))
        running = asyncio.create_task(
            run("run", *options, "--listeners", f"PLAINTEXT://{HOST}:{free_port()}")
        )
        await is_connected.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        with anyio.fail_after(1):
            await is_disconnected.wait()
    finally:
        await stop_listening(server)
