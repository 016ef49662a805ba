"""Limits on the resources that clients may use at the endpoint."""

from msgspec import Struct


class ListenerQuota(Struct, frozen=True, kw_only=True):
    """The limits of one listener: listener.name.<listener>.max.connections and
    listener.name.<listener>.max.connection.creation.rate; None means no limit."""

    connections_max: int | None = None
    creation_rate: int | None = None


class EndpointLimits(Struct, frozen=True, kw_only=True):
    """The limits of one front process. Limits that Kafka has are settings with Kafka's keys.
    They have Kafka's defaults, unless Kafka's default is no limit. See docs/endpoint.md for what
    happens beyond each limit."""

    connections_max: int = 2048
    """max.connections: over all listeners. It is lower if the process may not open two files per
    connection."""
    connections_per_address_max: int = 1024
    """max.connections.per.ip."""
    connections_of_address_max: dict[str, int] = {}
    """max.connections.per.ip.overrides: by address."""
    creation_rate: int | None = None
    """max.connection.creation.rate: new connections per second on all listeners but
    `exempt_listener`; None means no limit."""
    exempt_listener: str | None = None
    """The inter-broker listener, if there are others."""
    of_listeners: dict[str, ListenerQuota] = {}
    """By listener."""
    creation_burst_seconds: int = 10
    """For how many seconds new connections may come at once: all windows but one of
    quota.window.num and quota.window.size.seconds, as in Kafka."""
    connections_max_idle_ms: int | None = 600_000
    """connections.max.idle.ms: how long a connection may be idle; None means no limit."""
    first_request_ms: int = 30_000
    """How long a new connection may be idle, if that is shorter."""
    transfer_ms: int = 30_000
    """Time for a whole request, from its first byte until it is read or forwarded, and for a
    client to receive a whole response. Kafka has no such limit."""
    request_timeout_ms: int = 30_000
    """request.timeout.ms: time for a broker to answer a forwarded request. In Kafka this setting
    limits requests that a broker sends, not those that it receives."""
    request_bytes_max: int = 100 * 1024 * 1024
    """socket.request.max.bytes. Forwarded requests are never held in memory as a whole."""
    controller_request_bytes_max: int = 8 * 1024 * 1024
    """Size of one request from a live broker to the controller. An AlterPartition of 150,000
    partitions is smaller. A decoded request takes many times its size."""
    whole_bytes_max: int | None = 32 * 1024 * 1024
    """queued.max.request.bytes: total size of the large requests from brokers that are not
    answered yet; None means no limit."""
    waiting_requests_max: int = 500
    """queued.max.requests: how many requests from brokers may wait for the controller's
    response. The same number of admin requests may wait until the controller has carried them
    out. For all other requests a tenth of it applies."""
    tool_request_bytes_max: int = 4 * 1024 * 1024
    """Size of one request from an admin tool to the controller, and of all large ones together.
    A reassignment of 200,000 partitions is smaller."""
    other_request_bytes_max: int = 1024 * 1024
    """Size of one request of any other kind that is read as a whole, and of all large ones
    together: requests that the front answers itself, and requests for the controller that do not
    come from a live broker. No AlterPartition of the latter can succeed."""
    large_transfer_ms: int = 5_000
    """Time to receive a large request once memory is reserved for it, since others wait for that
    memory."""
    other_bytes_per_second: int = 128 * 1024
    """Rate at which requests of tools and other clients are passed to the controller: the event
    log grows by them."""
