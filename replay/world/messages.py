"""The messages between controllers, brokers and admin clients.

They are values: the simulation does not encode Kafka's protocol. `number` pairs a response with its
request on one connection.
"""

from msgspec import Struct

from controller.core.api_requests import ApiRequest, ApiResponse
from controller.core.commands import BrokerRequest

PartitionError = tuple[str, int, int]
"""Topic, partition and error code in a response. The topic is an id in hex if the version of the
request names topics by id."""


class ControlRequest(Struct, frozen=True, gc=False):
    """A controller to a broker."""

    number: int
    request: BrokerRequest


class ControlResponse(Struct, frozen=True, gc=False):
    """A broker to a controller: the error of the whole request, and the partition errors that are
    not zero."""

    number: int
    error: int
    partition_errors: tuple[PartitionError, ...]


class ControllerRequest(Struct, frozen=True, gc=False):
    """A broker or an admin client to a controller. The controller replaces `request.request`, the
    number that connects a request with its response, by its own."""

    number: int
    request: ApiRequest


class ControllerResponse(Struct, frozen=True, gc=False):
    """A controller to a broker or an admin client."""

    number: int
    response: ApiResponse
