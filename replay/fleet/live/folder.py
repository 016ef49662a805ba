"""The folder of a live job.

    DIR/refold-live.json                    marks the folder; the topic of the job
    DIR/health/cluster=C/health.parquet     the health of partitions (HEALTH)
    DIR/logs/cluster=C/logs.parquet         the state of logs (LOGS)
    DIR/state/cluster=C/LOG                 what the next batch resumes from
    DIR/status.json                         whether the table is up to date with the topic
    DIR/checkpoint                          Spark's checkpoint: the offsets that were read

Each file is replaced by one rename, so that readers always find a complete file.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from msgspec import Struct
from pyarrow import parquet

from eventstore.folders import replacing
from replay.fleet.day_files import escaped
from replay.fleet.errors import FleetError, converting_os_errors
from replay.fleet.live.mirrored_log import MirroredLogState
from replay.fleet.locking import exclusive, in_turn

_MARKER: Final = "refold-live.json"
_LOCK: Final = "lock"
_STATUS: Final = "status.json"
_LAYOUT: Final = 2

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
"""One row per partition, with the event of the log that the row corresponds to."""

LOGS: Final = pa.schema(
    [
        ("log", pa.string()),
        ("folder", pa.string()),
        ("state", pa.string()),
        ("term", pa.int64()),
        ("seq", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
        ("trouble", pa.string()),
    ]
)
"""One row per log. `log` is its name in a table of `refold fleet ingest`, `folder` the name of its
folder and its key on the topic. `state` is `controller`, `superseded`, `standby`, `ended` or
`broken`; `term` is the last term in which its daemon was controller; `seq` is its last event;
`trouble` says why it is not folded any more."""


class _Marker(Struct, frozen=True):
    layout: int
    topic: str
    kafka_cluster: str
    core: str


class LiveFolder(Struct, frozen=True):
    """The folder, used by the driver and by executors."""

    path: Path

    @property
    def checkpoint(self) -> str:
        """The folder of Spark's checkpoint."""
        return str(self.path / "checkpoint")

    @contextmanager
    def owned(self, topic: str, kafka_cluster: str, core: str) -> Iterator[None]:
        """Lock the folder for one job, and create it if it does not exist. Raises FleetError."""
        with converting_os_errors(self.path):
            is_new = not self.path.exists()
            self.path.mkdir(parents=True, exist_ok=True)
            with exclusive(self.path / _LOCK, "another job", "stop it first"):
                self._check(_Marker(_LAYOUT, topic, kafka_cluster, core))
                try:
                    yield
                finally:
                    # If Spark did not start, the new folder is removed.
                    if is_new and not Path(self.checkpoint).exists():
                        shutil.rmtree(self.path)

    def _check(self, expected: _Marker) -> None:
        path = self.path / _MARKER
        if not path.exists():
            if any(one.name != _LOCK for one in self.path.iterdir()):
                raise FleetError(f"{self.path} contains other files: name a new folder with --out")
            _replace(path, msgspec.json.encode(expected))
        try:
            found = msgspec.json.decode(path.read_bytes(), type=_Marker)
        except msgspec.MsgspecError as error:
            raise FleetError(f"{path} cannot be read: {error}") from None
        if found == expected:
            return
        if (found.topic, found.kafka_cluster) != (expected.topic, expected.kafka_cluster):
            why = f"belongs to topic {found.topic} on Kafka cluster {found.kafka_cluster}"
        else:
            why = f"was created by another refold (core {found.core}, layout {found.layout})"
        raise FleetError(f"{self.path} {why}: name a new folder with --out")

    def write_status(self, status: Struct) -> None:
        """Replace the status. A full disk does not end the job: readers notice the age of the
        status."""
        with suppress(OSError):
            _replace(self.path / _STATUS, msgspec.json.encode(status))

    @contextmanager
    def cluster(self, name: str) -> Iterator["ClusterFolder"]:
        """Lock and return the files of a cluster. Waits for a task of a killed job that still uses
        them."""
        part = f"cluster={escaped(name)}"
        places = [self.path / one / part for one in ("health", "logs", "state")]
        for one in places:
            one.mkdir(parents=True, exist_ok=True)
        with in_turn(places[-1] / _LOCK):
            yield ClusterFolder(*places)


class ClusterFolder(Struct, frozen=True):
    """The files of one cluster."""

    health: Path
    logs: Path
    state: Path

    def log_state(self, log: str) -> MirroredLogState:
        """The stored state of a log."""
        path = self._state_of(log)
        return (
            msgspec.msgpack.decode(path.read_bytes(), type=MirroredLogState)
            if path.exists()
            else MirroredLogState()
        )

    def write_log_state(self, log: str, log_state: MirroredLogState) -> None:
        """Store the state that the next batch resumes from."""
        _replace(self._state_of(log), msgspec.msgpack.encode(log_state))

    def known_logs(self) -> dict[str, dict[str, object]]:
        """The rows of LOGS by folder."""
        path = self.logs / "logs.parquet"
        rows = parquet.read_table(path, partitioning=None).to_pylist() if path.exists() else []
        return {row["folder"]: row for row in rows}

    def write_logs(self, rows: list[dict[str, object]]) -> None:
        """Replace the rows of LOGS."""
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
    with replacing(path) as file:
        file.write(body)
