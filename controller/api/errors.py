"""What can go wrong between the endpoint and its clients."""


class ApiError(Exception):
    """Base of all errors of this room."""


class CannotListen(ApiError):
    """An address of `listeners` cannot be listened on: the operator's to mend."""


class RequestRejected(ApiError):
    """What a client sends or does makes us close its connection: the client's fault."""


class NoUpstream(ApiError):
    """No live broker takes or answers a request that is to be passed on."""


class NoBrokersKnown(ApiError):
    """A client asks for what would be passed on, and no brokers are known yet: nobody's fault. It
    goes on to its next address."""
