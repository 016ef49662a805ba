"""Imports several captures of one ZooKeeper as one log, each transaction and each line once.

A capture is a folder or an archive: another day's copy, another server of the ensemble, the same
folder after it grew and its first files were purged. Logs that were imported before count as
captures, too, so their files need not exist any more.

Transactions that one capture lacks may be in another one. A `Contribution` keeps the defects of a
capture; whether the joined log lacks something is decided over all of them (`lacking`).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC
from hashlib import blake2b
from heapq import merge
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from msgspec import Struct, structs

from controller.escaping import escape_unprintable
from replay.errors import ReplayError
from replay.progress import Progress, unreported
from replay.stock_clusters.broker_logs.reading import BrokerLogs
from replay.stock_clusters.imported_log.encoding import encode_event
from replay.stock_clusters.imported_log.events import (
    DamagedFile,
    DamagedLines,
    ImportEnded,
    LoggedEvent,
    TornLog,
)
from replay.stock_clusters.imported_log.stored_source import StoredSource
from replay.stock_clusters.imports.importing import Selection, import_opened
from replay.stock_clusters.imports.report import ImportResult, SourceFindings
from replay.stock_clusters.zookeeper_log.damage import FileDamage
from replay.stock_clusters.zookeeper_log.data_folder import log_zxid
from replay.stock_clusters.zookeeper_log.merging import Contradiction
from replay.stock_clusters.zookeeper_log.source import Source, join_sources, open_source

_HOUR_MS: Final = 3_600_000
_HOURS: Final = 3
_KEY_BYTES: Final = 12


class Capture(Struct, frozen=True):
    """A folder or an archive, and the zxids of the first and last transaction in it."""

    path: str
    first_zxid: int
    last_zxid: int


class Contribution(Struct, frozen=True):
    """The defects of a capture that was imported.

    `unread` says why its end cannot be read; `ends_early` why transactions after its last one are
    missing. `warnings` are about files and lines that are left out, `not_understood` counts lines.
    """

    capture: Capture
    unread: list[str] = []
    ends_early: list[str] = []
    damages: list[FileDamage] = []
    damaged: list[DamagedFile] = []
    warnings: list[str] = []
    not_understood: int = 0


class JoinedImport(NamedTuple):
    """The result of an import of several captures: all contributions, with those of captures that
    were imported before; what the log lacks; warnings; the number of lines and requests that were
    not understood; the last record."""

    result: ImportResult
    contributions: list[Contribution]
    lacking: list[str]
    warnings: list[str]
    not_understood: int
    ended: ImportEnded


class ContradictionError(ReplayError):
    """A capture has other transactions than another one, or than a log that was imported before;
    `path` is the later one."""

    def __init__(self, path: str, other: str, zxid: int) -> None:
        super().__init__(
            f"{path} has another transaction {zxid:#x} than {other}: one of them was changed, or"
            " they belong to different ZooKeepers; to use this one, ingest it with --replace"
        )
        self.path = path
        self.other = other


def import_joined(
    captures: Sequence[Capture],
    stored: Sequence[StoredSource],
    before: Sequence[Contribution],
    log: Path,
    progress: Progress = unreported,
) -> JoinedImport:
    """Make the log in the folder `log` from captures, and from logs that were imported before with
    the contributions `before`.

    Raises ContradictionError if a capture does not belong to the others, ReplayError, LogError.
    """
    with ExitStack() as stack:
        opened = [_open_capture(one, stack, progress) for one in captures]
        source = join_sources(
            [one.source for one in opened], [one.data for one in stored], progress
        )
        names = [one.name for one in stored]
        joining = _Joining(opened, names, before)
        lines = _JoinedLines([one.broker_logs for one in opened], stored)
        name = ", ".join((*names, *(one.name for one in opened)))
        result = import_opened(name, source, lines, log, Selection(), joining.complete)
    assert joining.ended is not None, "the import was completed"
    return JoinedImport(
        result,
        joining.contributions,
        joining.lacking,
        joining.warnings,
        joining.not_understood,
        joining.ended,
    )


class _OpenedCapture(NamedTuple):
    """A capture with its files; their names begin with `name`."""

    capture: Capture
    name: str
    source: Source
    broker_logs: BrokerLogs


def _open_capture(capture: Capture, stack: ExitStack, progress: Progress) -> _OpenedCapture:
    path = Path(capture.path)
    source = stack.enter_context(open_source(path, progress, is_one_of_several=True))
    return _OpenedCapture(
        capture, escape_unprintable(path), source, BrokerLogs(source.broker_logs, UTC)
    )


class _Joining:
    """Decides at the end of an import what the joined log lacks."""

    def __init__(
        self,
        opened: Sequence[_OpenedCapture],
        stored: Sequence[str],
        before: Sequence[Contribution],
    ) -> None:
        self.contributions: list[Contribution] = []
        self.lacking: list[str] = []
        self.warnings: list[str] = []
        self.not_understood = 0
        self.ended: ImportEnded | None = None
        again = {one.capture.path for one in opened}
        self._opened = opened
        self._stored = stored
        self._before = [one for one in before if one.capture.path not in again]

    def complete(self, found: SourceFindings) -> ImportEnded:
        """The last record. Raises ContradictionError."""
        mixed = [text for one in found.logs.contradictions for text in self._check(one)]
        self.contributions = [*self._before]
        self.contributions += [self._contribution(one, found) for one in self._opened]
        damages = [
            damage
            for one in self.contributions
            for damage in one.damages
            if _is_lost(damage, found)
        ]
        cut = _cut_notes(self.contributions, found.logs.zxid)
        ended = found.ended
        missing = [f"{ended.missing_before} transactions before the first state are missing"]
        self.lacking = [
            *mixed,
            *map(str, damages),
            *cut,
            *map(str, found.gaps),
            *(missing if ended.missing_before else ()),
            *found.altered,
        ]
        self.warnings = [text for one in self.contributions for text in one.warnings]
        self.warnings += found.others
        self.not_understood = found.unreadable + sum(
            one.not_understood for one in self.contributions
        )
        self.ended = structs.replace(
            ended,
            damages=damages,
            damaged=self._damaged_files(found, damages),
            notes=[*cut, *found.altered, *self.warnings],
            is_cut=bool(cut) or any(one.zxid == found.logs.zxid for one in damages),
        )
        return self.ended

    def _damaged_files(
        self, found: SourceFindings, lost: Sequence[FileDamage]
    ) -> list[DamagedFile]:
        """The damaged files, without those that another capture makes up for."""
        counts = Counter({one.file: one.count for one in found.ended.damaged})
        for one in self._before:
            counts.update({each.file: each.count for each in one.damaged})
        damages = {*found.source.damages, *found.logs.damages}
        counts.subtract(one.file for one in damages - {*lost} if not one.is_torn)
        return [DamagedFile(*one) for one in sorted((+counts).items())]

    def _check(self, one: Contradiction) -> Iterator[str]:
        """The contradictions between files of one capture. Raises ContradictionError for files of
        different captures.
        """
        path, other = self._owner(one.file), self._owner(one.other)
        if path == other:
            yield (
                f"{one.file} has another transaction {one.zxid:#x} than {one.other} and is not read"
                " further: if they belong to different ZooKeepers, name their folders separately"
            )
            return
        if path in self._stored:
            path, other = other, path
        raise ContradictionError(path, other, one.zxid)

    def _owner(self, file: str) -> str:
        """The capture or the earlier log that a file belongs to."""
        owners = (*(one.name for one in self._opened), *self._stored)
        return next((one for one in owners if file.startswith(f"{one}/")), file)

    def _contribution(self, opened: _OpenedCapture, found: SourceFindings) -> Contribution:
        capture, name, source, broker_logs = opened
        logs = found.logs
        damages = (*found.source.damages, *logs.damages)
        misplaced = [str(one) for one in logs.misplaced if self._owner(one.file) == name]
        renamed = [one for one in logs.renamed if self._owner(one) == name]
        damaged = [DamagedFile(*one) for one in sorted(broker_logs.damaged.items())]
        return Contribution(
            capture,
            unread=source.notes if source.is_cut else [],
            ends_early=found.source.uncovered if capture.last_zxid == logs.zxid else [],
            damages=[one for one in damages if self._owner(one.file) == name],
            damaged=damaged,
            warnings=[
                *(() if source.is_cut else source.notes),
                *renamed,
                *misplaced,
                *broker_logs.notes,
            ],
            not_understood=broker_logs.not_understood,
        )


def _is_lost(damage: FileDamage, found: SourceFindings) -> bool:
    """Whether no capture has what is after the damage."""
    if damage.is_torn or damage.is_snapshot:
        return False
    zxid = damage.zxid
    if zxid is None:
        begin = log_zxid(PurePosixPath(damage.file).name)
        zxid = 0 if begin is None else begin - 1
    logs = found.logs
    is_outside = not logs.begin <= zxid < logs.zxid
    return is_outside or any(gap.after <= zxid < gap.before for gap in found.gaps)


def _cut_notes(contributions: Sequence[Contribution], last: int) -> list[str]:
    """Why the end of the log may be missing."""
    ending = [one for one in contributions if one.capture.last_zxid == last]
    is_whole = any(not one.unread for one in ending)
    unread = [text for one in ending if not is_whole for text in one.unread]
    return [*unread, *(text for one in ending for text in one.ends_early)]


class _JoinedLines:
    """The lines of the brokers' logs of all captures. If several captures contain a line, the
    highest count in one capture is used."""

    def __init__(self, opened: Sequence[BrokerLogs], stored: Sequence[StoredSource]) -> None:
        self._opened = opened
        self._stored = stored

    @property
    def notes(self) -> list[str]:
        return [note for one in self._opened for note in one.notes]

    @property
    def damaged(self) -> dict[str, int]:
        return {file: count for one in self._opened for file, count in one.damaged.items()}

    @property
    def torn(self) -> list[TornLog]:
        """Empty if there are several captures: a later one may continue."""
        captures = len(self._opened) + len(self._stored)
        return self._opened[0].torn if self._opened and captures == 1 else []

    @property
    def damaged_lines(self) -> list[DamagedLines]:
        """Empty if there are several captures: another one may have the lines."""
        captures = len(self._opened) + len(self._stored)
        return self._opened[0].damaged_lines if self._opened and captures == 1 else []

    def events(self, kinds: Sequence[str] | None = None) -> Iterator[LoggedEvent]:
        lines = [one.lines(kinds) for one in self._stored]
        lines += [one.events(kinds) for one in self._opened]
        return lines[0] if len(lines) == 1 else _each_once(lines)


def _each_once(captures: Sequence[Iterator[LoggedEvent]]) -> Iterator[LoggedEvent]:
    # By hour of the log, so that memory does not grow with its length.
    hours: dict[int, dict[bytes, list[int]]] = {}
    numbered = [_numbered_lines(number, lines) for number, lines in enumerate(captures)]
    for number, line in merge(*numbered, key=lambda one: one[1].time_ms):
        seen = hours.setdefault(line.time_ms // _HOUR_MS, {})
        counts = seen.setdefault(_key(line), [0] * len(captures))
        is_new = counts[number] == max(counts)
        counts[number] += 1
        if is_new:
            yield line
        if len(hours) > _HOURS:
            del hours[min(hours)]


def _numbered_lines(number: int, lines: Iterator[LoggedEvent]) -> Iterator[tuple[int, LoggedEvent]]:
    return ((number, line) for line in lines)


def _key(line: LoggedEvent) -> bytes:
    text = f"{line.time_ms} {line.channel} ".encode() + encode_event(line.event)
    return blake2b(text, digest_size=_KEY_BYTES).digest()
