import asyncio
from pathlib import Path

import anyio
import pytest

from tests.listening import stop_listening
from tools.lab.ports import HOST, free_port
from tools.lab.refold import run


async def test_a_cancelled_command_is_ended(tmp_path: Path) -> None:
    """What it was connected to hears its end."""
    has_come, has_gone = asyncio.Event(), asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        has_come.set()
        await reader.read()
        writer.close()
        has_gone.set()

    server = await asyncio.start_server(listen, HOST, port := free_port())
    try:
        options = ("--zookeeper", f"{HOST}:{port}", "--broker-id", "1", "--log-dir", str(tmp_path))
        running = asyncio.create_task(
            run("run", *options, "--listeners", f"PLAINTEXT://{HOST}:{free_port()}")
        )
        await has_come.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        with anyio.fail_after(1):
            await has_gone.wait()
    finally:
        await stop_listening(server)
