"""API requests that a broker received, by its request log."""

from typing import Final

from msgspec import Struct

from replay.stock_clusters.imported_log.api_requests import ControllerRequest


class LoggedApiRequest(Struct, frozen=True):
    """A request to a broker that may be the controller. `received_ms` is when it arrived;
    `answered_seq` is the record of its response."""

    received_ms: int
    answered_seq: int
    request: ControllerRequest


class RequestOrder(Struct, frozen=True, gc=False):
    """A sort key: the order in which a controller processed requests that were queued together.

    The request log writes a line some time after the response, and computes the arrival from the
    total time of the request, so both times are inexact. Requests of one queue are answered in
    order of arrival. Two requests are therefore compared by the times that are further apart.
    """

    answered_ms: int
    received_ms: int

    def __lt__(self, other: "RequestOrder") -> bool:
        answered = self.answered_ms - other.answered_ms
        received = self.received_ms - other.received_ms
        return (received if abs(received) > abs(answered) else answered or received) < 0


NO_REQUEST: Final = RequestOrder(0, 0)
"""The key of events that are not requests."""
