"""Spark's data source "zookeeper-txnlog": the transactions of a stock cluster's ZooKeeper.

    spark.read.format("zookeeper-txnlog").load("/incidents/cluster-a")

The table has one row per operation; the operations of a multi have the same zxid. Sources are the
folders and archives that `refold import` accepts; globs, and several sources separated by commas.
If a source contains several servers, the server with the most transactions is read. A damaged file
is read up to the damage.

Options: `path`; `columns`; `server`, the name of a server's folder in the source; `cluster`, the
value of that column (default: the file name of the source).
"""

from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from msgspec import Struct
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from controller.core.errors import ZnodeError
from controller.core.values import LeaderAndIsr
from controller.core.znodes import read_state
from replay.fleet.errors import FleetError, hidden_traceback
from replay.fleet.inputs import expand_sources
from replay.fleet.pushdown import has_filters_to_push
from replay.fleet.schemas import requested_schema, selected_columns, spark_schema
from replay.stock_clusters.zookeeper_log.data_folder import SourceFile
from replay.stock_clusters.zookeeper_log.merging import MergedLogs
from replay.stock_clusters.zookeeper_log.source import open_source
from replay.stock_clusters.zookeeper_log.transactions import Content, Multi, OpCode, Transaction
from replay.subjects import subject_in_any_chroot

TRANSACTIONS: Final = pa.schema(
    [
        ("cluster", pa.string()),
        ("source", pa.string()),
        ("server", pa.string()),
        ("zxid", pa.int64()),
        ("ordinal", pa.int64()),
        ("operations", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
        ("session", pa.int64()),
        ("cxid", pa.int64()),
        ("type", pa.string()),
        ("error", pa.int64()),
        ("path", pa.string()),
        ("version", pa.int64()),
        ("broker", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int64()),
        ("leader", pa.int64()),
        ("leader_epoch", pa.int64()),
        ("controller_epoch", pa.int64()),
        ("isr", pa.list_(pa.field("element", pa.int64()))),
        ("data", pa.binary()),
    ]
)
"""The columns; see docs/fleet-tables.md for their meaning."""

_ROWS: Final = 10_000
_ZXID_END: Final = 1 << 63
_US_IN_MS: Final = 1000
_TYPES: Final = {code.value: code.name.lower() for code in OpCode}


class TransactionRange(Struct):
    """The ranges of zxids and of times in ms to read; each end is exclusive."""

    zxids: tuple[int, int] = (0, _ZXID_END)
    times_ms: tuple[int, int] = (-_ZXID_END, _ZXID_END)


@dataclass(frozen=True)
class TransactionPartition(InputPartition):
    """The transactions of a source from `first_zxid` up to `end_zxid`, exclusive. `server` is the
    server's folder in the source; it is "" for an archive, which the task unpacks."""

    source: str
    server: str
    first_zxid: int = 0
    end_zxid: int = _ZXID_END


class ZooKeeperSource(DataSource):
    """The data source, registered as "zookeeper-txnlog"."""

    @classmethod
    def name(cls) -> str:
        """The name for `spark.read.format`."""
        return "zookeeper-txnlog"

    def schema(self) -> StructType:
        """The requested columns; see docs/fleet-tables.md for their meaning."""
        with hidden_traceback():
            return spark_schema(selected_columns(TRANSACTIONS, self.options.get("columns")))

    def reader(self, schema: StructType) -> "ZooKeeperSourceReader":
        """A reader for a schema with some of the columns of TRANSACTIONS."""
        kind = PushedZooKeeperSourceReader if has_filters_to_push() else ZooKeeperSourceReader
        return kind(self.options, schema)


class ZooKeeperSourceReader(DataSourceReader):
    """Plans partitions on the driver: one per file of a folder, one per archive."""

    def __init__(self, options: MutableMapping[str, str], schema: StructType) -> None:
        self._paths = [one for one in options.get("path", "").split(",") if one]
        self._cluster = options.get("cluster")
        self._server = options.get("server")
        with hidden_traceback():
            if not self._paths:
                raise FleetError(
                    'no path is given: use spark.read.format("zookeeper-txnlog").load(PATH)'
                )
            self._schema: pa.Schema = requested_schema(TRANSACTIONS, schema)
        self._range = TransactionRange()

    def partitions(self) -> list[TransactionPartition]:
        """The partitions that may contain matching transactions. Raises FleetError, ReplayError."""
        with hidden_traceback():
            return [
                one for path in expand_sources(self._paths) for one in self._partitions_of(path)
            ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition. Raises ReplayError."""
        if not isinstance(partition, TransactionPartition):
            return
        path = Path(partition.source)
        with open_source(path / partition.server) as source:
            server = partition.server or source.server.name
            rows = _Rows(self._schema, self._cluster or path.name, str(path), server)
            first, end = self._range.zxids
            first, end = max(first, partition.first_zxid), min(end, partition.end_zxid)
            for transaction in _between(source.server.logs, first, end):
                if self._range.times_ms[0] <= transaction.time_ms < self._range.times_ms[1]:
                    yield from rows.add(transaction)
            yield from rows.rest()

    def _partitions_of(self, path: Path) -> Iterator[TransactionPartition]:
        if not path.is_dir():
            if self._server is not None:
                raise FleetError(f"{path} is an archive: unpack it to choose a server")
            yield TransactionPartition(str(path), "")
            return
        with open_source(path / (self._server or "")) as source:
            server = str(Path(self._server or "", source.server.name))
            starts = [0, *(log.zxid for log in source.server.logs[1:])]
        first, end = self._range.zxids
        for start, following in zip(starts, [*starts[1:], _ZXID_END], strict=True):
            if max(first, start) < min(end, following):
                yield TransactionPartition(str(path), server, start, following)


class PushedZooKeeperSourceReader(ZooKeeperSourceReader):
    """A reader that accepts Spark's filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrow the ranges of zxids and times; Spark evaluates all filters again."""
        for one in filters:
            _narrow(self._range, one)
        return filters


def _between(logs: tuple[SourceFile, ...], first: int, end: int) -> Iterator[Transaction]:
    for transaction in MergedLogs(logs, max(first - 1, 0)):
        if transaction.zxid >= end:
            return
        yield transaction


def _narrow(limits: TransactionRange, one: Filter) -> None:
    """Exclude what cannot match a filter."""
    path = getattr(one, "attribute", ())
    value: Any = getattr(one, "value", None)
    if path == ("time",) and isinstance(value, datetime):
        low, high = limits.times_ms
        ms = int(value.timestamp() * 1000)
        limits.times_ms = _narrowed(one, (low, high), ms)
    elif path == ("zxid",) and isinstance(value, int):
        limits.zxids = _narrowed(one, limits.zxids, value)


def _narrowed(one: Filter, bounds: tuple[int, int], value: int) -> tuple[int, int]:
    low, high = bounds
    if isinstance(one, (EqualTo, GreaterThan, GreaterThanOrEqual)):
        low = max(low, value)
    if isinstance(one, (EqualTo, LessThan, LessThanOrEqual)):
        high = min(high, value + 1)
    return low, high


class _Rows:
    """Makes batches of operations."""

    def __init__(self, schema: pa.Schema, cluster: str, source: str, server: str) -> None:
        self._schema = schema
        self._constants = {"cluster": cluster, "source": source, "server": server}
        self._rows: list[dict[str, Any]] = []

    def add(self, transaction: Transaction) -> Iterator[pa.RecordBatch]:
        """Add a transaction; yields a batch if one is full."""
        content = transaction.content
        parts: tuple[Content, ...] = (content,)
        types: tuple[int, ...] = (transaction.type,)
        if isinstance(content, Multi):
            parts, types = content.operations, content.types
        of_all = {
            **self._constants,
            "zxid": transaction.zxid,
            "operations": len(parts),
            "time": transaction.time_ms * _US_IN_MS,
            "session": transaction.session,
            "cxid": transaction.cxid,
        }
        for ordinal, (part, code) in enumerate(zip(parts, types, strict=True)):
            type_name = _TYPES.get(code, str(code))
            self._rows.append({**of_all, "ordinal": ordinal, "type": type_name, **_row_of(part)})
        if len(self._rows) >= _ROWS:
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The rows that are left."""
        if self._rows:
            yield pa.RecordBatch.from_pylist(self._rows, schema=self._schema)
            self._rows = []


def _row_of(part: Content) -> dict[str, Any]:
    path: str | None = getattr(part, "path", None)
    data: bytes | None = getattr(part, "data", None)
    row: dict[str, Any] = {
        "error": getattr(part, "code", 0),
        "path": path,
        "version": getattr(part, "version", None),
        "data": data,
    }
    if path is None:
        return row
    name = subject_in_any_chroot(path)
    row |= {"broker": name.broker, "topic": name.topic, "partition": name.partition}
    state = _state(path, data) if name.kind == "state" else None
    if state is not None:
        row |= {
            "leader": state.leader,
            "leader_epoch": state.leader_epoch,
            "controller_epoch": state.controller_epoch,
            "isr": state.isr,
        }
    return row


def _state(path: str, data: bytes | None) -> LeaderAndIsr | None:
    if not data:
        return None
    try:
        return read_state(path, data, 0)
    except ZnodeError:
        return None
