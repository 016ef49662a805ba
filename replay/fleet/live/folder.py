"""The folder of a live job.

    DIR/refold-live.json                    what this folder is, and of which topic
    DIR/health/cluster=C/health.parquet     how each partition is (HEALTH)
    DIR/logs/cluster=C/logs.parquet         how far each log is followed (LOGS)
    DIR/state/cluster=C/LOG                 what the next batch goes on from
    DIR/status.json                         whether that is all that is on the topic, and when
    DIR/checkpoint                          Spark's: which offsets were taken

Each file is replaced by one rename, so that a reader meets a whole one at any moment.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from msgspec import Struct
from pyarrow import parquet

from eventstore.folders import sync_folder
from replay.fleet.day_files import escaped
from replay.fleet.errors import FleetError, usable
from replay.fleet.live.following import Kept
from replay.fleet.locking import exclusive, in_turn

_MARKER: Final = "refold-live.json"
_LOCK: Final = "lock"
_STATUS: Final = "status.json"
_LAYOUT: Final = 1

HEALTH: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int64()),
        ("health", pa.string()),
        ("leader", pa.int64()),
        ("leader_epoch", pa.int64()),
        ("isr", pa.list_(pa.field("element", pa.int64()))),
        ("replicas", pa.list_(pa.field("element", pa.int64()))),
        ("log", pa.string()),
        ("term", pa.int64()),
        ("seq", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
    ]
)
"""A row a partition, and of which event of which log it is."""

LOGS: Final = pa.schema(
    [
        ("log", pa.string()),
        ("state", pa.string()),
        ("term", pa.int64()),
        ("seq", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
        ("trouble", pa.string()),
    ]
)
"""A row a log: `controller`, `superseded`, `standby`, `ended` or `broken`, the last term in which
its daemon was controller, its last event, and why it is not followed any further."""


class _Marker(Struct, frozen=True):
    layout: int
    topic: str
    kafka_cluster: str
    core: str


class LiveFolder(Struct, frozen=True):
    """The folder, on the driver and on executors."""

    path: Path

    @property
    def checkpoint(self) -> str:
        """Where Spark keeps its offsets."""
        return str(self.path / "checkpoint")

    @contextmanager
    def owned(self, topic: str, kafka_cluster: str, core: str) -> Iterator[None]:
        """Made if it is not there; one job at a time. Raises FleetError."""
        with usable(self.path):
            is_new = not self.path.exists()
            self.path.mkdir(parents=True, exist_ok=True)
            with exclusive(self.path / _LOCK, "another job", "end it first"):
                self._check(_Marker(_LAYOUT, topic, kafka_cluster, core))
                try:
                    yield
                finally:
                    # Spark that does not start leaves nothing.
                    if is_new and not Path(self.checkpoint).exists():
                        shutil.rmtree(self.path)

    def _check(self, mine: _Marker) -> None:
        path = self.path / _MARKER
        if not path.exists():
            if any(one.name != _LOCK for one in self.path.iterdir()):
                raise FleetError(f"{self.path} holds something else: name a new folder with --out")
            _replace(path, msgspec.json.encode(mine))
        try:
            found = msgspec.json.decode(path.read_bytes(), type=_Marker)
        except msgspec.MsgspecError as error:
            raise FleetError(f"{path} cannot be read: {error}") from None
        if found == mine:
            return
        if (found.topic, found.kafka_cluster) != (mine.topic, mine.kafka_cluster):
            why = f"is of topic {found.topic} on Kafka cluster {found.kafka_cluster}"
        else:
            why = f"was made by another refold (core {found.core}, layout {found.layout})"
        raise FleetError(f"{self.path} {why}: name a new folder with --out")

    def tell(self, status: Struct) -> None:
        """Replace what is said of how the table stands to the topic. A disk that is full does not
        end the job: it is told by the age of what is there."""
        with suppress(OSError):
            _replace(self.path / _STATUS, msgspec.json.encode(status))

    @contextmanager
    def cluster(self, name: str) -> Iterator["ClusterFolder"]:
        """What belongs to a cluster. A task of a job that was killed may still be at work on it:
        then it is waited for."""
        part = f"cluster={escaped(name)}"
        places = [self.path / one / part for one in ("health", "logs", "state")]
        for one in places:
            one.mkdir(parents=True, exist_ok=True)
        with in_turn(places[-1] / _LOCK):
            yield ClusterFolder(*places)


class ClusterFolder(Struct, frozen=True):
    """A cluster's files."""

    health: Path
    logs: Path
    state: Path

    def kept(self, log: str) -> Kept:
        """How far a log is followed."""
        path = self._state_of(log)
        return msgspec.msgpack.decode(path.read_bytes(), type=Kept) if path.exists() else Kept()

    def keep(self, log: str, kept: Kept) -> None:
        """The next batch goes on from there."""
        _replace(self._state_of(log), msgspec.msgpack.encode(kept))

    def known_logs(self) -> dict[str, dict[str, object]]:
        """The rows of LOGS by log."""
        path = self.logs / "logs.parquet"
        rows = parquet.read_table(path, partitioning=None).to_pylist() if path.exists() else []
        return {row["log"]: row for row in rows}

    def write_logs(self, rows: list[dict[str, object]]) -> None:
        """Replace them."""
        _write_table(self.logs / "logs.parquet", rows, LOGS)

    def write_health(self, rows: list[dict[str, object]]) -> None:
        """Replace the rows of HEALTH."""
        _write_table(self.health / "health.parquet", rows, HEALTH)

    def _state_of(self, log: str) -> Path:
        return self.state / f"log={escaped(log)}"


def _write_table(path: Path, rows: list[dict[str, object]], schema: pa.Schema) -> None:
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_pylist(rows, schema), sink, compression="zstd")
    _replace(path, sink.getvalue().to_pybytes())


def _replace(path: Path, body: bytes) -> None:
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    sync_folder(path.parent)
