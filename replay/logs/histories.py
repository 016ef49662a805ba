"""Writes the history of a simulated process as a log."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from controller.event_log.records import command_record, event_record
from controller.fingerprint import code_version
from eventstore.records import Header
from eventstore.writer import LogWriter
from replay.logs.folding import AnyIssued, AnyRecorded

_WRITTEN_AT_ONCE: Final = 500


def write_history(
    folder: Path,
    history: Sequence[tuple[AnyRecorded, Sequence[AnyIssued]]],
    configuration: msgspec.Struct,
    *,
    core_fingerprint: str,
    cluster_id: str,
) -> None:
    """Write the log of one run: its events, at least one, each with the commands that it caused.
    `configuration` is that of the fold, and `core_fingerprint` that of its core. Raises LogError.
    """
    header = Header(
        kind="recorded",
        core_fingerprint=core_fingerprint,
        code_version=code_version(),
        configuration=msgspec.to_builtins(configuration),
        cluster_id=cluster_id,
        created_ns=history[0][0].wall_ns,
    )
    with LogWriter.create(folder, header) as writer:
        for place in range(0, len(history), _WRITTEN_AT_ONCE):
            some = history[place : place + _WRITTEN_AT_ONCE]
            writer.append(
                [event_record(recorded) for recorded, _ in some],
                [command_record(one) for _, issued in some for one in issued],
            )
