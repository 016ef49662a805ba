import asyncio
import subprocess
import sys
import threading

import pytest

from controller.event_log.writer_thread import WriterThread


async def test_calls_run_one_after_the_other_in_a_separate_thread() -> None:
    loop, writer = asyncio.get_running_loop(), WriterThread("test")
    seen: list[int] = []
    calls = [loop.run_in_executor(writer, seen.append, number) for number in range(50)]
    threads = [loop.run_in_executor(writer, threading.get_ident) for _ in range(2)]
    await asyncio.gather(*calls)
    assert seen == list(range(50))
    assert len({*await asyncio.gather(*threads), threading.get_ident()}) == 2
    writer.shutdown()


async def test_error_is_raised_in_the_caller() -> None:
    writer = WriterThread("test")
    with pytest.raises(ZeroDivisionError):
        await asyncio.get_running_loop().run_in_executor(writer, lambda: 1 // 0)
    assert await asyncio.get_running_loop().run_in_executor(writer, lambda: 1) == 1
    writer.shutdown()


def test_call_that_hangs_does_not_prevent_the_exit() -> None:
    program = (
        "import threading; from controller.event_log.writer_thread import WriterThread;"
        "writer = WriterThread('test'); writer.submit(threading.Event().wait); writer.shutdown()"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=20)
    assert done.returncode == 0
