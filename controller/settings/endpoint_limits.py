"""The settings that limit what clients may do at the endpoint. Those of one listener, and of
sessions by SASL, are read elsewhere (connection_quotas.py, endpoint_security.py)."""

from typing import Final

from controller.api.limits import EndpointLimits
from controller.core.configuration import QuotaWindow
from controller.settings import parsing
from controller.settings.setting import Setting

_LIMITS: Final = EndpointLimits()
_WINDOW: Final = QuotaWindow()
_UNLIMITED: Final = "2147483647"

ENDPOINT_LIMITS: Final = (
    Setting(
        "max.connections",
        parsing.whole_number(1),
        str(_LIMITS.connections_max),
        "The maximum number of connections to the endpoint, over all listeners. Beyond it a new "
        "connection replaces another one. Kafka's default is no limit.",
    ),
    Setting(
        "max.connections.per.ip",
        parsing.whole_number(0),
        str(_LIMITS.connections_per_address_max),
        "The maximum number of connections from one address. Kafka's default is no limit. 0 only "
        "with `max.connections.per.ip.overrides`.",
    ),
    Setting(
        "max.connections.per.ip.overrides",
        parsing.counts_by_address,
        None,
        "The maximum number of connections from single hosts or addresses: "
        "HOST:COUNT,HOST:COUNT. With 0, connections from there are refused.",
    ),
    Setting(
        "max.connection.creation.rate",
        parsing.whole_number(1),
        _UNLIMITED,
        "How many connections per second are accepted, over all listeners; others wait. As in "
        "Kafka the inter-broker listener is exempt, if there are others, and has this rate alone.",
    ),
    Setting(
        "quota.window.num",
        parsing.whole_number(1),
        str(_WINDOW.samples),
        "How many windows `max.connection.creation.rate` is measured over, as in Kafka. That many "
        "windows, less one, is how long more connections may be accepted at once.",
    ),
    Setting(
        "quota.window.size.seconds",
        parsing.whole_number(1),
        str(_WINDOW.seconds),
        "The length of such a window.",
    ),
    Setting(
        "connections.max.idle.ms",
        parsing.limit,
        str(_LIMITS.connections_max_idle_ms),
        "How long a connection to the endpoint may be idle between two requests. -1: no limit.",
    ),
    Setting(
        "request.timeout.ms",
        parsing.whole_number(1),
        str(_LIMITS.request_timeout_ms),
        "How long a broker may take to answer a client's request that the endpoint forwards.",
    ),
    Setting(
        "socket.request.max.bytes",
        parsing.whole_number(1),
        str(_LIMITS.request_bytes_max),
        "The maximum size of a request to the endpoint. Requests that are not forwarded have "
        "lower limits ([endpoint.md](endpoint.md#limits)).",
    ),
    Setting(
        "queued.max.requests",
        parsing.whole_number(1),
        str(_LIMITS.waiting_requests_max),
        "The maximum number of brokers' requests that wait for the controller's response. The "
        "limit applies separately to requests of admin tools that create, extend or delete topics. "
        "A tenth of it applies to their other requests.",
    ),
    Setting(
        "queued.max.request.bytes",
        parsing.limit,
        str(_LIMITS.whole_bytes_max),
        "The maximum total size of large requests of brokers that the endpoint holds. -1: no "
        "limit, which is Kafka's default.",
    ),
    Setting(
        "controller.quota.window.num",
        parsing.whole_number(1),
        str(_WINDOW.samples),
        "The mutations of how many windows a client may do at once, if it has a "
        "`controller_mutation_rate` ([security.md](security.md#limits)).",
    ),
    Setting(
        "controller.quota.window.size.seconds",
        parsing.whole_number(1),
        str(_WINDOW.seconds),
        "The length of such a window.",
    ),
)

OF_ONE_LISTENER: Final = {
    "max.connections": "the maximum number of connections to this listener. Beyond it a new "
    "connection replaces another one of the listener",
    "max.connection.creation.rate": "how many connections per second this listener accepts; others "
    "wait. Default: the rate without the prefix",
}
"""Keys with the prefix listener.name.<listener>., which only a file can set."""
