"""Measures which changed code of the core the logs execute, and the outcomes of its conditions. If
the cores are the same, nothing is measured.

The executed lines of a log are stored by the fingerprint of the core. For one core, log and
configuration they are always the same. The outcomes are measured each time, which costs little,
because only few conditions are changed.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Lock
from typing import Final, Literal

import msgspec

from eventstore.folders import segments_of, write_ahead_log
from replay.diff.conditions import Place
from replay.diff.core_source import CoreSource, read_cores
from replay.diff.logs import NamedLog
from replay.diff.messages import FoldedLog, Hello
from replay.diff.one_sided import OneSidedCondition, changed_conditions, one_sided, places
from replay.diff.references import Version
from replay.diff.uncovered import (
    CoreChanges,
    UncoveredCode,
    changes_between,
    only_executed,
    uncovered,
)

Side = Literal["base", "head"]

_lines: Final = msgspec.json.Decoder(dict[str, list[int]])


class ChangeCoverage:
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
        self._changes = CoreChanges()
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
        self._executed: dict[str, dict[str, dict[str, frozenset[int]]]] = {"base": {}, "head": {}}
        """By side and log: the executed lines of each file."""
        self._changed_conditions = changed_conditions(self._changes)
        self._outcomes: dict[str, dict[str, dict[Place, int]] | None] = {"base": {}, "head": {}}
        self._adding = Lock()
        self._too_old: dict[str, None] = {}
        self._digests: dict[str, str] = {}

    def sides_to_measure(self, log: NamedLog) -> frozenset[Side]:
        """The versions whose executed lines are needed for this log and are not stored."""
        changed: dict[Side, bool] = {
            "base": bool(self._changes.removed),
            "head": bool(self._changes.written or self._changes.values),
        }
        return frozenset(
            side for side, is_changed in changed.items() if is_changed and not self._load(side, log)
        )

    def conditions(self, side: Side) -> dict[str, list[Place]]:
        """The conditions whose outcomes a version measures, by file."""
        return places(self._changed_conditions, side)

    def add_outcomes(self, side: Side, folded: FoldedLog) -> None:
        """Add the outcomes of conditions in a log. Several threads may call this."""
        measured = self.conditions(side)
        with self._adding:
            known = self._outcomes[side]
            if not measured or known is None:
                return
            if folded.outcomes is None:
                self._outcomes[side] = None
                return
            for file, outcomes in folded.outcomes.items():
                of_file = known.setdefault(file, {})
                for place, outcome in zip(measured[file], outcomes, strict=True):
                    of_file[place] = of_file.get(place, 0) | outcome

    def add(self, side: Side, log: NamedLog, folded: FoldedLog) -> None:
        """Add and store the lines that a version measured."""
        if folded.executed is None:
            self._too_old[side] = None
            return
        self._add(side, log, folded.executed)
        path = self._path(side, log)
        if path is not None:
            # Without the file the lines are measured again.
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                with NamedTemporaryFile(dir=path.parent, delete=False) as file:
                    file.write(msgspec.json.encode(folded.executed))
                Path(file.name).replace(path)

    def uncovered(self) -> list[UncoveredCode]:
        """The changed code that no log executes, in versions that can be measured."""
        return self._uncovered_code(None)

    def one_sided(self) -> list[OneSidedCondition]:
        """The changed conditions that the logs do not make both true and false."""
        base, head = (self._outcomes[side] for side in ("base", "head"))
        return one_sided(self._changed_conditions, base, head, self.uncovered())

    def undistinguished(self, differing: Collection[str]) -> list[UncoveredCode]:
        """The changed code that logs execute, but none of the `differing` ones. Functions with a
        condition that is one-sided are left out."""
        named = {(one.file, one.name) for one in self.one_sided()}
        found = only_executed(self._changes, self.uncovered(), self._uncovered_code(differing))
        return [one for one in found if (one.file, one.name) not in named]

    def unmeasured(self, failed: Sequence[str]) -> list[str]:
        """Why changed code was not measured: the versions that cannot do it, and logs that
        `failed`, of which nothing is known."""
        conditions = [side for side, known in self._outcomes.items() if known is None]
        return [
            *(
                f"{self._references[side]} is too old to report which lines it executes"
                for side in self._too_old
            ),
            *(
                f"{self._references[side]} is too old to report the outcomes of conditions"
                for side in conditions
                if side not in self._too_old
            ),
            *(
                [f"no result for {', '.join(failed)}, which may execute it"]
                if failed and self._changes != CoreChanges()
                else []
            ),
        ]

    def _uncovered_code(self, logs: Collection[str] | None) -> list[UncoveredCode]:
        """The changed code that none of these logs executes; None: all logs."""
        base, head = (self._lines_of(side, logs) for side in ("base", "head"))
        found = uncovered(self._changes, self._head, base, head)
        return [one for one in found if one.side not in self._too_old]

    def _load(self, side: Side, log: NamedLog) -> bool:
        path = self._path(side, log)
        try:
            executed = _lines.decode(path.read_bytes()) if path is not None else None
        except (OSError, msgspec.DecodeError):
            return False
        if executed is None:
            return False
        self._add(side, log, executed)
        return True

    def _add(self, side: str, log: NamedLog, executed: Mapping[str, Sequence[int]]) -> None:
        self._executed[side][log.name] = {
            file: frozenset(lines) for file, lines in executed.items()
        }

    def _lines_of(self, side: str, logs: Collection[str] | None) -> dict[str, frozenset[int]]:
        found: dict[str, frozenset[int]] = {}
        for log, executed in self._executed[side].items():
            if logs is None or log in logs:
                for file, lines in executed.items():
                    found[file] = found.get(file, frozenset()) | lines
        return found

    def _path(self, side: str, log: NamedLog) -> Path | None:
        folder = self._folders[side]
        if folder is None:
            return None
        if log.name not in self._digests:
            self._digests[log.name] = self._digest(log)
        return folder / f"{self._digests[log.name]}.json"

    def _digest(self, log: NamedLog) -> str:
        """The digest of a log before it is folded: a daemon may be writing it."""
        digest = hashlib.blake2b(self._settings, digest_size=16)
        for segment in segments_of(log.path):
            for path in (segment, write_ahead_log(segment)):
                with suppress(FileNotFoundError), path.open("rb") as file:
                    while part := file.read(1 << 20):
                        digest.update(part)
        return digest.hexdigest()


def _core_of(version: Version, hello: Hello) -> Path:
    """The folder of a version's core. Older versions do not report it, but are in folders."""
    if version.folder is not None:
        return version.folder / "controller" / "core"
    return Path(hello.core)
