"""The requests that the endpoint receives and their responses: one module for each Kafka API, or
for a few that belong together.

A request is an event, its response a command; the number `request` connects them. The class of a
request declares what the controller does with the API (`ReceivedRequest`). Its procedure is in
procedures/api_calls.py, its wire format in controller/wire.
"""

from typing import Final, get_args

from controller.core.api_requests.alter_partition import (
    AlterPartitionReceived,
    AlterPartitionResponse,
)
from controller.core.api_requests.controlled_shutdown import (
    ControlledShutdownReceived,
    ControlledShutdownResponse,
)
from controller.core.api_requests.elections import ElectLeadersReceived, ElectLeadersResponse
from controller.core.api_requests.features import UpdateFeaturesReceived, UpdateFeaturesResponse
from controller.core.api_requests.producer_ids import (
    AllocateProducerIdsReceived,
    AllocateProducerIdsResponse,
)
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsReceived,
    ListPartitionReassignmentsResponse,
)
from controller.core.api_requests.scram_credentials import (
    AlterUserScramCredentialsReceived,
    AlterUserScramCredentialsResponse,
)
from controller.core.api_requests.topics import (
    CreatePartitionsReceived,
    CreatePartitionsResponse,
    CreateTopicsReceived,
    CreateTopicsResponse,
    DeleteTopicsReceived,
    DeleteTopicsResponse,
)

BrokerApiRequest = AlterPartitionReceived | ControlledShutdownReceived | AllocateProducerIdsReceived
"""Requests that brokers send to their controller."""
AdminRequest = (
    AlterPartitionReassignmentsReceived
    | ListPartitionReassignmentsReceived
    | ElectLeadersReceived
    | CreateTopicsReceived
    | CreatePartitionsReceived
    | DeleteTopicsReceived
    | UpdateFeaturesReceived
    | AlterUserScramCredentialsReceived
)
"""Requests of admin tools."""
ApiRequest = BrokerApiRequest | AdminRequest
TimedRequest = (
    CreateTopicsReceived | CreatePartitionsReceived | DeleteTopicsReceived | ElectLeadersReceived
)
"""Requests whose responses wait for brokers, up to `timeout_ms`."""

BrokerApiResponse = (
    AlterPartitionResponse | ControlledShutdownResponse | AllocateProducerIdsResponse
)
AdminResponse = (
    AlterPartitionReassignmentsResponse
    | ListPartitionReassignmentsResponse
    | ElectLeadersResponse
    | CreateTopicsResponse
    | CreatePartitionsResponse
    | DeleteTopicsResponse
    | UpdateFeaturesResponse
    | AlterUserScramCredentialsResponse
)
ApiResponse = BrokerApiResponse | AdminResponse

# For each event and command there is a lookup by class; isinstance would try class by class.
API_REQUESTS: Final[frozenset[type]] = frozenset(get_args(ApiRequest))
BROKER_API_REQUESTS: Final[frozenset[type]] = frozenset(get_args(BrokerApiRequest))
API_RESPONSES: Final[frozenset[type]] = frozenset(get_args(ApiResponse))
