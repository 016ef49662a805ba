"""Merges a server's transaction logs: in the order of zxids, each transaction once.

A server begins a new file after each snapshot and each start, named after its first zxid.
Transactions that come twice, as in copies taken at different times, are skipped. A file that does
not belong to the others does not affect them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush, heapreplace
from pathlib import PurePosixPath
from typing import Final, Literal, Self

from msgspec import Struct, structs

from replay.errors import unreadable
from replay.stock_clusters.zookeeper_log.damage import FileDamage
from replay.stock_clusters.zookeeper_log.data_folder import SourceFile, by_zxid
from replay.stock_clusters.zookeeper_log.record_order import MisplacedRecord, RecordOrder
from replay.stock_clusters.zookeeper_log.transactions import Transaction

_MANY: Final = 8

Place = Literal["ahead", "behind", "again"]
_WORDS: Final[Mapping[Place, str]] = {
    "ahead": "come before lower ones",
    "behind": "come after a later one",
    "again": "are repeated",
}


class Gap(Struct, frozen=True):
    """Missing transactions between two others, or between a snapshot and a transaction.

    They can be counted within an epoch (the upper half of a zxid). How many more a leader wrote
    before the next epoch is only known by a snapshot. `is_displaced`: the transactions exist, but
    at a wrong position.
    """

    after: int
    before: int
    is_displaced: bool = False

    @property
    def is_wide(self) -> bool:
        """Whether too many are missing to know the controller's reads. A few missing transactions
        show in its decisions."""
        return self.before - self.after > _MANY

    def __str__(self) -> str:
        what = "are out of order" if self.is_displaced else "are missing"
        return f"transactions between zxid {self.after:#x} and {self.before:#x} {what}"

    @property
    def count(self) -> int:
        """How many are missing, within an epoch."""
        return self.before - self.after - 1

    @property
    def at_least(self) -> int:
        """The least number of missing transactions; those of earlier epochs cannot be counted."""
        is_within = self.before >> 32 == self.after >> 32
        return self.count if is_within else max((self.before & 0xFFFFFFFF) - 1, 1)

    def up_to(self, zxid: int) -> Self:
        """The part of the gap up to a transaction."""
        return structs.replace(self, before=min(self.before, zxid + 1))

    def has(self, zxid: int) -> bool:
        """Whether a transaction is in the gap."""
        return self.after < zxid < self.before


class UnwatchedChanges(Struct, frozen=True):
    """ZooKeeper's changes after transaction `after`, up to the beginning of another session that
    watches. How many transactions these are is unknown."""

    after: int

    def __str__(self) -> str:
        return f"the changes after zxid {self.after:#x} were not seen, because the session ended"


class Contradiction(Struct, frozen=True):
    """Two files that have different transactions with the same zxid; `file` is not read further."""

    file: str
    other: str
    zxid: int


class MisplacedRecords(Struct, frozen=True):
    """Records at a position where no server writes them: before lower zxids, after a higher one, or
    with a zxid that exists already."""

    file: str
    where: Place
    records: tuple[MisplacedRecord, ...]

    def __str__(self) -> str:
        first = self.records[0]
        return (
            f"{self.file}: {len(self.records)} transactions {_WORDS[self.where]}, the first at"
            f" offset {first.offset} with zxid {first.zxid:#x}: no server writes them there, so"
            " they are skipped"
        )


class MergedLogs:
    """Iterates over the transactions after zxid `after`; reads each file once.

    The files may be copies, or those of several servers, in several folders. During and after the
    iteration, `damages`, `gaps`, `contradictions` and `misplaced` describe what was found so far.
    `read` counts the transactions, `repeated` the skipped ones; `begin` is `after`, `file` the file
    of the last one.
    Raises ReplayError if a file cannot be read at all.
    """

    def __init__(
        self,
        logs: Sequence[SourceFile],
        after: int = 0,
        on_bytes: Callable[[int], None] = lambda _: None,
        known: Sequence[int] = (),
    ) -> None:
        """`known` are zxids that other files prove: snapshots are named after one."""
        self.damages: list[FileDamage] = []
        self.gaps: list[Gap] = []
        self.contradictions: list[Contradiction] = []
        self.read = 0
        self.repeated = 0
        self.zxid = after
        self.file = ""
        self.begin = after
        self._known = [one for one in known if not is_epochs_start(one)]
        folders: dict[PurePosixPath, list[SourceFile]] = {}
        for log in logs:
            folders.setdefault(PurePosixPath(log.name).parent, []).append(log)
        self._logs = by_zxid(log for one in folders.values() for log in logs_after(one, after))
        self._on_bytes = on_bytes
        self._files: dict[int, RecordOrder] = {}
        self._cut: dict[int, str] = {}

    @property
    def size(self) -> int:
        """The number of bytes to read in total."""
        return sum(log.size for log in self._logs)

    def __iter__(self) -> Iterator[Transaction]:
        start = self.zxid
        for transaction in self._in_order():
            zxid = transaction.zxid
            if zxid > self.zxid:
                # The first zxid of an empty ZooKeeper is known, too.
                if zxid != self.zxid + 1 and self._is_gap(self.zxid, zxid):
                    self.gaps.append(Gap(self.zxid, zxid))
                self.zxid = zxid
                self.read += 1
                yield transaction
            elif zxid > start:
                self.repeated += 1

    @property
    def cut(self) -> str:
        """The file that ends with the last transaction, or within the record after it, without the
        zeros that a server leaves there; "" if there is none."""
        return self._cut.get(self.zxid, "")

    @property
    def misplaced(self) -> list[MisplacedRecords]:
        """The records at wrong positions, by file; all are skipped."""
        return [one for file in self._files.values() for one in self._misplaced_in(file)]

    @property
    def renamed(self) -> list[str]:
        """Notes about files whose names have a later zxid than their first transaction."""
        return [
            f"{one.log.name} begins with zxid {one.begin:#x}: no server gives it this name"
            for one in self._files.values()
            if one.begin is not None
        ]

    def covers(self, zxid: int) -> bool:
        """Whether a transaction was read, or is the one before the first, and is in no gap."""
        return self.begin <= zxid <= self.zxid and not self._is_missing(zxid)

    def _is_missing(self, zxid: int) -> bool:
        return any(one.has(zxid) for one in self.gaps)

    def _is_gap(self, last: int, zxid: int) -> bool:
        return not follows(zxid, last) or any(last < one < zxid for one in self._known)

    def _in_order(self) -> Iterator[Transaction]:
        """All transactions by zxid. A file is opened when it can have the next one, so mostly one
        is open."""
        heads: list[tuple[int, bool, int, Transaction, Iterator[Transaction]]] = []
        opened = 0
        last: tuple[int, Transaction] | None = None
        while heads or opened < len(self._logs):
            while opened < len(self._logs) and (
                not heads or self._logs[opened].zxid <= heads[0][0]
            ):
                rest = self._transactions(opened)
                if (first := next(rest, None)) is not None:
                    is_last_choice = self._logs[opened].is_replaced
                    heappush(heads, (first.zxid, is_last_choice, opened, first, rest))
                opened += 1
            if heads:
                zxid, is_replaced, place, transaction, rest = heads[0]
                is_other = last is not None and last[1].zxid == zxid and last[0] != place
                if is_other and last is not None and last[1] != transaction:
                    if not is_replaced:
                        self._refuse(place, zxid, last[0])
                        heappop(heads)
                        continue
                else:
                    if last is None or last[1].zxid != zxid:
                        last = (place, transaction)
                    self.file = self._logs[place].name
                    yield transaction
                if (following := next(rest, None)) is None:
                    heappop(heads)
                else:
                    heapreplace(heads, (following.zxid, is_replaced, place, following, rest))

    def _refuse(self, place: int, zxid: int, other: int) -> None:
        """Stop reading a file that contradicts an earlier one."""
        file, of_other = self._logs[place].name, self._logs[other].name
        self.contradictions.append(Contradiction(file, of_other, zxid))
        reason = (
            f"its transaction {zxid:#x} differs from the one in {of_other}: it"
            " belongs to another ZooKeeper"
        )
        self.damages.append(self._files[place].refused(reason))

    def _transactions(self, place: int) -> Iterator[Transaction]:
        log = self._logs[place]
        try:
            with log.transactions(self._on_bytes) as reader:
                file = self._files[place] = RecordOrder(reader, log)
                yield from file
        except OSError as error:
            raise unreadable(log.name, error) from None
        if reader.damage is not None:
            self.damages.append(reader.damage)
        if reader.is_cut and reader.zxid is not None:
            self._cut[reader.zxid] = log.name
        self._mark_displaced(file)

    def _mark_displaced(self, file: RecordOrder) -> None:
        """Mark gaps whose transactions are elsewhere in the file."""
        zxids = {one.zxid for one in (*file.ahead, *file.behind)}
        for place, gap in enumerate(self.gaps):
            if sum(map(gap.has, zxids)) == gap.count:
                self.gaps[place] = structs.replace(gap, is_displaced=True)

    def _misplaced_in(self, file: RecordOrder) -> Iterator[MisplacedRecords]:
        by_place: dict[Place, list[MisplacedRecord]] = {"ahead": list(file.ahead)}
        for one in file.behind:
            place: Place = "behind" if self._is_missing(one.zxid) else "again"
            by_place.setdefault(place, []).append(one)
        for where, records in by_place.items():
            if records:
                yield MisplacedRecords(file.log.name, where, tuple(records))


def follows(zxid: int, last: int) -> bool:
    """Whether `zxid` is the next transaction after `last`, or the first one of an epoch."""
    return zxid == last + 1 or (zxid >> 32 > last >> 32 and zxid & 0xFFFFFFFF == 1)


def is_epochs_start(zxid: int) -> bool:
    """Whether this is an epoch's zxid before its first transaction."""
    return zxid & 0xFFFFFFFF == 0


def is_first(zxid: int) -> bool:
    """Whether this is a ZooKeeper's first zxid, of a single server or of the first leader."""
    return zxid in (1, 1 << 32 | 1)


def logs_after(logs: Sequence[SourceFile], after: int) -> list[SourceFile]:
    """The logs that can have transactions after zxid `after`, in the given order, which is sorted.

    The last file that begins before `after` may continue after it (FileTxnLog.getLogFiles).
    """
    behind = [place for place, log in enumerate(logs) if log.zxid > after + 1]
    first = behind[0] - 1 if behind else len(logs) - 1
    return list(logs[max(first, 0) :])
