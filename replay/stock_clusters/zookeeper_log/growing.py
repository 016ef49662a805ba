"""Reads the transaction logs of a running server, as the server writes them.

    logs = GrowingLogs(folder, after=zxid)
    while True:
        for one in logs.read(limit, now): ...

A server appends to its last file and begins the next one after a snapshot or a restart. It may be
in the middle of a record: an incomplete record is read again later. A file stays open while it is
read, so a purge during the reading does no harm.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from replay.errors import unreadable
from replay.stock_clusters.zookeeper_log.damage import FileDamage
from replay.stock_clusters.zookeeper_log.data_folder import log_zxid, snapshot_zxid
from replay.stock_clusters.zookeeper_log.log_file import TransactionLogReader
from replay.stock_clusters.zookeeper_log.merging import Gap, follows, is_epochs_start
from replay.stock_clusters.zookeeper_log.transactions import Transaction

_CONFIRM_SECONDS: Final = 2.0
"""Transactions count as missing only if they do not appear for this long."""
_STALLED_SECONDS: Final = 10.0
"""A record that cannot be read for this long is damaged, not being written."""


class GrowingLogs:
    """The transactions after zxid `after` in one server's folder.

    `zxid` is the last transaction, `file` the name of its file. `damages` are those of files that
    the server has left; `stalled` is what cannot be read in the file that it writes. `is_at_end`:
    the last reading found all that the server has written.
    """

    def __init__(self, folder: Path, after: int) -> None:
        self.zxid = after
        self.file = ""
        self.damages: list[FileDamage] = []
        self.stalled: FileDamage | None = None
        self.is_at_end = False
        # Every version of a znode is in the files.
        self.unseen_versions = 0
        self.unseen_zxids: set[int] = set()
        # The files do not show whether the server runs.
        self.known_ms: int | None = None
        self._folder = folder
        self._stream: BinaryIO | None = None
        self._begin = -1
        """The zxid in the name of the file that is read."""
        self._offset = 0
        self._gap_since: float | None = None
        self._stalled_since: float | None = None

    def read(self, limit: int, now: float) -> Iterator[Transaction | Gap]:
        """At most `limit` transactions that were not read yet, each gap before the transaction
        after it. `now` is a monotonic clock in seconds.

        Nothing follows a wide gap: its transactions are unknown, so a later state has to be loaded.
        Raises ReplayError.
        """
        self.is_at_end = False
        left = limit
        while True:
            # A file that exists now was begun after the last record of the one before.
            following = self._following()
            if self._stream is None:
                if following is None:
                    self.is_at_end = True
                    return
                self._open(*following)
                continue
            try:
                for one in self._read_file(left, now):
                    yield one
                    left -= 1
                    if isinstance(one, Gap) and one.is_wide:
                        return
            except OSError as error:
                raise unreadable(self._folder / self.file, error) from None
            if left <= 0 or self._gap_since is not None:
                return
            if following is None:
                self.is_at_end = True
                return
            if self.stalled is not None and not self.stalled.is_torn:
                self.damages.append(self.stalled)
            self.stalled = self._stalled_since = None
            self._open(*following)

    def close(self) -> None:
        """Close the file that is read."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _following(self) -> tuple[int, Path] | None:
        """The file to read next: at the start the one with the transaction after `zxid`."""
        named = ((log_zxid(one.name), one) for one in self._files())
        logs = sorted((zxid, path) for zxid, path in named if zxid is not None)
        later = [one for one in logs if one[0] > self._begin]
        if self._stream is None:
            reached = [one for one in logs if one[0] <= self.zxid + 1]
            later = [*reached[-1:], *(one for one in logs if one[0] > self.zxid + 1)]
        return later[0] if later else None

    def _files(self) -> list[Path]:
        try:
            return [*self._folder.iterdir()]
        except OSError as error:
            raise unreadable(self._folder, error) from None

    def _open(self, begin: int, path: Path) -> None:
        self.close()
        try:
            self._stream = path.open("rb")
        except OSError as error:
            raise unreadable(path, error) from None
        self._begin, self._offset, self.file = begin, 0, path.name

    def _read_file(self, limit: int, now: float) -> Iterator[Transaction | Gap]:
        assert self._stream is not None, "no file is open"
        self._stream.seek(self._offset)
        reader = TransactionLogReader(self._stream, self.file, start=self._offset, is_growing=True)
        for transaction in reader if limit > 0 else ():
            zxid = transaction.zxid
            if zxid > self.zxid:
                if (gap := self._gap_before(zxid)) is not None:
                    if not self._confirm_gap(now):
                        return
                    yield gap
                    if gap.is_wide:
                        return
                self._gap_since = None
                self.zxid = zxid
                self._offset = reader.end
                yield transaction
                limit -= 1
                if limit <= 0:
                    return
            else:
                self._offset = reader.end
        self._note_stalled(reader.damage, now)

    def _gap_before(self, zxid: int) -> Gap | None:
        if zxid == self.zxid + 1:
            return None
        named = (snapshot_zxid(one.name) for one in self._files())
        known = [one for one in named if one is not None and not is_epochs_start(one)]
        if follows(zxid, self.zxid) and not any(self.zxid < one < zxid for one in known):
            return None
        return Gap(self.zxid, zxid)

    def _confirm_gap(self, now: float) -> bool:
        """Note that there is a gap. Returns whether it has lasted long enough to be one."""
        if self._gap_since is None:
            self._gap_since = now
        return now - self._gap_since >= _CONFIRM_SECONDS

    def _note_stalled(self, damage: FileDamage | None, now: float) -> None:
        if damage is None:
            self.stalled = self._stalled_since = None
            return
        if self._stalled_since is None:
            self._stalled_since = now
        if now - self._stalled_since >= _STALLED_SECONDS or not damage.is_torn:
            self.stalled = damage
