"""The metrics of the endpoint's connections, which no log shows (Kafka's socket-server-metrics)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from controller.api.connection_counts import REASONS, ListenerCounts
from controller.core.metric_table import Kind, Metric
from controller.core.metrics_observer import Sample

_PREFIX: Final = "kafka_server_socket_server_metrics_"
_EXPIRED: Final = "session expired"
_CLOSED: Final = "refold_connections_closed_total"
_THROTTLED: Final = "refold_connection_throttle_seconds_total"

Value = Callable[[ListenerCounts], float]


def _closings(counts: ListenerCounts) -> int:
    return counts.created - counts.open


def _kafkas(name: str) -> str:
    return f"kafka.server:type=socket-server-metrics,listener=<listener>,networkProcessor=*:{name}"


_KAFKAS: Final[tuple[tuple[str, Kind, str, Value], ...]] = (
    ("connection-count", "gauge", "Open connections.", lambda one: one.open),
    (
        "connection-creation-total",
        "counter",
        "Connections that were accepted.",
        lambda one: one.created,
    ),
    ("connection-close-total", "counter", "Connections that have ended.", _closings),
    (
        "successful-authentication-total",
        "counter",
        "TLS handshakes and logins that succeeded.",
        lambda one: one.logins,
    ),
    (
        "failed-authentication-total",
        "counter",
        "TLS handshakes and logins that failed or took too long.",
        lambda one: one.failed_logins,
    ),
    (
        "successful-reauthentication-total",
        "counter",
        "Logins that were renewed (connections.max.reauth.ms).",
        lambda one: one.renewals,
    ),
    (
        "failed-reauthentication-total",
        "counter",
        "Renewed logins that failed.",
        lambda one: one.failed_renewals,
    ),
    (
        "expired-connections-killed-count",
        "gauge",
        "Connections that were closed because the login was not renewed in time.",
        lambda one: one.closed.get(_EXPIRED, 0),
    ),
)


def _metric_name(name: str) -> str:
    return _PREFIX + name.replace("-", "_")


CONNECTION_METRICS: Final = (
    *(
        Metric(
            _metric_name(name),
            kind,
            "connections",
            about,
            _kafkas(name),
        )
        for name, kind, about, _ in _KAFKAS
    ),
    Metric(
        _CLOSED,
        "counter",
        "connections",
        "Connections that refold closed, by `reason`: "
        + "; ".join(f"`{reason}`: {why}" for reason, why in REASONS.items())
        + ".",
    ),
    Metric(
        _THROTTLED,
        "counter",
        "s",
        "How long new connections have waited because of max.connection.creation.rate.",
    ),
)
"""Each has the label `listener`."""


def connection_samples(listeners: Mapping[str, ListenerCounts]) -> Iterator[Sample]:
    """The values of all listeners."""
    for name, _, _, value in _KAFKAS:
        for listener, counts in listeners.items():
            metric = _metric_name(name)
            yield Sample(metric, metric, (("listener", listener),), value(counts))
    for listener, counts in listeners.items():
        for reason in REASONS:
            labels = (("listener", listener), ("reason", str(reason)))
            yield Sample(_CLOSED, _CLOSED, labels, counts.closed.get(reason, 0))
        throttled_s = counts.throttled_ms / 1000
        yield Sample(_THROTTLED, _THROTTLED, (("listener", listener),), throttled_s)
