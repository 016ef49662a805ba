"""The keys of the tutorial lead to what the tutorial says."""

import re

import pytest

from tests.replay.cli.debug.terminal import ROOT, debugging

PAGE = ROOT / "docs/tutorial-what-if.md"
ALERT = 862
"""The last event before the time of the alert."""


def steps_of_the_page() -> list[tuple[list[str], list[str]]]:
    """The texts in code style of each row of the table: the keys, and what the screen shows."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    begin = lines.index("| step | press | the screen shows |") + 2
    rows = [line.strip("|").split(" | ") for line in lines[begin : lines.index("", begin)]]
    return [
        (re.findall("`([^`]+)`", press), re.findall("`([^`]+)`", shown)) for _, press, shown in rows
    ]


@pytest.mark.slow
async def test_keys_of_the_tutorial_lead_from_the_alert_to_its_cause() -> None:
    steps = steps_of_the_page()
    assert len(steps) == 6
    recording = "tests/recordings/broker-crash-2.tar.xz"
    async with debugging(recording, seq=ALERT, size=(150, 40)) as terminal:
        for press, shown in steps:
            match press:
                case [key, text]:
                    await terminal.enter(key, text)
                case [key]:
                    await terminal.press(key)
            halves = zip(*(line.partition("│")[::2] for line in terminal.lines), strict=True)
            screen = [" ".join(" ".join(half).split()) for half in halves]
            for text in shown:
                words = " ".join(text.split())
                assert words in screen[0] or words in screen[1], press
