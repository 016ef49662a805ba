"""Errors of brokers and clients of the 0.8 design. Each text says what to do."""


class Broker08Error(Exception):
    """Base of these errors."""


class DiskError(Broker08Error):
    """A file of the broker cannot be read or written."""


class BadFrame(Broker08Error):
    """The other side of a connection does not follow the protocol."""


class Unreachable(Broker08Error):
    """A connection cannot be established, or is closed."""


class NoResponse(Unreachable):
    """The request was sent, but no response came: the broker may have carried it out."""


class ClientError(Broker08Error):
    """A request of a producer or consumer failed."""
