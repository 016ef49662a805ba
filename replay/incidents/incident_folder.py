"""The folder of an incident: the packed log, its description, the transcript of the decisions."""

import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from eventstore.folders import make_private, segments_in
from replay.errors import ReplayError
from replay.incidents.transcript import transcript
from replay.logs.packed import LOG_OF_INCIDENT, log_at

DESCRIPTION: Final = "incident.toml"
TRANSCRIPT: Final = "transcript.txt"


class IncidentDescription(Struct, omit_defaults=True):
    """incident.toml: what happened, how the log was made, and the partition that it is about."""

    title: str
    how: str
    matters: str = ""


def require_new(folder: Path) -> None:
    """Check that the folder does not exist. Raises ReplayError."""
    if folder.exists():
        raise ReplayError(f"{folder} exists already: give the incident another name")


def keep_incident(log: Path, folder: Path, about: IncidentDescription) -> None:
    """Make the folder of an incident, for this user only, as the log. Raises ReplayError if the
    folder exists, and LogErrors."""
    require_new(folder)
    make_private(folder)
    with tarfile.open(folder / LOG_OF_INCIDENT, "w:xz") as archive:
        for segment in segments_in(log):
            archive.add(segment, f"log/{segment.name}", filter=_without_owner)
    write_description(folder, about)
    (folder / TRANSCRIPT).write_text(transcript(log), encoding="utf-8")


def write_description(folder: Path, about: IncidentDescription) -> None:
    """Write incident.toml. TOML strings have the syntax of JSON."""
    fields = msgspec.to_builtins(about)
    lines = [f"{name} = {msgspec.json.encode(text).decode()}\n" for name, text in fields.items()]
    (folder / DESCRIPTION).write_text("".join(lines), encoding="utf-8")


def incidents_in(folders: Sequence[Path]) -> list[Path]:
    """The folders that are incidents or contain incidents. Raises ReplayError if there is none."""
    found = [
        one
        for folder in folders
        for one in (folder, *sorted(folder.glob("*/")))
        if (one / LOG_OF_INCIDENT).is_file()
    ]
    if not found:
        raise ReplayError(
            f"no incident in {', '.join(map(str, folders))}: none has a {LOG_OF_INCIDENT}"
        )
    return found


@contextmanager
def incident_log(incident: Path) -> Iterator[Path]:
    """Yield the log of an incident. Raises ReplayError."""
    with log_at(incident) as log:
        yield Path(log)


def update_incident(incident: Path) -> bool:
    """Write the transcript of this version. Return whether it changed."""
    with incident_log(incident) as log:
        text = transcript(log)
    path = incident / TRANSCRIPT
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8")
    return True


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove owner and time, so that the same log results in the same archive."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member
