"""The program on a log, driven by keys and the mouse."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rich.style import Style
from textual.pilot import Pilot
from textual.widgets import Input

from replay.cli.debug.app import DebugApp
from replay.cli.debug.session import DebugSession
from replay.debug.cursor import Cursor
from replay.debug.seekable_log import SeekableLog
from replay.index.opening import index_of
from replay.logs.open_log import open_log
from replay.progress import unreported

ROOT = Path(__file__).parents[4]


class Terminal:
    """The program in a simulated terminal."""

    def __init__(self, program: DebugApp, pilot: Pilot[None]) -> None:
        self.program = program
        self.pilot = pilot

    async def settle(self) -> None:
        """Wait until all that was asked is done and shown."""
        await self.pilot.pause()
        await self.program.workers.wait_for_complete()
        await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        """Press keys. The command of each key is done before the next key."""
        for key in keys:
            await self.pilot.press(key)
            await self.settle()

    async def enter(self, key: str, text: str) -> None:
        """Press a key that opens a dialog, and enter a text there."""
        await self.press(key)
        self.program.screen.query_one(Input).value = text
        await self.press("enter")

    async def click(self, widget: str, offset: tuple[int, int]) -> None:
        """Click with the mouse."""
        await self.pilot.click(widget, offset=offset)
        await self.settle()

    @property
    def lines(self) -> list[str]:
        """The lines of the screen, without spaces at their ends."""
        strips = self.program.screen._compositor.render_strips()
        return ["".join(one.text for one in strip).rstrip() for strip in strips]

    @property
    def text(self) -> str:
        """The whole screen."""
        return "\n".join(self.lines)

    @property
    def highlighted(self) -> list[str]:
        """The texts that are highlighted as changed."""
        strips = self.program.screen._compositor.render_strips()
        found = [one.text.strip() for strip in strips for one in strip if _is_changed(one.style)]
        return [one for one in found if one]


def _is_changed(style: Style | None) -> bool:
    return style is not None and bool(style.bold and style.reverse)


@asynccontextmanager
async def debugging(
    log: str = "tests/incidents/broker-crash", seq: int = 72, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[Terminal]:
    """The program on a log, with its index if it has one. A relative path begins at the root of the
    repository."""
    with open_log(ROOT / log) as opened, index_of(opened, unreported) as index:
        cursor = Cursor(SeekableLog(opened, index=index), seq)
        program = DebugApp(DebugSession(log, opened, cursor, index))
        program.animation_level = "none"
        async with program.run_test(size=size) as pilot:
            terminal = Terminal(program, pilot)
            await terminal.settle()
            yield terminal
