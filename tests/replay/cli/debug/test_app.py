"""The terminal program, driven by keys and the mouse."""

import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList, Static, TabbedContent
from typer.testing import CliRunner

from replay.cli.debug.app import DebugApp
from replay.cli.debug.session import Session
from replay.cli.main import app
from replay.debug.cursor import Cursor
from replay.debug.playback import Playback
from replay.logs.open_log import open_log
from replay.logs.packed import log_at

INCIDENT = Path(__file__).parents[4] / "tests/incidents/broker-crash"


@asynccontextmanager
async def debugging(
    seq: int = 72, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[DebugApp, Pilot[None]]]:
    with open_log(INCIDENT) as log:
        program = DebugApp(Session(str(INCIDENT), log, Cursor(Playback(log), seq)))
        async with program.run_test(size=size) as pilot:
            await settled(program, pilot)
            yield program, pilot


async def settled(program: DebugApp, pilot: Pilot[None]) -> None:
    for _ in range(2):
        await pilot.pause()
        await program.workers.wait_for_complete()
    await pilot.pause()


async def pressed(program: DebugApp, pilot: Pilot[None], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await settled(program, pilot)


def screen_of(program: DebugApp) -> str:
    return "\n".join(
        "".join(one.text for one in strip) for strip in program.screen._compositor.render_strips()
    )


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_screen_shows_event_state_and_keys(size: tuple[int, int]) -> None:
    async with debugging(size=size) as (program, _):
        shown = screen_of(program)
        for text in ("event 72 of 124", "1 write done", "epoch 2, active", "orders-1", "Quit"):
            assert text in shown


async def test_keys_step_forward_and_backward() -> None:
    async with debugging() as (program, pilot):
        await pressed(program, pilot, "n", "right", "p", "left", "left")
        assert "event 71 of 124" in screen_of(program)
        await pressed(program, pilot, "f")
        assert "event 124 of 124" in screen_of(program)


async def test_search_backward_finds_the_last_change_of_a_leader() -> None:
    async with debugging(seq=120) as (program, pilot):
        await pressed(program, pilot, "r", *"leader", "space", *"orders", "minus", "1", "enter")
        assert "event 72 of 124" in screen_of(program)
        await pressed(program, pilot, "full_stop")
        assert "no such event after event 72" in screen_of(program)


async def test_click_on_an_event_moves_there() -> None:
    async with debugging() as (program, pilot):
        events = program.query_one("#events", OptionList)
        seq = 72 - events.highlighted + round(events.scroll_y) if events.highlighted else 0
        await pilot.click("#events", offset=(20, 0))
        await settled(program, pilot)
        assert f"event {seq} of 124" in screen_of(program)


async def test_why_shows_causes_that_lead_to_events() -> None:
    async with debugging() as (program, pilot):
        await pressed(program, pilot, "w", "enter")
        assert program.query_one("#details", TabbedContent).active == "why"
        answer = str(program.query_one("#why-text", Static).content)
        assert answer.startswith("orders-1 has leader 3 since event 72")


async def test_wrong_condition_is_refused_in_the_last_line() -> None:
    async with debugging() as (program, pilot):
        await pressed(program, pilot, "slash", *"leader", "enter")
        assert "leader T-0" in screen_of(program)


async def test_damage_that_is_reached_is_reported_in_the_last_line() -> None:
    with log_at(INCIDENT) as folder:
        [segment] = Path(folder).glob("*.refold")
        change = sqlite3.connect(segment)
        change.execute("update events set payload = x'00' where seq = 80")
        change.commit()
        change.close()
        with open_log(folder) as log:
            program = DebugApp(Session(str(folder), log, Cursor(Playback(log), 20)))
            async with program.run_test(size=(200, 24)) as pilot:
                await settled(program, pilot)
                await pressed(program, pilot, "end")
                assert "event 80: it was changed" in screen_of(program)


def test_command_without_a_terminal_names_the_commands_to_use(tmp_path: Path) -> None:
    shutil.copytree(INCIDENT, tmp_path / "incident")
    result = CliRunner().invoke(app, ["debug", str(tmp_path / "incident")])
    assert result.exit_code == 2
    assert "refold debug: this needs a terminal" in result.stderr
