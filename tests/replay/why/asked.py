"""Answers of `refold why` about a simulated incident."""

import re
from pathlib import Path
from typing import Any

from replay.logs.open_log import open_log, seq_at
from replay.why.explain import explain
from replay.why.explanations.explanation import Explanation
from replay.why.subject import Subject
from replay.world.simulation import Simulation
from tests.replay.recorded_log import write_log


def why(simulation: Simulation, folder: Path, at: int | None = None, **about: Any) -> Explanation:
    """The answer from a log of the simulation's history."""
    log = folder / f"log-{len(list(folder.iterdir()))}"
    write_log(log, simulation)
    return asked(log, at, **about)


def asked(log: Path, at: int | None = None, **about: Any) -> Explanation:
    """The answer from a log."""
    with open_log(log) as opened:
        return explain(opened, Subject(**about), seq_at(opened.reader, at, None))


def plain(text: str) -> str:
    """The text without times, and with N in place of event numbers."""
    return re.sub(r"event \d+", "event N", re.sub(r" \(\d{4}-[^)]*Z\)", "", text))


def first(simulation: Simulation, folder: Path, **about: Any) -> str:
    """The first line of the answer."""
    return plain(why(simulation, folder, **about).answer)
