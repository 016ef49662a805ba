"""Asking why of a simulated incident."""

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
    """The answer out of a log of what has happened by now."""
    log = folder / f"log-{len(list(folder.iterdir()))}"
    write_log(log, simulation)
    return asked(log, at, **about)


def asked(log: Path, at: int | None = None, **about: Any) -> Explanation:
    """The answer out of a log."""
    with open_log(log) as opened:
        return explain(opened, Subject(**about), seq_at(opened.reader, at, None))


def plain(text: str) -> str:
    """Without the times, and with a letter in the place of numbers of events."""
    return re.sub(r"event \d+", "event N", re.sub(r" \(\d{4}-[^)]*Z\)", "", text))


def first(simulation: Simulation, folder: Path, **about: Any) -> str:
    """The line that answers."""
    return plain(why(simulation, folder, **about).answer)
