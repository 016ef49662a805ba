"""tools.bench.timed_daemon names what the event loop runs in words that each run repeats."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tools.bench.timed_daemon import what_runs


async def _step() -> None:
    pass


class _Plain:
    def __call__(self) -> None:
        pass

    def stop(self) -> None:
        pass


class _NotingLoop(asyncio.SelectorEventLoop):
    """Keeps the handles of all callbacks."""

    def __init__(self) -> None:
        super().__init__()
        self.handles: list[asyncio.Handle] = []

    def call_soon(self, *args: Any, **options: Any) -> asyncio.Handle:
        """Schedule a callback."""
        handle = super().call_soon(*args, **options)
        self.handles.append(handle)
        return handle


def _noted(main: Callable[[], Coroutine[Any, Any, None]]) -> list[str]:
    loop = _NotingLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())
    return list(map(what_runs, loop.handles))


def test_task_with_a_name_has_this_name() -> None:
    async def main() -> None:
        await asyncio.create_task(_step(), name="controller.daemon.loop")

    assert "task controller.daemon.loop" in _noted(main)


def test_task_without_a_name_has_that_of_its_coroutine() -> None:
    async def main() -> None:
        await asyncio.create_task(_step())

    assert "task _step (test_timed_daemon.py)" in _noted(main)


def test_plain_callback_has_its_name_without_an_address() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(_Plain())
        asyncio.get_running_loop().call_soon(_Plain().stop)
        await asyncio.sleep(0)  # The two callbacks run.

    assert {"_Plain", "_Plain.stop"} <= set(_noted(main))
