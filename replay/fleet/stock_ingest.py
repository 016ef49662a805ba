"""Adding captures of a stock cluster to its logs in the table, each transaction once.

A capture is a folder or an archive as `refold import` reads it. Captures of a cluster whose
transactions overlap or are adjacent are one log, whatever files and servers they come from; what
the table has of the log is one of its captures. If the new log only continues the one in the table,
its new records are added. Otherwise it replaces that log: earlier transactions were found, a gap
was filled, or lines of brokers' logs arrived that change what is a decision.
"""

import uuid
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import msgspec

from eventstore import folders
from eventstore.chain import CHAIN_BYTES, Row
from eventstore.segment import open_segment
from replay.errors import ReplayError
from replay.fleet.columns import STORED, Batches, Origin
from replay.fleet.day_files import DayFiles
from replay.fleet.errors import OutputError, reason_of
from replay.fleet.manifest import STOCK, stock_rows
from replay.fleet.rebuild import StoredLog, StoredSegment, rebuild
from replay.fleet.segment_ingest import all_events
from replay.fleet.segments import sortable_time
from replay.stock_clusters.imported_log.encoding import decode_event, encode_event
from replay.stock_clusters.imported_log.events import ImportEnded
from replay.stock_clusters.imported_log.stored_source import StoredSource
from replay.stock_clusters.imports.importing import first_with_kafka
from replay.stock_clusters.imports.joined import (
    Capture,
    ContradictionError,
    Contribution,
    JoinedImport,
    import_joined,
)
from replay.stock_clusters.zookeeper_log.merging import follows
from replay.stock_clusters.zookeeper_log.source import open_source

_ABOUT_IMPORT: Final = frozenset(("world_begun", "import_ended"))
_ID_CHARACTERS: Final = 8
_UNIT: Final = "stock-"
_encode: Final = msgspec.msgpack.Encoder().encode
_contributions: Final = msgspec.msgpack.Decoder(list[Contribution])

Values = dict[str, Any]


def capture_of(path: Path) -> tuple[str, Capture]:
    """The cluster id of a source, and its first and last transaction; the source's path if it does
    not contain the cluster id. Raises ReplayError."""
    with open_source(path, is_one_of_several=True) as source:
        state, root, _ = first_with_kafka(source, None)
        first, last = 0, 0
        for transaction in source.transactions(state.zxid):
            first, last = first or transaction.zxid, transaction.zxid
        if not last:
            raise ReplayError(f"{path} contains no transaction")
        return root.cluster_id or str(path), Capture(str(path), first, last)


class StockIngest:
    """Adds captures of one cluster; those with a path in `replacing` are right where the table has
    other transactions."""

    def __init__(
        self, table: Path, files: Path, cluster: str, replacing: frozenset[str] = frozenset()
    ) -> None:
        self._table = table
        self._files = files
        self._cluster = cluster
        self._replacing = replacing

    def ingest(self, captures: Sequence[Values]) -> Iterator[Values]:
        """Rows of INGESTED for the logs that the captures belong to, and for captures that are set
        aside. Raises ReplayError, LogError, OutputError."""
        containers = {one["path"]: one["container"] for one in captures}
        new = [Capture(one["path"], one["first_zxid"], one["last_zxid"]) for one in captures]
        yield from self._ingest(new, stock_rows(self._table, self._cluster), containers)

    def _ingest(
        self, captures: Sequence[Capture], known: Sequence[Values], containers: dict[str, str]
    ) -> Iterator[Values]:
        for log in _logs_of(captures, known):
            try:
                yield from self._log(log, containers)
            except ContradictionError as error:
                yield from self._contradiction(error, log, containers)
            except OutputError:
                raise
            except Exception as error:  # a damaged log must not affect the others
                for one in log.captures:
                    yield {"path": one.path, "reason": reason_of(error)}

    def _contradiction(
        self, error: ContradictionError, log: "_Log", containers: dict[str, str]
    ) -> Iterator[Values]:
        """Choose between two captures with different transactions: the one whose transactions match
        their digests, if only one does, otherwise the earlier one."""
        paths = {one.path for one in log.captures}
        left_out = error.path
        if left_out not in paths:
            # Two logs of the table contradict each other, so nothing can join them.
            yield from ({"path": path, "reason": str(error)} for path in sorted(paths))
            return
        if error.other in paths:
            if self._is_altered(error.other, log) and not self._is_altered(error.path, log):
                left_out = error.other
        elif any(map(_has_altered, log.known)) and not self._is_altered(error.path, log):
            yield from self._log(log, containers, replaces=True)
            return
        yield {"path": left_out, "reason": str(error)}
        rest = [one for one in log.captures if one.path != left_out]
        yield from self._ingest(rest, log.known, containers)

    def _is_altered(self, path: str, log: "_Log") -> bool:
        """Whether a capture has transactions that do not match their digests. Without digests none
        has."""
        captures = [one for one in log.captures if one.path == path]
        with TemporaryDirectory(prefix="refold-fleet-") as scratch:
            return import_joined(captures, [], [], Path(scratch) / "log").ended.altered > 0

    def _log(
        self, log: "_Log", containers: dict[str, str], *, replaces: bool = False
    ) -> Iterator[Values]:
        """The row of a log. With `replaces` its captures are right where the table has other
        transactions."""
        with TemporaryDirectory(prefix="refold-fleet-") as scratch:
            replaces = replaces or any(one.path in self._replacing for one in log.captures)
            begun = [self._rebuild_source(row, Path(scratch), replaces) for row in log.known]
            before = [
                one
                for row in log.known
                for one in _contributions.decode(row["contributions"])
                if not (replaces and _is_covered(one.capture, log.captures))
            ]
            folder = Path(scratch) / "log"
            joined = import_joined(log.captures, begun, before, folder)
            made = _ChainedLog(folder, self._cluster, [row["last_seq"] for row in log.known])
            row = self._row(joined, made, log, containers)
            continued = log.known[0] if len(log.known) == 1 else None
            if continued is not None and not made.continues(continued):
                continued = None
            after = 0 if continued is None else continued["last_seq"]
            row["from_seq"], row["events"] = after + 1, made.last_seq - after
            if continued is None:
                row["replaces"] = [token for one in log.known for token in one["tokens"]] or None
            elif not row["events"] and not _is_news(row, continued):
                return
            yield {**row, "token": self._write(made, after)}

    def _write(self, made: "_ChainedLog", after: int) -> str:
        """Write the records after a number; returns the token of their files."""
        files = DayFiles(self._files, uuid.uuid4().hex)
        batches = Batches(STORED, made.origin, decodes=False)
        try:
            for page in made.pages(after):
                files.add(self._cluster, batches.events(page))
        except BaseException:
            files.discard()
            raise
        files.close()
        return files.token

    def _row(
        self, joined: JoinedImport, made: "_ChainedLog", log: "_Log", containers: dict[str, str]
    ) -> Values:
        paths = [one.path for one in log.captures]
        before = (container for row in log.known for container in row["containers"])
        kept = [one for one in before if one.rpartition(" ")[0] not in paths]
        return {
            "unit": made.unit,
            "cluster": made.origin.cluster,
            "log": made.origin.log,
            "kind": STOCK,
            "path": paths[0],
            "containers": sorted({*kept, *(containers[path] for path in paths)}),
            "header": made.header,
            "first_seq": 1,
            "last_seq": made.last_seq,
            "commands": 0,
            "last_command": 0,
            "event_chain": made.chain,
            "command_chain": b"",
            "is_closed": False,
            "first_zxid": min(one.first_zxid for one in log.ranges),
            "last_zxid": max(one.last_zxid for one in log.ranges),
            "lacking": joined.lacking,
            "warnings": joined.warnings,
            "not_understood": joined.not_understood,
            "contributions": _encode(joined.contributions),
            "import_ended": encode_event(joined.ended),
        }

    def _rebuild_source(self, row: Values, scratch: Path, is_replaced: bool) -> StoredSource:
        folder = rebuild(self._table, stored_log(row), scratch / row["log"])
        return StoredSource(folder, row["log"], is_replaced=is_replaced)


def _is_covered(old: Capture, captures: Sequence[Capture]) -> bool:
    """Whether one of the captures has all transactions of an earlier one."""
    return any(
        one.first_zxid <= old.first_zxid and one.last_zxid >= old.last_zxid for one in captures
    )


def _has_altered(row: Values) -> bool:
    """Whether a log of the table has transactions that do not match their digests."""
    ended = decode_event(row["import_ended"])
    return isinstance(ended, ImportEnded) and ended.altered > 0


def stored_log(row: Values) -> StoredLog:
    """The log of a row of INGESTED with its `tokens`."""
    segment = StoredSegment(**{name: row[name] for name in _SEGMENT}, commands=0)
    return StoredLog(row["cluster"], row["log"], "world-backed", (segment,), tuple(row["tokens"]))


_SEGMENT: Final = (
    "header", "first_seq", "last_seq", "event_chain", "command_chain", "is_closed", "import_ended",
)  # fmt: skip


def _is_news(row: Values, known: Values) -> bool:
    names = ("containers", "lacking", "warnings", "not_understood", "contributions")
    return any(row[name] != known[name] for name in names)


class _Log(NamedTuple):
    """Captures of one log, and the rows of INGESTED of what the table has of it."""

    captures: list[Capture]
    known: list[Values]

    @property
    def ranges(self) -> list[Capture]:
        """The captures with those that the table has."""
        known = [Capture(one["path"], one["first_zxid"], one["last_zxid"]) for one in self.known]
        return [*self.captures, *known]


def _logs_of(captures: Sequence[Capture], known: Sequence[Values]) -> Iterator[_Log]:
    """Group captures and known logs that overlap or are adjacent, where there is a new capture."""
    ranges: list[tuple[int, int, Capture | Values]] = [
        *((one.first_zxid, one.last_zxid, one) for one in captures),
        *((one["first_zxid"], one["last_zxid"], one) for one in known),
    ]
    log, end = _Log([], []), None
    for first, last, one in sorted(ranges, key=lambda each: each[:2]):
        if end is not None and first > end and not follows(first, end):
            if log.captures:
                yield log
            log, end = _Log([], []), None
        if isinstance(one, Capture):
            log.captures.append(one)
        else:
            log.known.append(one)
        end = last if end is None else max(end, last)
    if log.captures:
        yield log


class _ChainedLog:
    """An imported log whose records are chained, without those about the import itself: two imports
    of the same transactions have the same chain."""

    def __init__(self, folder: Path, cluster: str, seqs: Sequence[int]) -> None:
        """Keeps the chain values of the records `seqs`."""
        self._segments = folders.segments_in(folder)
        with open_segment(self._segments[0]) as first:
            self.header = first.header_body.decode()
        self.last_seq, self.chain = 0, b""
        self._chains: dict[int, bytes] = {}
        first_transaction: Row | None = None
        for row in self._rows():
            if row[4] == "import_ended":
                continue
            if row[4] not in _ABOUT_IMPORT:
                self.chain = blake2b(
                    self.chain + _encode(row[:-1]), digest_size=CHAIN_BYTES
                ).digest()
            self.last_seq = _seq(row)
            if self.last_seq in seqs:
                self._chains[self.last_seq] = self.chain
            if row[4] == "transaction" and first_transaction is None:
                first_transaction = row
        if first_transaction is None:
            raise ReplayError("the source contains no transaction")
        identity = _encode([cluster, first_transaction[9]])
        self.unit = _UNIT + blake2b(identity, digest_size=CHAIN_BYTES).hexdigest()
        begun_ns = first_transaction[1]
        assert isinstance(begun_ns, int)
        name = f"{sortable_time(begun_ns)}-{self.unit.removeprefix(_UNIT)[:_ID_CHARACTERS]}"
        self.origin = Origin(cluster, name)

    def continues(self, known: Values) -> bool:
        """Whether the log begins with the records of a row of INGESTED."""
        chain: bytes | None = self._chains.get(known["last_seq"])
        return chain is not None and (known["unit"], known["event_chain"]) == (self.unit, chain)

    def pages(self, after: int) -> Iterator[list[Row]]:
        """The records after a number, without the last record of the import."""
        for segment in self._segments:
            for page in all_events(segment):
                rows = [row for row in page if after < _seq(row) <= self.last_seq]
                if rows:
                    yield rows

    def _rows(self) -> Iterator[Row]:
        for segment in self._segments:
            for page in all_events(segment):
                yield from page


def _seq(row: Row) -> int:
    seq = row[0]
    assert isinstance(seq, int)
    return seq
