"""Routes requests by API key. Pure."""

from enum import Enum, auto
from typing import Final

from kio.schema.index import api_key_map

from controller.api.errors import NotForwarded
from controller.wire.admin.apis import ADMIN_APIS
from controller.wire.api_versions import API_VERSIONS
from controller.wire.client_requests import RequestHead
from controller.wire.controller_requests import BROKER_APIS


class Route(Enum):
    """The component that answers a request."""

    SASL = auto()
    """The front: the login of a client is complete, so that these requests are errors."""
    VERSIONS = auto()
    """The front: the supported API versions."""
    CONTROLLER = auto()
    """The controller; the request comes from a broker, which it names."""
    CONTROLLER_BY_TOOL = auto()
    """The controller; the request comes from an admin tool."""
    METADATA = auto()
    """The daemon, from what the controller knows: a broker would not know the client."""
    HERE = auto()
    """The front: the response is about the daemon, not about a broker."""
    HERE_OR_BROKER = auto()
    """The front if the request names the daemon's broker id, else a broker."""
    BROKER = auto()
    """A live broker, if it supports the API."""
    UNSUPPORTED = auto()
    """The API is not supported; the connection is closed, as in Kafka."""


LIST_GROUPS: Final = 16
DESCRIBE_CONFIGS: Final = 32
ALTER_CONFIGS: Final = 33
DESCRIBE_LOG_DIRS: Final = 35
INCREMENTAL_ALTER_CONFIGS: Final = 44
LIST_TRANSACTIONS: Final = 66

_FROM_A_CONTROLLER: Final = {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata"}
"""Requests that the daemon sends. It must never receive them."""

_OF_ONE_BROKER: Final = {34: "AlterReplicaLogDirs", 58: "Envelope"}
"""Requests that concern the one broker that receives them. Forwarding them would reach a wrong
broker."""

_NOT_OFFERED: Final = frozenset(_FROM_A_CONTROLLER | _OF_ONE_BROKER)
_HERE: Final = frozenset({LIST_GROUPS, LIST_TRANSACTIONS, DESCRIBE_LOG_DIRS})
_ABOUT_BROKERS: Final = frozenset({DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS})

FRONT_KEYS: Final = _HERE | _ABOUT_BROKERS
"""The APIs that the front may answer itself, except ApiVersions."""

_READ_ONLY: Final = {
    2: "ListOffsets",
    3: "Metadata",
    9: "OffsetFetch",
    10: "FindCoordinator",
    15: "DescribeGroups",
    23: "OffsetForLeaderEpoch",
    29: "DescribeAcls",
    DESCRIBE_CONFIGS: "DescribeConfigs",
    41: "DescribeDelegationToken",
    48: "DescribeClientQuotas",
    50: "DescribeUserScramCredentials",
    60: "DescribeCluster",
    61: "DescribeProducers",
    65: "DescribeTransactions",
    69: "ConsumerGroupDescribe",
    71: "GetTelemetrySubscriptions",
    74: "ListClientMetricsResources",
    75: "DescribeTopicPartitions",
}
"""Forwarded requests that may be repeated on a second broker if the first does not answer. They
change nothing, or create something that exists only once (the coordinators' topic).
"""


def may_be_repeated(api_key: int) -> bool:
    """Whether a forwarded request does no harm if two brokers receive it."""
    return api_key in _READ_ONLY


def route(api_key: int) -> Route:
    """The component that answers requests of an API."""
    if api_key == API_VERSIONS:
        return Route.VERSIONS
    if api_key in BROKER_APIS:
        return Route.CONTROLLER
    if api_key in ADMIN_APIS:
        return Route.CONTROLLER_BY_TOOL
    if api_key in _NOT_OFFERED:
        return Route.UNSUPPORTED
    if api_key in _HERE:
        return Route.HERE
    return Route.HERE_OR_BROKER if api_key in _ABOUT_BROKERS else Route.BROKER


def not_forwarded(head: RequestHead) -> NotForwarded:
    """The error of a request for a broker, which would not know the client."""
    words = api_key_map.get(head.api_key, f"api_key_{head.api_key}").split("_")
    name = "".join(one.capitalize() for one in words)
    return NotForwarded(
        f"{name} is a request for a broker, which would not know who the client is; clients use a "
        "listener that refold does not have, or another broker"
    )
