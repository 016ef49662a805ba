"""The metrics of the daemon that no log shows: how long appends take, and how far the mirror is."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from controller.core.distribution import Distribution
from controller.core.metric_table import METRICS, Metric
from controller.core.metrics_observer import Sample, summary_samples
from controller.daemon.connection_metrics import CONNECTION_METRICS
from eventstore.mirror.progress import TopicLocation, read_progress
from eventstore.writer import LogWriter

_APPEND: Final = "refold_log_append_seconds"
_BATCH: Final = "refold_log_append_events"
_SIZE: Final = "refold_log_size_bytes"
_EVENT_LAG: Final = "refold_event_lag_seconds"
_MIRROR_LAG: Final = "refold_mirror_lag_events"

LOG_METRICS: Final = (
    Metric(_APPEND, "summary", "s", "The time of one append to the log, with the sync to disk."),
    Metric(_BATCH, "summary", "events", "The events of one append."),
    Metric(_SIZE, "gauge", "bytes", "The size of the current segment of the log."),
    Metric(_EVENT_LAG, "gauge", "s", "The age of the oldest event that is not folded yet."),
    Metric(
        _MIRROR_LAG,
        "gauge",
        "events",
        "Events of the log that are not certainly on the mirror's topic. Without a mirror there is "
        "no such metric.",
    ),
)
DAEMON_METRICS: Final = (*METRICS, *LOG_METRICS, *CONNECTION_METRICS)
"""All that a daemon exports."""


class AppendTimes:
    """Counts the appends to the log."""

    def __init__(self) -> None:
        self.seconds = Distribution()
        self.events = Distribution()

    def add(self, seconds: float, events: int) -> None:
        """An append has finished."""
        self.seconds.add(seconds)
        self.events.add(events)


def log_samples(
    appends: AppendTimes, log: LogWriter, mirror: TopicLocation | None, event_lag_s: float
) -> Iterator[Sample]:
    """The present values of the metrics of the event log."""
    yield from summary_samples(_APPEND, appends.seconds)
    yield from summary_samples(_BATCH, appends.events)
    yield Sample(_SIZE, _SIZE, (), log.size_bytes)
    yield Sample(_EVENT_LAG, _EVENT_LAG, (), event_lag_s)
    if mirror is not None:
        progress = read_progress(Path(log.folder), mirror.topic)
        is_of_place = progress is not None and progress.place == mirror
        published = progress.at.seq if progress is not None and is_of_place else 0
        yield Sample(_MIRROR_LAG, _MIRROR_LAG, (), max(log.tip.last_seq - published, 0))
