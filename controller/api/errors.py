"""Errors between the endpoint and its clients."""

from typing import ClassVar


class ApiError(Exception):
    """Base of all errors of the endpoint."""


class CannotListen(ApiError):
    """An address in `listeners` cannot be listened on. The operator must fix it."""

    ADVICE: ClassVar = "check `listeners`, and whether another process uses the port"


class RequestRejected(ApiError):
    """A client's request or behaviour makes the endpoint close its connection. The client is at
    fault."""


class NoUpstream(ApiError):
    """No live broker accepts or answers a request that is to be forwarded."""


class NotForwarded(ApiError):
    """A request is for a broker, which would not know the client. This is no fault: the client
    tries another broker."""


class NoBrokersKnown(ApiError):
    """A request is to be forwarded before any broker is known. This is no fault: the client
    tries its next bootstrap address."""


class HandshakeTimedOut(RequestRejected):
    """A client did not complete the TLS handshake and the login in time."""


class SessionEnded(ApiError):
    """A client sends a request after the time of its login. This is no fault: it connects again."""


class IdleTooLong(ApiError):
    """A client sent no request for longer than a connection may be idle, which is closed then."""
