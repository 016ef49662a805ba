"""tools.bench.timed_daemon names what the event loop runs in words that each run repeats."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tools.bench.timed_daemon import what_runs


async def _step() -> None:
    pass


class _Plain:
    def __call__(self) -> None:
        pass

    def stop(self) -> None:
        pass


def _handles(
    monkeypatch: pytest.MonkeyPatch, main: Callable[[], Coroutine[Any, Any, None]]
) -> set[str]:
    found = set()
    plain: Callable[[asyncio.Handle], object] = getattr(asyncio.Handle, "_run")  # noqa: B009

    def noted(handle: asyncio.Handle) -> None:
        found.add(what_runs(handle))
        plain(handle)

    monkeypatch.setattr(asyncio.Handle, "_run", noted)
    asyncio.run(main())
    return found


def test_task_with_a_name_has_this_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        await asyncio.create_task(_step(), name="controller.daemon.loop")

    assert "task controller.daemon.loop" in _handles(monkeypatch, main)


def test_task_without_a_name_has_that_of_its_coroutine(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        await asyncio.create_task(_step())

    assert "task _step (test_timed_daemon.py)" in _handles(monkeypatch, main)


def test_other_callback_has_its_name_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(_Plain())
        asyncio.get_running_loop().call_soon(_Plain().stop)
        await asyncio.sleep(0)

    assert {"_Plain", "_Plain.stop"} <= _handles(monkeypatch, main)
