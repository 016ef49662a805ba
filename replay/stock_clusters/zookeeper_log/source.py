"""Where an incident is read from: a folder or an archive with a ZooKeeper's data somewhere in it.

    with open_source(path) as source:
        state = source.first_state()
        logs = source.transactions(after=state.zxid)
        for transaction in logs: ...
        print(source.notes, logs.damages, logs.gaps)

What is wanted of an archive is unpacked to a temporary folder that goes when the source is closed.
"""

import gzip
import lzma
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, Final, NamedTuple

from eventstore.errors import FULL
from replay.errors import ReplayError
from replay.escape_path import escape_path
from replay.progress import Progress, unreported
from replay.stock_clusters.zookeeper_log.compression import BROKEN
from replay.stock_clusters.zookeeper_log.damage import Damage, DamagedSnapshotError
from replay.stock_clusters.zookeeper_log.data_folder import (
    VERSIONED,
    BrokerLog,
    DataFolder,
    SourceFile,
    broker_log_kind,
    data_folders,
    is_misnamed,
    is_wanted,
    log_zxid,
)
from replay.stock_clusters.zookeeper_log.log_file import MAGIC
from replay.stock_clusters.zookeeper_log.merging import (
    Gap,
    MergedLogs,
    follows,
    is_epochs_start,
    is_first,
)
from replay.stock_clusters.zookeeper_log.restoring import State

ARCHIVES: Final = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz")
MEMBER_BYTES_MAX: Final = 16 * 1024**3
"""Of a file in an archive: a sparse one may claim any size."""

_CHUNK_BYTES: Final = 1024 * 1024
_GZIP: Final = b"\x1f\x8b"
_XZ: Final = b"\xfd7"
_EMPTY: Final = "starts from an empty ZooKeeper: no snapshot before the logs can be used"

"""Told what is being done ("unpacking", "comparing servers", "reading"), and how many bytes are
done of how many."""

File = tuple[str, Path, int]
"""Name in the source, with slashes; path on this disk; size in bytes."""


class FirstState(NamedTuple):
    """What one can start from, and what to tell of that; how many transactions that are there come
    before it, because an earlier snapshot is damaged."""

    state: State
    note: str
    left_out: int = 0


class Source:
    """One server's data, and the brokers' logs.

    `notes` tells what was decided about the source, a sentence each: which server, which
    snapshot, what could not be read. `damages` are those of snapshots that were looked at, and of
    what lies before the first state that is used. `is_cut`: there was more than there is to read.
    """

    def __init__(
        self,
        server: DataFolder,
        broker_logs: Sequence[BrokerLog],
        notes: Sequence[str],
        progress: Progress,
        *,
        is_cut: bool,
    ) -> None:
        self.is_cut = is_cut
        self.server = server
        self.broker_logs = tuple(broker_logs)
        self.notes = list(notes)
        self.damages: list[Damage] = []
        self._progress = progress
        self._looked_at: set[SourceFile] = set()

    def transactions(self, after: int = 0) -> MergedLogs:
        """The transactions behind zxid `after`, which a snapshot holds already."""
        return _reading(self.server, after, "reading", self._progress)

    def load(self, snapshot: SourceFile) -> State:
        """What a snapshot of `server.snapshots` holds. Raises DamagedSnapshotError, or
        ReplayError if it cannot be read."""
        try:
            with snapshot.path.open("rb") as stream:
                return State.load(stream, snapshot.name, snapshot.zxid)
        except OSError as error:
            raise ReplayError(f"{snapshot.name} cannot be read: {error.strerror}") from None

    def first_state(self) -> State:
        """The first of `first_states`, which a note names. Raises ReplayError."""
        first = next(self.first_states())
        self.notes.append(first.note)
        return first.state

    def first_states(self) -> Iterator["FirstState"]:
        """The states that one can start from; the earlier, the more there is behind it, if the logs
        are whole.

        First that of the snapshot before the logs, from which a few transactions may be missing: a
        server takes one while it writes the last ones of a log. If it is damaged or there is none
        (servers before 3.5 take none of nothing), an empty ZooKeeper where they begin with the
        first transaction that one has. Then those of snapshots among the logs, whose beginning is
        then left out; then those of earlier ones, the latest first, which leaves a gap; then the
        empty one. Raises ReplayError where there is none of these.
        """
        begin = self.server.logs[0].zxid
        snapshots = self.server.snapshots
        among = [one for one in snapshots if one.zxid >= begin]
        earlier = [one for one in reversed(snapshots) if one.zxid < begin]
        before = [
            one for one in earlier if follows(begin, one.zxid) or not Gap(one.zxid, begin).is_wide
        ]
        found = False
        for state, snapshot in self.usable(before):
            found = True
            yield FirstState(state, f"starts from {snapshot.name}")
        nothing_before = all(is_epochs_start(one.zxid) for one in earlier)
        if not found and nothing_before and is_first(begin):
            found = True
            yield FirstState(State(), _EMPTY)
        for state, snapshot in self.usable(among):
            found = True
            note = f"starts from {snapshot.name}: what the logs have before it, from zxid"
            left_out = Gap(begin - 1, snapshot.zxid + 1).at_least if self.damages else 0
            yield FirstState(state, f"{note} {begin:#x} on, is left out", left_out)
        for state, snapshot in self.usable(one for one in earlier if one not in before):
            found = True
            yield FirstState(state, f"starts from {snapshot.name}")
        if not found and follows(begin, 0):
            yield FirstState(State(), _EMPTY)
        elif not found:
            damaged = "".join(f"{one}; " for one in self.damages)
            raise ReplayError(
                f"{damaged}{self.server.name}: the logs begin at zxid {begin:#x} and no snapshot"
                " before can be used; add the snapshot.* files of the same server"
            )

    def usable(self, snapshots: Iterable[SourceFile]) -> Iterator[tuple[State, SourceFile]]:
        """The states of those that are sound; `damages` and notes tell of the others."""
        for snapshot in snapshots:
            self._looked_at.add(snapshot)
            try:
                state = self.load(snapshot)
            except DamagedSnapshotError as error:
                self.damages.append(error.damage)
            except ReplayError as error:
                self.notes.append(str(error))
            else:
                yield state, snapshot

    def note_uncovered(self, logs: MergedLogs) -> None:
        """Tell of snapshots that the logs, read to their end, do not lead up to, and nobody has
        looked at: of damaged ones, and of one that shows that the end of the logs is missing."""
        uncovered = [one for one in self.server.snapshots if not logs.covers(one.zxid)]
        last: SourceFile | None = None
        for _, snapshot in self.usable(one for one in uncovered if one not in self._looked_at):
            is_later = snapshot.zxid > logs.zxid and not is_epochs_start(snapshot.zxid)
            last = snapshot if is_later else last
        if last is not None:
            self.is_cut = True
            self.notes.append(
                f"the logs end at zxid {logs.zxid:#x}, and {last.name} is of a later one: what was"
                " between is missing"
            )


@contextmanager
def open_source(path: Path, progress: Progress = unreported) -> Iterator[Source]:
    """Find the data of a ZooKeeper server in a folder or an archive.

    Of several servers the one with most transactions is taken. Raises ReplayError if there is
    none, or if the path cannot be read.
    """
    with ExitStack() as stack:
        notes: list[str] = []
        try:
            if path.is_dir():
                files = list(_walk(path, notes))
            elif path.name.endswith(ARCHIVES) and path.is_file():
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="refold-import-"))
                files = _unpack(path, Path(folder), progress, notes)
            elif path.exists():
                raise ReplayError(f"{path} is neither a folder nor one of {', '.join(ARCHIVES)}")
            else:
                raise ReplayError(f"{path} is not there")
            source = _source(path, files, notes, progress)
        except OSError as error:
            if error.errno in FULL:
                raise ReplayError(
                    f"{tempfile.gettempdir()} cannot be written: {error.strerror}; what is wanted"
                    f" of {path} is unpacked there: free space, or set TMPDIR to another folder"
                ) from None
            where = error.filename or path
            raise ReplayError(f"{where} cannot be read: {error.strerror or error}") from None
        except ReplayError as error:
            raise _with_notes(error, notes) from None
        try:
            yield source
        except ReplayError as error:
            raise _with_notes(error, notes) from None


def is_source(folder: Path) -> bool:
    """Whether there is data of a ZooKeeper server somewhere in a folder; False where that cannot be
    read."""
    try:
        return bool(_servers(_walk(folder, [])))
    except OSError:
        return False


def _with_notes(error: ReplayError, notes: Sequence[str]) -> ReplayError:
    """The error, behind what may be its reason: the archive is damaged."""
    return ReplayError("; ".join((*notes, str(error)))) if notes else error


def _source(path: Path, files: Sequence[File], notes: Sequence[str], progress: Progress) -> Source:
    """`notes` are of what was there and cannot be read."""
    is_cut = bool(notes)
    misnamed = [name for name, _, _ in sorted(files) if is_misnamed(PurePosixPath(name))]
    if misnamed:
        notes = [*notes, f"left out, as no server names its files so: {', '.join(misnamed)}"]
    servers = _servers(files)
    if not servers:
        raise ReplayError(
            f"{path} holds no transaction log of a ZooKeeper: no log.ZXID, mostly in {VERSIONED}"
        )
    broker_logs = [
        BrokerLog(kind, name, where)
        for name, where, _ in sorted(files)
        if (kind := broker_log_kind(PurePosixPath(name).name)) is not None
    ]
    if len(servers) == 1:
        return Source(servers[0], broker_logs, notes, progress, is_cut=is_cut)
    server, told = _most_complete(servers, progress)
    return Source(server, broker_logs, (*notes, *told), progress, is_cut=is_cut)


def _servers(files: Iterable[File]) -> Sequence[DataFolder]:
    return data_folders([file for file in files if _is_data(file)])


def _is_data(file: File) -> bool:
    """Whether a file is what its name says; one in version-2 is, even if it is damaged."""
    name, path, _ = file
    where = PurePosixPath(name)
    if log_zxid(where.name) is None or where.parent.name == VERSIONED:
        return True
    with path.open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def _most_complete(
    servers: Sequence[DataFolder], progress: Progress
) -> tuple[DataFolder, Sequence[str]]:
    """The server with most transactions, the later ones among equals, and what to tell of it."""
    found = []
    for server in servers:
        logs = _reading(server, 0, "comparing servers", progress)
        for _ in logs:
            pass
        found.append((logs.read, logs.zxid, server))
    found.sort(key=lambda one: (-one[0], -one[1], one[2].name))
    told = [f"{one.name}: {read} transactions up to zxid {zxid:#x}" for read, zxid, one in found]
    return found[0][2], (f"uses {told[0]}", *(f"leaves out {one}" for one in told[1:]))


def _reading(server: DataFolder, after: int, what: str, progress: Progress) -> MergedLogs:
    done = 0

    def on_bytes(count: int) -> None:
        nonlocal done
        done += count
        progress(what, done, logs.size)

    logs = MergedLogs(server.logs, after, on_bytes, [one.zxid for one in server.snapshots])
    return logs


def _walk(root: Path, notes: list[str]) -> Iterator[File]:
    """The files that can be of use; `notes` tell of what has such a name and is none."""
    for folder, _, names in os.walk(root, onerror=_refuse):
        for name in names:
            path = Path(folder, name)
            if not (is_wanted(name) or is_misnamed(path)):
                continue
            shown = escape_path(path.relative_to(root).as_posix())
            if path.is_file():
                yield shown, path, path.stat().st_size
            else:
                notes.append(f"{shown} is left out: it is a {_kind(path)}")


def _kind(path: Path) -> str:
    return "link to nothing" if path.is_symlink() else "device, socket or pipe"


def _refuse(error: OSError) -> None:
    raise error


def _unpack(archive: Path, folder: Path, progress: Progress, notes: list[str]) -> list[File]:
    """Unpack what is wanted, under names of our own: an archive may name any path.

    Of a damaged archive that is what lies before the damage, which `notes` then tells.
    """
    unpacked: dict[str, Path] = {}
    try:
        size = archive.stat().st_size
        for number, (name, content, position) in enumerate(_members(archive)):
            path = unpacked[name] = folder / str(number)
            _copy(content, path, partial(_tell, progress, position, size))
    except (*BROKEN, tarfile.TarError, lzma.LZMAError) as error:
        if not unpacked:
            raise ReplayError(f"{archive} cannot be unpacked: {error}") from None
        is_read = isinstance(error, gzip.BadGzipFile)
        what = "nobody knows which file" if is_read else f"behind {[*unpacked][-1]} it is not read"
        notes.append(f"{archive} is damaged, {what}: {error}")
    return [(name, path, path.stat().st_size) for name, path in unpacked.items()]


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes], Callable[[], int]]]:
    """The wanted files of an archive, with what tells how far it is read."""
    with archive.open("rb") as packed, _decompressed(packed) as stream:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                name = escape_path(member.name)
                path = PurePosixPath(name)
                if not member.isreg() or not (is_wanted(path.name) or is_misnamed(path)):
                    continue
                if member.size > MEMBER_BYTES_MAX:
                    raise tarfile.TarError(f"{name} has {member.size} bytes")
                content = tar.extractfile(member)
                if content is not None:
                    yield name, content, packed.tell
        # What shows whether all of it is as it was comes last.
        while stream.read(_CHUNK_BYTES):
            pass


def _decompressed(packed: BinaryIO) -> gzip.GzipFile | lzma.LZMAFile | BinaryIO:
    """tarfile's own decompression leaves checksums unchecked."""
    magic = packed.read(len(_GZIP))
    packed.seek(0)
    if magic == _GZIP:
        return gzip.open(packed)
    return lzma.open(packed) if magic == _XZ else packed


def _tell(progress: Progress, position: Callable[[], int], size: int) -> None:
    progress("unpacking", position(), size)


def _copy(content: IO[bytes], path: Path, on_chunk: Callable[[], None]) -> None:
    """Copy a file; zeros, of which logs are full, take no room on the disk."""
    with path.open("wb") as target:
        while chunk := content.read(_CHUNK_BYTES):
            if chunk.count(0) == len(chunk):
                target.seek(len(chunk), os.SEEK_CUR)
            else:
                target.write(chunk)
            target.truncate()
            on_chunk()
