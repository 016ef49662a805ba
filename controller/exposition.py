"""The text formats of Prometheus, for samples of metrics."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from prometheus_client import exposition as prometheus
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from controller.core.metric_table import Metric
from controller.core.metrics_observer import Sample

_COUNT = "_count"
_TOTAL = "_total"


class TimedSample(NamedTuple):
    """A sample with its time in seconds since 1970; None: now."""

    sample: Sample
    time_s: float | None = None


def families(metrics: Sequence[Metric], samples: Iterable[TimedSample]) -> Iterator[Family]:
    """The families of Prometheus, in the order of the metrics.

    jmx_exporter 1.x appends _total to the count of a summary, earlier versions do not: both are
    exported.
    """
    of: dict[str, list[TimedSample]] = {}
    for one in samples:
        of.setdefault(one.sample.metric, []).append(one)
    for metric in metrics:
        found = of.get(metric.name, [])
        yield _family(metric, found)
        if metric.kind == "summary":
            # A counter's family would have the name that the summary's count has already.
            counts = Family(metric.name + _COUNT + _TOTAL, _help_text(metric), "unknown")
            for sample, time_s in _by_labels(found):
                if sample.name == metric.name + _COUNT:
                    labels = dict(sample.labels)
                    counts.add_sample(counts.name, labels, sample.value, timestamp=time_s)
            yield counts


def _family(metric: Metric, samples: Iterable[TimedSample]) -> Family:
    name = metric.name.removesuffix(_TOTAL) if metric.kind == "counter" else metric.name
    family = Family(name, _help_text(metric), metric.kind)
    for sample, time_s in _by_labels(samples):
        family.add_sample(sample.name, dict(sample.labels), sample.value, timestamp=time_s)
    return family


def _by_labels(samples: Iterable[TimedSample]) -> Iterator[TimedSample]:
    """OpenMetrics requires that the samples of one broker follow each other, by time."""
    of: dict[tuple[tuple[str, str], ...], list[TimedSample]] = {}
    for one in samples:
        labels = tuple(label for label in one.sample.labels if label[0] != "quantile")
        of.setdefault(labels, []).append(one)
    for found in of.values():
        yield from found


def _help_text(metric: Metric) -> str:
    return f"{metric.about} Unit: {metric.unit}." if metric.unit else metric.about


class _FamilyCollector(Collector):
    def __init__(self, found: Iterable[Family]) -> None:
        self._found = list(found)

    def collect(self) -> list[Family]:
        """The metric families that prometheus-client writes."""
        return self._found


def openmetrics_text(metrics: Sequence[Metric], samples: Iterable[TimedSample]) -> str:
    """Samples in the OpenMetrics text format."""
    text: bytes = openmetrics.generate_latest(  # type: ignore[no-untyped-call]
        _FamilyCollector(families(metrics, samples))
    )
    return text.decode()


def prometheus_text(metrics: Sequence[Metric], samples: Iterable[TimedSample]) -> str:
    """Samples in the text format of Prometheus, for the textfile collector of node_exporter."""
    return prometheus.generate_latest(_FamilyCollector(families(metrics, samples))).decode()
