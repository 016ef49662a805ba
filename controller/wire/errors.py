"""Errors in Kafka's wire format."""


class WireError(Exception):
    """Base of all errors of the wire format."""


class UnsupportedVersion(WireError):
    """refold has no encoder for a request version. The caller is at fault."""


class UnencodableValue(WireError):
    """A command holds a value that Kafka's protocol cannot encode. The text names its owner."""


class MalformedResponse(WireError):
    """The bytes are not a response of the requested version. The peer is at fault."""
