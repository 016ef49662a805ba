"""What clients may take of the endpoint."""

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """The limits of one front process. Those that Kafka has are settings under Kafka's keys, with
    Kafka's defaults but where Kafka has no limit. docs/endpoint.md says what comes beyond each."""

    connections_max: int = 2048
    """max.connections: over all listeners. Fewer where the process may not open two files for
    each of them."""
    connections_per_address_max: int = 1024
    """max.connections.per.ip."""
    connections_max_idle_ms: int | None = 600_000
    """connections.max.idle.ms: how long a connection may be silent; None: for ever."""
    first_request_ms: int = 30_000
    """How long a new connection may be silent, if that is less."""
    transfer_ms: int = 30_000
    """For the whole of a request that has begun to come, until it is read or a broker has it, and
    for the whole of an answer to be taken. Kafka has no such limit."""
    request_timeout_ms: int = 30_000
    """request.timeout.ms: for a broker to answer what is passed on to it. Kafka bounds by it what
    a broker itself asks of others, never what comes in."""
    request_bytes_max: int = 100 * 1024 * 1024
    """socket.request.max.bytes: what is passed on is never held as a whole."""
    controller_request_bytes_max: int = 8 * 1024 * 1024
    """For what a live broker asks of the controller; an AlterPartition of 150,000 partitions is
    smaller. Decoded it takes many times its size."""
    whole_bytes_max: int | None = 32 * 1024 * 1024
    """queued.max.request.bytes: for all large ones of these together, until they are answered;
    None: no limit."""
    waiting_requests_max: int = 500
    """queued.max.requests: those of them that the controller has not answered yet, and as many of
    admin tools' whose answer may wait for brokers, until they are carried out; of all others a
    tenth of that."""
    tool_request_bytes_max: int = 4 * 1024 * 1024
    """For what admin tools ask of the controller, one and all large ones together: a reassignment
    of 200,000 partitions is smaller."""
    other_request_bytes_max: int = 1024 * 1024
    """For all else that is held as a whole, one and all large ones together: what the front itself
    has to read, and what only a broker asks of the controller and none has sent. Of the latter no
    AlterPartition can succeed, whatever is in it."""
    large_transfer_ms: int = 5_000
    """For a large one of any of these to come when it has its room, which keeps others waiting."""
    other_bytes_per_second: int = 128 * 1024
    """At which either go to the controller: the event log grows by them."""
