"""The folder of an incident: the log, packed; what it is; what is decided on it."""

import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from eventstore.folders import segments_in
from replay.errors import ReplayError
from replay.incidents.transcript import transcript
from replay.logs.packed import LOG_OF_INCIDENT, log_at

ABOUT: Final = "incident.toml"
TRANSCRIPT: Final = "transcript.txt"


class About(Struct, omit_defaults=True):
    """incident.toml: what happened, how the log was made, what of it matters."""

    title: str
    how: str
    matters: str = ""


def keep(log: Path, folder: Path, about: About) -> None:
    """Make the folder of an incident. Raises ReplayError where it is there already."""
    if folder.exists():
        raise ReplayError(f"{folder} is there already: give the incident another name")
    folder.mkdir(parents=True)
    with tarfile.open(folder / LOG_OF_INCIDENT, "w:xz") as archive:
        for segment in segments_in(log):
            archive.add(segment, f"log/{segment.name}", filter=_of_nobody)
    write_about(folder, about)
    (folder / TRANSCRIPT).write_text(transcript(log), encoding="utf-8")


def write_about(folder: Path, about: About) -> None:
    """Strings in TOML are as in JSON."""
    fields = msgspec.to_builtins(about)
    lines = [f"{name} = {msgspec.json.encode(text).decode()}\n" for name, text in fields.items()]
    (folder / ABOUT).write_text("".join(lines), encoding="utf-8")


def incidents_in(folders: Sequence[Path]) -> list[Path]:
    """The incidents among folders and in them. Raises ReplayError where there is none."""
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
def unpacked(incident: Path) -> Iterator[Path]:
    """The log of an incident, for a while. Raises ReplayError."""
    with log_at(incident) as log:
        yield Path(log)


def update(incident: Path) -> bool:
    """Write the transcript that this version gives; whether it is another one than before."""
    with unpacked(incident) as log:
        text = transcript(log)
    path = incident / TRANSCRIPT
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8")
    return True


def _of_nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """The same log gives the same archive."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member
