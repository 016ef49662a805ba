"""The results of a shadow so far: a file in the folder of its log, and metrics for Prometheus."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from controller.core.metric_table import Metric
from controller.core.metrics_observer import Sample
from controller.exposition import TimedSample, prometheus_text
from controller.structured_log import utc_time
from eventstore.errors import LogError
from eventstore.folders import replacing
from replay.agreement.results import DetailedTally
from replay.shadow.summary import ShadowResult

_FILE: Final = "shadow.json"
_METRICS: Final = {
    field: Metric(f"refold_shadow_{field}", "gauge", unit, about)
    for field, unit, about in (
        ("decisions", "", "Decisions, by the result of the comparison."),
        ("requests", "", "Requests to brokers, by the result of the comparison."),
        ("undecided", "", "Differences that wait for evidence."),
        ("kraft_decisions", "", "Decisions of KRaft controllers, which are not judged."),
        ("unseen_versions", "", "Versions of znodes that were overwritten before they were read."),
        ("missing_transactions", "", "Transactions that were not read."),
        ("zxid", "", "The last transaction that was read."),
        ("time", "s", "The time up to which the shadow knows the cluster, since 1970."),
        ("connected", "", "0 if the session that watches ZooKeeper has no connection."),
    )
}
"""The metrics, by the field of `ShadowStatus`."""


class ComparedCounts(Struct, frozen=True):
    """Decisions or requests, by result. Each one is counted once."""

    agreed: int
    explained: int
    differs: int
    missing: int
    extra: int
    unseen: int

    @property
    def different(self) -> int:
        """The number of differences that nothing explains."""
        return self.differs + self.missing + self.extra


class ShadowStatus(Struct, frozen=True):
    """The counts of a run, over all its logs. `time`, in seconds since 1970: the shadow knows the
    cluster up to this time, which is now, unless it watches ZooKeeper and is not connected."""

    time: float
    zxid: int
    decisions: ComparedCounts
    requests: ComparedCounts
    undecided: int
    unseen_versions: int
    missing_transactions: int
    connected: bool = True
    kraft_decisions: int = 0

    @property
    def problem(self) -> str:
        """Sentences about a missing connection and about differences; "" if there are none."""
        found = []
        if not self.connected:
            found.append(f"The shadow has had {self.without_connection}.")
        if self.decisions.different + self.requests.different:
            found.append(
                f"The shadow reports {self.decisions.different} decisions and"
                f" {self.requests.different} requests that differ; `refold agree` shows them."
            )
        return " ".join(found)

    @property
    def without_connection(self) -> str:
        """Since when the shadow is not connected, if it is not."""
        return f"no connection to ZooKeeper since {utc_time(self.time)}"

    def samples(self) -> Iterator[Sample]:
        """The values of the metrics."""
        for field, value in msgspec.structs.asdict(self).items():
            name = _METRICS[field].name
            if isinstance(value, ComparedCounts):
                for result, count in msgspec.structs.asdict(value).items():
                    yield Sample(name, name, (("result", result),), count)
            else:
                yield Sample(name, name, (), value)


def status_of(result: ShadowResult, known_ms: int | None) -> ShadowStatus:
    """The status of a run with this result, now. `known_ms` as in FollowedImport."""
    return ShadowStatus(
        time.time() if known_ms is None else known_ms / 1000,
        result.zxid,
        _counts(result, result.unseen_decisions),
        _counts(result.requests, result.requests.unjudged),
        result.undecided,
        result.unseen_versions,
        result.missing_transactions,
        connected=known_ms is None,
        kraft_decisions=sum(one.decisions for one in result.kraft_terms),
    )


def write_status(status: ShadowStatus, folder: Path, metrics: Path | None) -> None:
    """Write the status to a log's folder, and to the file `metrics`. Raises LogError."""
    _replace(folder / _FILE, msgspec.json.encode(status) + b"\n")
    if metrics is not None:
        samples = map(TimedSample, status.samples())
        _replace(metrics, prometheus_text(tuple(_METRICS.values()), samples).encode())


def read_status(folder: Path) -> ShadowStatus | None:
    """The status in a log's folder; None if no shadow has written the log. Raises LogError."""
    path = folder / _FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=ShadowStatus)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise LogError(path, f"cannot be read: {error}; delete it") from None


def _counts(side: DetailedTally, unseen: int) -> ComparedCounts:
    explained = side.diverging - side.unexplained
    return ComparedCounts(
        side.agreed, explained, side.differs - explained, side.missing, side.extra, unseen
    )


def _replace(path: Path, content: bytes) -> None:
    try:
        with replacing(path, is_durable=False) as file:
            file.write(content)
    except OSError as error:
        reason = error.strerror or str(error)
        raise LogError(path, f"cannot be written: {reason}; check its folder") from None
