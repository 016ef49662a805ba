"""What clients may take of the endpoint."""

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """The limits of one front process. Those that Kafka has carry Kafka's defaults, but for the
    numbers of connections, which Kafka does not limit."""

    connections_max: int = 2048
    """Lowered where the process may not open two files for each of them."""
    connections_per_address_max: int = 1024
    connections_max_idle_ms: int = 600_000
    first_request_ms: int = 30_000
    """How long a new connection may be silent."""
    request_timeout_ms: int = 30_000
    """For the whole of a request that has begun to come, for the whole of an answer to be taken,
    and for a broker to answer what is passed on to it."""
    request_bytes_max: int = 100 * 1024 * 1024
    """socket.request.max.bytes: what is passed on is never held as a whole."""
    controller_request_bytes_max: int = 8 * 1024 * 1024
    """For a request of the controller's own; an AlterPartition of 150,000 partitions is smaller.
    Decoded it takes many times its size."""
    inspected_request_bytes_max: int = 1024 * 1024
    """For what the front itself has to read."""
    whole_bytes_max: int = 32 * 1024 * 1024
    """For all requests together that are held as a whole and are not answered yet."""
    waiting_requests_max: int = 256
    """Requests that the controller has not answered yet: beyond it no more are read."""
