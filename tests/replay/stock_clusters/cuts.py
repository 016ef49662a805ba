"""Copies of an incident that lack a part; `refold agree` has to agree on the rest.

    for cut in cuts(folder, copies, seed=7): ...

The snapshots that are written contain the state from the transactions, with open ACLs.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final

from msgspec import Struct

from replay.errors import ReplayError
from replay.stock_clusters.imports.terms import find_znode
from replay.stock_clusters.zookeeper_log.data_folder import broker_log_kind, snapshot_zxid
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.snapshot_file import OPEN_ACL_ID
from replay.stock_clusters.zookeeper_log.source import Source, open_source
from replay.stock_clusters.zookeeper_log.transactions import Transaction
from replay.znode_tree.paths import ROOT
from replay.znode_tree.tree import Znode
from tools.zookeeper_log.file_format import log_header, log_record, write_snapshot
from tools.zookeeper_log.incidents import (
    IncidentTransactions,
    copy_all_but_logs,
    transactions_of,
    write_again,
)

_LOG_TIME: Final = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\] ")
_RECORD_HEAD_BYTES: Final = 12
_AFTER_ALL: Final = 2**63 - 1
_WRITE_PROBABILITY: Final = 0.3
"""The probability that a transaction is applied before the next znode while a snapshot is taken."""


class Cut(Struct, frozen=True):
    """A copy in `folder`, cut in one of CUTS. `zxid` is the snapshot's, or that of the last
    complete transaction.

    `are_logs_cut`: the brokers' logs contain only lines from `from_ms` to `to_ms`, the times of the
    first transaction after the snapshot and of the last one; else they are complete.
    """

    how: str
    folder: Path
    zxid: int
    from_ms: int
    to_ms: int
    are_logs_cut: bool = False


class _Range(Struct, frozen=True):
    """The transactions that are kept: after one zxid, up to another."""

    after: int = 0
    up_to: int = _AFTER_ALL

    def has(self, zxid: int) -> bool:
        return self.after < zxid <= self.up_to


class _Places(Struct, frozen=True):
    """Where an incident can be cut: its zxids, those after which there is a controller, and the
    time of each transaction."""

    zxids: list[int]
    in_term: list[int]
    times_ms: Mapping[int, int]

    @property
    def after_first_controller(self) -> list[int]:
        return [zxid for zxid in self.zxids if zxid > self.in_term[0]]


def cuts(source: Path, target: Path, seed: int) -> list[Cut]:
    """Cut an incident's folder in all CUTS, with complete and with cut brokers' logs, into folders
    below `target`. Raises ReplayError if the source cannot be used, or if it is too short."""
    random = Random(seed)
    made = []
    with open_source(source) as opened:
        places = _places(opened)
        for how, cutter in _CUTTERS.items():
            folder = target / how
            copy_all_but_logs(source, folder)
            left = cutter(opened, folder, places, random)
            times_ms = [places.times_ms[zxid] for zxid in places.zxids if left.has(zxid)]
            whole = Cut(how, folder, left.after or left.up_to, times_ms[0], times_ms[-1])
            made += [whole, _with_logs_cut(whole)]
    return made


def ended_at(zxid: int, source: Path, folder: Path) -> Cut:
    """A copy of an incident's folder that ends after a transaction, including the brokers' logs."""
    with open_source(source) as opened:
        places = _places(opened)
        copy_all_but_logs(source, folder)
        left = _end(opened, folder, zxid)
    times_ms = [places.times_ms[one] for one in places.zxids if left.has(one)]
    return _with_logs_cut(Cut("ended", folder, zxid, times_ms[0], times_ms[-1]))


def _places(source: Source) -> _Places:
    incident = IncidentTransactions(source)
    times_ms: dict[int, int] = {}
    in_term: list[int] = []
    before_last_election = last = 0
    for transaction in incident:
        if incident.terms.current is not None and last:
            in_term.append(last)
        if incident.terms.elected(transaction) is not None:
            before_last_election = len(in_term)
        last = transaction.zxid
        times_ms[last] = transaction.time_ms
    # Decisions before the next election are warm: prefer places that an election follows.
    in_term = in_term[:before_last_election] or in_term
    if not in_term:
        raise ReplayError(f"{source.server.name} has too few transactions of a controller")
    return _Places([*times_ms], in_term, times_ms)


# Each cutter writes snapshots and logs to the copy, and returns what an import finds in it.

_Cutter = Callable[[Source, Path, _Places, Random], _Range]


def _snapshot(source: Source, folder: Path, places: _Places, random: Random) -> _Range:
    zxid = random.choice(places.zxids[:-1])
    _write_exact_snapshot(source, folder, zxid)
    # With the first transaction the snapshot would not be needed.
    _write_logs(source, folder, _Range(after=places.zxids[0]))
    return _Range(after=zxid)


def _mid_term(source: Source, folder: Path, places: _Places, random: Random) -> _Range:
    left = _Range(after=random.choice(places.in_term))
    _write_exact_snapshot(source, folder, left.after)
    _write_logs(source, folder, left)
    return left


def _fuzzy(source: Source, folder: Path, places: _Places, random: Random) -> _Range:
    for zxid in random.sample(places.in_term, len(places.in_term)):
        begins = [one for one in places.zxids if one < zxid]
        state, following = _state_at(source, zxid)
        sessions = dict(state.sessions)
        listing = list(_changed_children(random, state, following))
        if begins and not _was_ever_held(source, listing):
            _write_snapshot_file(source, folder, zxid, sessions, listing, state.zxid)
            _write_logs(source, folder, _Range(after=random.choice(begins)))
            return _Range(after=zxid)
    raise ReplayError(f"{source.server.name} has too few transactions for a fuzzy snapshot")


def _torn(source: Source, folder: Path, places: _Places, random: Random) -> _Range:
    """The last record is cut off; zeros of the preallocated file may follow."""
    torn = random.choice(places.after_first_controller)
    path = _write_logs(source, folder, _Range(up_to=torn))
    left = _Range(up_to=max(zxid for zxid in places.zxids if zxid < torn))
    _drop_snapshots(folder, left)
    filled_bytes = path.stat().st_size
    records = [len(log_record(one)) for one in transactions_of(path)]
    kept = random.randrange(_RECORD_HEAD_BYTES, records[-1])
    os.truncate(path, len(log_header()) + sum(records[:-1]) + kept)
    if random.random() < 0.5:
        os.truncate(path, filled_bytes)
    return left


def _ended(source: Source, folder: Path, places: _Places, random: Random) -> _Range:
    return _end(source, folder, random.choice(places.after_first_controller))


def _end(source: Source, folder: Path, zxid: int) -> _Range:
    left = _Range(up_to=zxid)
    _drop_snapshots(folder, left)
    _write_logs(source, folder, left)
    return left


_CUTTERS: Final[Mapping[str, _Cutter]] = {
    "snapshot": _snapshot,
    "mid_term": _mid_term,
    "fuzzy": _fuzzy,
    "torn": _torn,
    "ended": _ended,
}

CUTS: Final = tuple(_CUTTERS)
""""snapshot": a snapshot at any zxid, with all transactions but the first. "mid_term": a snapshot
within a term, with the transactions after it. "fuzzy": a snapshot within a term that contains later
transactions, and logs that begin before it. "torn": a log that ends within a record, with earlier
snapshots. "ended": a log that ends after a record."""


def _write_logs(source: Source, folder: Path, left: _Range) -> Path:
    """Write the transactions that are kept; returns the last file."""
    written = [
        write_again(log, folder, (one for one in transactions_of(log.path) if left.has(one.zxid)))
        for log in source.server.logs
    ]
    return [path for path in written if path is not None][-1]


def _drop_snapshots(folder: Path, left: _Range) -> None:
    """Remove snapshots that a server could not have taken yet."""
    for path in folder.rglob("snapshot.*"):
        zxid = snapshot_zxid(path.name)
        if zxid is not None and zxid > left.up_to:
            path.unlink()


_Listing = tuple[str, int, Znode]


def _write_exact_snapshot(source: Source, folder: Path, zxid: int) -> None:
    state, _ = _state_at(source, zxid)
    listing = [(path, OPEN_ACL_ID, znode) for path, znode in sorted(state.tree.dump().items())]
    _write_snapshot_file(source, folder, zxid, state.sessions, listing, zxid)


def _write_snapshot_file(
    source: Source,
    folder: Path,
    zxid: int,
    sessions: Mapping[int, int],
    znodes: list[_Listing],
    last_zxid: int,
) -> None:
    """Write the only snapshot of the copy; the server finished it at `last_zxid`."""
    _drop_snapshots(folder, _Range(up_to=-1))
    where = (folder / source.server.logs[0].name).with_name(f"snapshot.{zxid:x}")
    with where.open("wb") as stream:
        write_snapshot(stream, sessions, {}, znodes, last_zxid=last_zxid)


def _state_at(source: Source, zxid: int) -> tuple[ZooKeeperState, Iterator[Transaction]]:
    """The state after a transaction, and the following transactions."""
    state = source.first_state()
    following = iter(source.transactions(state.zxid))
    while state.zxid < zxid:
        state.apply(next(following))
    return state, following


def _changed_children(
    random: Random, state: ZooKeeperState, following: Iterator[Transaction], path: str = ROOT
) -> Iterator[_Listing]:
    """A znode and its descendants, each at the time at which it is written. Transactions are
    applied meanwhile (DataTree.serializeNode)."""
    while random.random() < _WRITE_PROBABILITY:
        transaction = next(following, None)
        if transaction is not None:
            state.apply(transaction)
    znode = find_znode(state.tree, path)
    if znode is None:
        return
    names = state.tree.children(path)
    yield path, OPEN_ACL_ID, znode
    for name in random.sample(names, len(names)):
        below = f"{path.rstrip('/')}/{name}"
        yield from _changed_children(random, state, following, below)


def _was_ever_held(source: Source, listing: list[_Listing]) -> bool:
    """Whether a server had exactly these znodes at one time."""
    last = max(max(znode.mzxid, znode.pzxid) for _, _, znode in listing)
    state, _ = _state_at(source, last)
    return state.tree.dump() == {path: znode for path, _, znode in listing}


def _with_logs_cut(whole: Cut) -> Cut:
    """Another copy with only those lines of brokers' logs that are within its time."""
    folder = whole.folder.with_name(f"{whole.folder.name}-logs")
    shutil.copytree(whole.folder, folder)
    for path in folder.rglob("*"):
        if broker_log_kind(path.name) is not None:
            path.write_bytes(b"".join(_lines_between(path, whole.from_ms, whole.to_ms)))
    return Cut(whole.how, folder, whole.zxid, whole.from_ms, whole.to_ms, are_logs_cut=True)


def _lines_between(path: Path, from_ms: int, to_ms: int) -> Iterator[bytes]:
    """Lines by their times in UTC; a line without a time belongs to the previous one."""
    is_between = False
    for line in path.read_bytes().splitlines(keepends=True):
        found = _LOG_TIME.match(line)
        if found is not None:
            second = datetime.fromisoformat(found[1].decode()).replace(tzinfo=UTC)
            is_between = from_ms <= int(second.timestamp()) * 1000 + int(found[2]) <= to_ms
        if is_between:
            yield line
