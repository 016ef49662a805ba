"""Screens as text, reviewed like code, with the texts that are highlighted as changed.

After an intended change: `pytest tests/replay/cli/debug/test_screens.py --write-screens`.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.golden import assert_golden
from tests.replay.cli.debug.terminal import debugging

FOLDER = Path(__file__).with_name("screens")
RECORDING = "tests/recordings/unclean-3.tar.xz"
SMALL, LARGE = (80, 24), (200, 60)


class Scene(NamedTuple):
    """Keys that are pressed at an event of a log."""

    keys: tuple[str, ...] = ()
    size: tuple[int, int] = SMALL
    log: str = "tests/incidents/broker-crash"
    seq: int = 72


SCENES = {
    "state": Scene(),
    "state-large": Scene(size=LARGE),
    "changes": Scene(("2",)),
    "event": Scene(("3",)),
    "why": Scene(("w", "enter")),
    "search": Scene(("r",)),
    "what-if-answer": Scene(("x", "enter"), LARGE),
    "help-large": Scene(("question_mark",), LARGE),
    "imported": Scene(log=RECORDING, seq=820),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", SCENES)
async def test_screen_is_unchanged(name: str, request: pytest.FixtureRequest) -> None:
    scene = SCENES[name]
    async with debugging(scene.log, scene.seq, scene.size) as terminal:
        await terminal.press(*scene.keys)
        columns, rows = scene.size
        assert len(terminal.lines) == rows
        assert max(map(len, terminal.lines)) <= columns
        text = f"{terminal.text}\nhighlighted: {' | '.join(terminal.highlighted)}\n"
    path = FOLDER / f"{name}.txt"
    is_written = request.config.getoption("write_screens", default=False)
    assert_golden(path, text, is_written=is_written)


def test_every_screen_has_its_scene() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(SCENES)
