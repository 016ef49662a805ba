"""Measures which changed code of the core the logs execute. If the cores are the same, the executed
lines are not measured.

The executed lines of a log are stored by the fingerprint of the core. For one core, log and
configuration they are always the same.
"""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, Literal

import msgspec

from eventstore.folders import segments_in
from replay.diff.core_source import CoreSource, read_cores
from replay.diff.logs import GivenLog
from replay.diff.messages import Folded, Hello
from replay.diff.references import Version
from replay.diff.uncovered import Changes, Uncovered, changes_between, uncovered

Side = Literal["base", "head"]

_lines: Final = msgspec.json.Decoder(dict[str, list[int]])


class Coverage:
    """The changes between two versions, and the lines that the logs execute in each version that
    has changed code."""

    def __init__(
        self,
        versions: Sequence[tuple[Version, Hello]],
        settings: Mapping[str, str],
        cache: Path | None,
    ) -> None:
        """The versions are base and head. Without `cache` nothing is stored. Raises DiffError."""
        self._head = CoreSource((), ())
        self._changes = Changes()
        if len({hello.core_fingerprint for _, hello in versions}) > 1:
            base, self._head = read_cores(_core_of(*one) for one in versions)
            self._changes = changes_between(base, self._head)
        self._references = {
            side: version.reference
            for side, (version, _) in zip(("base", "head"), versions, strict=True)
        }
        self._settings = msgspec.json.encode(sorted(settings.items()))
        self._folders: dict[str, Path | None] = {
            side: cache and cache / "executed" / hello.core_fingerprint
            for side, (_, hello) in zip(("base", "head"), versions, strict=True)
        }
        self._executed: dict[str, dict[str, set[int]]] = {"base": {}, "head": {}}
        self._too_old: dict[str, None] = {}

    def sides_to_measure(self, log: GivenLog) -> frozenset[Side]:
        """The versions whose executed lines are needed for this log and are not stored."""
        changed: dict[Side, bool] = {
            "base": bool(self._changes.removed),
            "head": bool(self._changes.written or self._changes.values),
        }
        return frozenset(
            side for side, is_changed in changed.items() if is_changed and not self._load(side, log)
        )

    def add(self, side: Side, log: GivenLog, folded: Folded) -> None:
        """Add and store what a version measured."""
        if folded.executed is None:
            self._too_old[side] = None
            return
        self._add(side, folded.executed)
        path = self._path(side, log)
        if path is not None:
            # Without the file the lines are measured again.
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                with NamedTemporaryFile(dir=path.parent, delete=False) as file:
                    file.write(msgspec.json.encode(folded.executed))
                Path(file.name).replace(path)

    def uncovered(self) -> list[Uncovered]:
        """The changed code that no log executes, in versions that can be measured."""
        found = uncovered(self._changes, self._head, *map(self._lines_of, ("base", "head")))
        return [one for one in found if one.side not in self._too_old]

    def unmeasured(self) -> list[str]:
        """Why changed code was not measured: the versions that cannot do it."""
        return [
            f"{self._references[side]} is too old to report which lines it executes"
            for side in self._too_old
        ]

    def _load(self, side: Side, log: GivenLog) -> bool:
        path = self._path(side, log)
        try:
            executed = _lines.decode(path.read_bytes()) if path is not None else None
        except (OSError, msgspec.DecodeError):
            return False
        if executed is None:
            return False
        self._add(side, executed)
        return True

    def _add(self, side: str, executed: Mapping[str, Sequence[int]]) -> None:
        for file, lines in executed.items():
            self._executed[side].setdefault(file, set()).update(lines)

    def _lines_of(self, side: str) -> dict[str, frozenset[int]]:
        return {file: frozenset(lines) for file, lines in self._executed[side].items()}

    def _path(self, side: str, log: GivenLog) -> Path | None:
        folder = self._folders[side]
        if folder is None:
            return None
        digest = hashlib.blake2b(self._settings, digest_size=16)
        for segment in segments_in(log.path):
            with segment.open("rb") as file:
                while part := file.read(1 << 20):
                    digest.update(part)
        return folder / f"{digest.hexdigest()}.json"


def _core_of(version: Version, hello: Hello) -> Path:
    """The folder of a version's core. Older versions do not report it, but are in folders."""
    if version.folder is not None:
        return version.folder / "controller" / "core"
    return Path(hello.core)
