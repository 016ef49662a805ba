"""The source of an incident: a folder or an archive that contains a ZooKeeper's data.

    with open_source(path) as source:
        state = source.first_state()
        logs = source.transactions(after=state.zxid)
        for transaction in logs: ...
        print(source.notes, logs.damages, logs.gaps)

The files of an archive that can be used are unpacked to a temporary folder, which is removed when
the source is closed.
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
from typing import IO, Final, NamedTuple

from controller.escaping import escape_unprintable
from eventstore.errors import FULL
from replay.errors import ReplayError, unreadable
from replay.progress import Progress, unreported
from replay.stock_clusters.zookeeper_log.compression import BROKEN, decompressed_by_content
from replay.stock_clusters.zookeeper_log.damage import DamagedSnapshotError, FileDamage
from replay.stock_clusters.zookeeper_log.data_folder import (
    VERSIONED,
    BrokerLogFile,
    DataFolder,
    SourceFile,
    broker_log_kind,
    data_folders,
    is_misnamed,
    is_wanted,
    log_zxid,
    merge_folders,
)
from replay.stock_clusters.zookeeper_log.log_file import MAGIC
from replay.stock_clusters.zookeeper_log.merging import (
    Gap,
    MergedLogs,
    follows,
    is_epochs_start,
    is_first,
)
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState

ARCHIVES: Final = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz")
MEMBER_BYTES_MAX: Final = 16 * 1024**3
UNPACKED_BYTES_MIN: Final = 1024**3
UNPACKED_RATIO_MAX: Final = 200
"""The size of a file in an archive: a sparse file may claim any size."""

_CHUNK_BYTES: Final = 1024 * 1024
_EMPTY: Final = "starts from an empty ZooKeeper: no snapshot from before the logs can be used"


File = tuple[str, Path, int]
"""A file's name in the source, with slashes, its path on this disk, and its size in bytes."""


class FirstState(NamedTuple):
    """A state to start from, a note about it, and how many transactions before it are left out
    because an earlier snapshot is damaged."""

    state: ZooKeeperState
    note: str
    left_out: int = 0


class Source:
    """One server's data, and the brokers' logs.

    `notes` name the server and the snapshot that are used, and what cannot be read. `damages` are
    those of the examined snapshots, and of files before the first state. `is_cut`: the source had
    more than can be read. `uncovered` names a snapshot that shows that the end of the logs is
    missing.
    """

    def __init__(
        self,
        server: DataFolder,
        broker_logs: Sequence[BrokerLogFile],
        notes: Sequence[str],
        progress: Progress,
        *,
        is_cut: bool,
    ) -> None:
        self.is_cut = is_cut
        self.server = server
        self.broker_logs = tuple(broker_logs)
        self.notes = list(notes)
        self.damages: list[FileDamage] = []
        self.uncovered: list[str] = []
        self._progress = progress
        self._looked_at: set[SourceFile] = set()

    def transactions(self, after: int = 0) -> MergedLogs:
        """The transactions after zxid `after`; a snapshot includes the earlier ones."""
        return _merged_logs(self.server, after, "reading", self._progress)

    def load(self, snapshot: SourceFile) -> ZooKeeperState:
        """Load a snapshot of `server.snapshots`. Raises DamagedSnapshotError, or ReplayError if it
        cannot be read."""
        try:
            return snapshot.state()
        except OSError as error:
            raise unreadable(snapshot.name, error) from None

    def first_state(self) -> ZooKeeperState:
        """The first of `first_states`, noted in `notes`. Raises ReplayError."""
        first = next(self.first_states())
        self.notes.append(first.note)
        return first.state

    def first_states(self) -> Iterator["FirstState"]:
        """The states to start from. An earlier state has more transactions after it.

        1. The snapshot before the logs. A few transactions may be missing after it, because a
           server takes a snapshot while it writes the last transactions of a log.
        2. An empty ZooKeeper, if the snapshot before the logs is damaged or does not exist (servers
           before 3.5 take none of an empty tree) and the logs begin with the first transaction.
        3. Snapshots among the logs; the beginning of the logs is then left out.
        4. Earlier snapshots, the latest first, which leaves a gap.
        5. An empty ZooKeeper, if no transaction is missing before the logs.

        Raises ReplayError if there is no such state.
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
            yield FirstState(ZooKeeperState(), _EMPTY)
        for state, snapshot in self.usable(among):
            found = True
            note = f"starts from {snapshot.name}: the logs before it, from zxid"
            left_out = Gap(begin - 1, snapshot.zxid + 1).at_least if self.damages else 0
            yield FirstState(state, f"{note} {begin:#x} on, are left out", left_out)
        for state, snapshot in self.usable(one for one in earlier if one not in before):
            found = True
            yield FirstState(state, f"starts from {snapshot.name}")
        if not found and follows(begin, 0):
            yield FirstState(ZooKeeperState(), _EMPTY)
        elif not found:
            damaged = "".join(f"{one}; " for one in self.damages)
            raise ReplayError(
                f"{damaged}{self.server.name}: the logs begin at zxid {begin:#x} and no earlier"
                " snapshot can be used; add the snapshot.* files of the same server"
            )

    def usable(
        self, snapshots: Iterable[SourceFile]
    ) -> Iterator[tuple[ZooKeeperState, SourceFile]]:
        """The states of the sound snapshots; the others are added to `damages` or `notes`."""
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
        """Examine the snapshots that the logs, read to their end, do not reach.

        Damaged ones are noted, and one that shows that the end of the logs is missing.
        """
        uncovered = [one for one in self.server.snapshots if not logs.covers(one.zxid)]
        last: SourceFile | None = None
        for _, snapshot in self.usable(one for one in uncovered if one not in self._looked_at):
            is_later = snapshot.zxid > logs.zxid and not is_epochs_start(snapshot.zxid)
            last = snapshot if is_later else last
        if last is not None:
            self.is_cut = True
            self.uncovered.append(
                f"the logs end at zxid {logs.zxid:#x}, but {last.name} is later: the transactions"
                " between are missing"
            )
            self.notes += self.uncovered


@contextmanager
def open_source(
    path: Path, progress: Progress = unreported, *, is_one_of_several: bool = False
) -> Iterator[Source]:
    """Find the data of a ZooKeeper server in a folder or an archive.

    Of several servers, the one with most transactions is used. A source that `is_one_of_several`
    has the data of all its servers, which must belong to one ZooKeeper, and the names of its files
    begin with `path`. Raises ReplayError if there is no server, or if the path cannot be read.
    """
    with ExitStack() as stack:
        notes: list[str] = []
        try:
            if path.is_dir():
                files = list(_walk(path, notes, progress))
            elif path.name.endswith(ARCHIVES) and path.is_file():
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="refold-import-"))
                files = _unpack(path, Path(folder), progress, notes)
            elif path.exists():
                raise ReplayError(
                    f"{path} is neither a folder nor an archive ({', '.join(ARCHIVES)})"
                )
            else:
                raise ReplayError(f"{path} does not exist")
            if is_one_of_several:
                head = escape_unprintable(path)
                files = [(f"{head}/{name}", where, size) for name, where, size in files]
            source = _source(path, files, notes, progress, has_every_server=is_one_of_several)
        except OSError as error:
            if error.errno in FULL:
                raise ReplayError(
                    f"{tempfile.gettempdir()} cannot be written: {error.strerror}; {path} is"
                    " unpacked there: free space, or set TMPDIR to another folder"
                ) from None
            raise unreadable(error.filename or path, error) from None
        except ReplayError as error:
            raise _with_notes(error, notes) from None
        try:
            yield source
        except ReplayError as error:
            raise _with_notes(error, notes) from None


def is_source(folder: Path, progress: Progress = unreported) -> bool:
    """Whether a folder contains a ZooKeeper server's data; False if it cannot be read."""
    try:
        return any(
            log_zxid(file[1].name) is not None and _is_data(file)
            for file in _walk(folder, [], progress)
        )
    except OSError:
        return False


def _with_notes(error: ReplayError, notes: Sequence[str]) -> ReplayError:
    """The error, preceded by its possible reason: the archive is damaged."""
    return ReplayError("; ".join((*notes, str(error)))) if notes else error


def join_sources(
    sources: Sequence[Source], others: Sequence[DataFolder], progress: Progress
) -> Source:
    """The data of several sources of one ZooKeeper, and `others`, as one source without notes and
    without brokers' logs."""
    server = merge_folders([*(one.server for one in sources), *others])
    return Source(server, (), (), progress, is_cut=False)


def _source(
    path: Path,
    files: Sequence[File],
    notes: Sequence[str],
    progress: Progress,
    *,
    has_every_server: bool,
) -> Source:
    """`notes` are about files that cannot be read."""
    is_cut = bool(notes)
    misnamed = [name for name, _, _ in sorted(files) if is_misnamed(PurePosixPath(name))]
    if misnamed:
        notes = [*notes, f"left out, because no server uses these names: {', '.join(misnamed)}"]
    servers = _servers(files)
    if not servers:
        raise ReplayError(
            f"{path} has no ZooKeeper transaction log: no file log.ZXID, usually in {VERSIONED}"
        )
    broker_logs = [
        BrokerLogFile(kind, name, where)
        for name, where, _ in sorted(files)
        if (kind := broker_log_kind(PurePosixPath(name).name)) is not None
    ]
    if len(servers) == 1 or has_every_server:
        return Source(merge_folders(servers), broker_logs, notes, progress, is_cut=is_cut)
    server, chosen = _most_complete(servers, progress)
    return Source(server, broker_logs, (*notes, *chosen), progress, is_cut=is_cut)


def _servers(files: Iterable[File]) -> Sequence[DataFolder]:
    return data_folders([file for file in files if _is_data(file)])


def _is_data(file: File) -> bool:
    """Whether a file is what its name says. A file in version-2 is, even if it is damaged."""
    name, path, _ = file
    where = PurePosixPath(name)
    if log_zxid(where.name) is None or where.parent.name == VERSIONED:
        return True
    with path.open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def _most_complete(
    servers: Sequence[DataFolder], progress: Progress
) -> tuple[DataFolder, Sequence[str]]:
    """The server with most transactions, or with later ones among equals, and notes about it."""
    found = []
    for server in servers:
        logs = _merged_logs(server, 0, "comparing servers", progress)
        for _ in logs:
            pass
        found.append((logs.read, logs.zxid, server))
    found.sort(key=lambda one: (-one[0], -one[1], one[2].name))
    counts = [f"{one.name}: {read} transactions up to zxid {zxid:#x}" for read, zxid, one in found]
    return found[0][2], (f"uses {counts[0]}", *(f"leaves out {one}" for one in counts[1:]))


def _merged_logs(server: DataFolder, after: int, what: str, progress: Progress) -> MergedLogs:
    done = 0

    def on_bytes(count: int) -> None:
        nonlocal done
        done += count
        progress(what, done, logs.size)

    logs = MergedLogs(server.logs, after, on_bytes, [one.zxid for one in server.snapshots])
    return logs


def _walk(root: Path, notes: list[str], progress: Progress) -> Iterator[File]:
    """The files that can be used; other things with such names are noted. Reports the number of
    folders."""
    for number, (folder, _, names) in enumerate(os.walk(root, onerror=_refuse)):
        progress("looking for files", number, None)
        for name in names:
            path = Path(folder, name)
            if not (is_wanted(name) or is_misnamed(path)):
                continue
            shown = escape_unprintable(path.relative_to(root).as_posix())
            if path.is_file():
                yield shown, path, path.stat().st_size
            else:
                notes.append(f"{shown} is left out: it is a {_kind(path)}")


def _kind(path: Path) -> str:
    return "link to nothing" if path.is_symlink() else "device, socket or pipe"


def _refuse(error: OSError) -> None:
    raise error


def _unpack(archive: Path, folder: Path, progress: Progress, notes: list[str]) -> list[File]:
    """Unpack the files that can be used, under new names: an archive may name any path.

    Of a damaged archive, the files before the damage are unpacked, and the damage is noted.
    """
    unpacked: dict[str, Path] = {}
    try:
        size = archive.stat().st_size
        left = bytes_allowed(archive)
        for number, (name, content, position) in enumerate(_members(archive)):
            path = unpacked[name] = folder / str(number)
            report = partial(_report_position, progress, position, size)
            left = _copy(content, path, left, report)
    except (*BROKEN, tarfile.TarError, lzma.LZMAError) as error:
        if not unpacked:
            raise ReplayError(f"{archive} cannot be unpacked: {error}") from None
        is_read = isinstance(error, gzip.BadGzipFile)
        what = "in an unknown file" if is_read else f"it cannot be read after {[*unpacked][-1]}"
        notes.append(f"{archive} is damaged, {what}: {error}")
    return [(name, path, path.stat().st_size) for name, path in unpacked.items()]


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes], Callable[[], int]]]:
    """The usable files of an archive, with a function that returns the position in the archive."""
    # Not decompressed by tarfile, which does not check the checksum.
    with archive.open("rb") as packed, decompressed_by_content(packed) as stream:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                name = escape_unprintable(member.name)
                path = PurePosixPath(name)
                if not member.isreg() or not (is_wanted(path.name) or is_misnamed(path)):
                    continue
                if member.size > MEMBER_BYTES_MAX:
                    raise tarfile.TarError(f"{name} has {member.size} bytes")
                content = tar.extractfile(member)
                if content is not None:
                    yield name, content, packed.tell
        # The checksum of the archive comes last.
        while stream.read(_CHUNK_BYTES):
            pass


def _report_position(progress: Progress, position: Callable[[], int], size: int) -> None:
    progress("unpacking", position(), size)


def bytes_allowed(archive: Path) -> int:
    """How many bytes an archive may unpack to. Logs compress well; an archive with more in it was
    made to fill the disk."""
    return max(UNPACKED_BYTES_MIN, UNPACKED_RATIO_MAX * archive.stat().st_size)


def _copy(content: IO[bytes], path: Path, left: int, on_chunk: Callable[[], None]) -> int:
    """Copy a file as a sparse file: logs are filled with zeros. `left` bytes may be stored; returns
    how many may be stored after this file. Raises TarError if it has more."""
    with path.open("wb") as target:
        while chunk := content.read(_CHUNK_BYTES):
            if chunk.count(0) == len(chunk):
                target.seek(len(chunk), os.SEEK_CUR)
            else:
                left -= len(chunk)
                if left < 0:
                    raise tarfile.TarError("it unpacks to more bytes than logs of its size have")
                target.write(chunk)
            target.truncate()
            on_chunk()
    return left
