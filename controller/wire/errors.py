"""What can be wrong with Kafka's wire format, on our side or on the broker's."""


class WireError(Exception):
    """Base of all errors of this room."""


class UnsupportedVersion(WireError):
    """A request version was asked for that refold has no encoder for: the caller's fault."""


class UnencodableValue(WireError):
    """A command holds a value that Kafka's protocol has no form for; the text names its owner."""


class MalformedResponse(WireError):
    """The peer's bytes are not a response of the version that was asked: the peer's fault."""
