"""Why a request did not reach a broker. Each kind is retried, with a separate interval."""


class ChannelError(Exception):
    """Base of all errors of channels. `kind` is the kind of the `ChannelFault` event."""

    kind = "unreachable"


class Unreachable(ChannelError):
    """The broker refuses the connection, cannot be resolved, or does not answer in time.
    `is_refused`: its machine answers, and no process listens there."""

    def __init__(self, text: str, *, is_refused: bool = False) -> None:
        super().__init__(text)
        self.is_refused = is_refused


class RefusedByBroker(ChannelError):
    """The broker closed an open connection at a request, or answered DescribeConfigs with an
    error."""

    kind = "closed"


class WrongVersion(ChannelError):
    """The broker does not support the request's version, or its response cannot be read."""

    kind = "version"
