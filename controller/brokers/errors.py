"""Why a request did not get to a broker: each kind is repeated, at its own pace."""


class ChannelError(Exception):
    """Base of all errors of this room; `kind` is what `ChannelFault` calls it."""

    kind = "unreachable"


class Unreachable(ChannelError):
    """The broker refuses the connection, cannot be found, or gives no answer in time."""


class RequestRefused(ChannelError):
    """The broker ended a connection that stood when a request was sent on it."""

    kind = "closed"


class WrongVersion(ChannelError):
    """The broker does not speak the request's version, or answers what cannot be read."""

    kind = "version"
