"""Logs for replays, with segments as a daemon begins them, and a version that fails."""

from pathlib import Path
from typing import Final

import msgspec

from controller.core.fold import Fold
from controller.fingerprint import core_fingerprint
from eventstore.records import Header
from eventstore.writer import LogWriter
from replay.logs.decode import decode_recorded
from tests.replay.diff.versions import Edit
from tools.fleet.histories import CONFIGURATION, GeneratedHistory

HANGS_BEFORE_MS: Final = 1_700_000_000_000

FAILS_AND_HANGS: Final = Edit(
    "controller/core/fold.py",
    "        controller = self.controller\n        controller.begin(",
    f"        if recorded.wall_ns < {HANGS_BEFORE_MS}_000_000 and recorded.seq == 100:\n"
    "            import time\n"
    "            time.sleep(1e6)\n"
    "        if recorded.seq == 150:\n"
    "            raise KeyError(recorded.seq)\n"
    "        controller = self.controller\n        controller.begin(",
)
"""At event 100 of an old log the version stops making progress; at event 150 of any other log it
fails."""


def write_rolled(
    folder: Path, short_history: GeneratedHistory, cluster: str, segments: int
) -> Path:
    """A log whose daemon began new segments while its fold was idle."""
    header = Header(
        kind="recorded",
        core_fingerprint=core_fingerprint(),
        code_version="0.1.0",
        configuration=msgspec.to_builtins(CONFIGURATION),
        cluster_id=cluster,
        created_ns=short_history.begun_ms * 1_000_000,
    )
    fold, rolled = Fold(CONFIGURATION), 1
    commands = iter(short_history.commands)
    coming = next(commands, None)
    with LogWriter.create(folder, header, segment_bytes=1) as writer:
        for event in short_history.events:
            for _ in fold.apply(decode_recorded(event)):
                pass
            of_event = []
            while coming is not None and coming.cause == event.seq:
                of_event.append(coming)
                coming = next(commands, None)
            writer.append([event], of_event)
            if fold.is_idle and event.seq > rolled * len(short_history.events) // segments:
                writer.roll_if_due()
                rolled += 1
    return folder
