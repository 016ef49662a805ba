"""What becomes of a request, by its API key. Pure."""

from enum import Enum, auto
from typing import Final

from controller.wire.admin_requests import SPOKEN_WITH_TOOLS
from controller.wire.api_versions import API_VERSIONS
from controller.wire.controller_requests import SPOKEN


class Route(Enum):
    """Who answers a request."""

    VERSIONS = auto()
    """The front itself: what the endpoint offers."""
    CONTROLLER = auto()
    """The controller, whom brokers ask: the request says which one it is of."""
    CONTROLLER_BY_TOOL = auto()
    """The controller, whom admin tools ask."""
    HERE = auto()
    """The front itself: what it says holds for the daemon, not for a broker."""
    HERE_OR_BROKER = auto()
    """The front itself where the request names the daemon's own broker id, else a broker."""
    BROKER = auto()
    """A live broker, if it offers the API."""
    NOBODY = auto()
    """The API is not offered; the connection is closed, as Kafka does."""


LIST_GROUPS: Final = 16
DESCRIBE_CONFIGS: Final = 32
ALTER_CONFIGS: Final = 33
DESCRIBE_LOG_DIRS: Final = 35
INCREMENTAL_ALTER_CONFIGS: Final = 44
LIST_TRANSACTIONS: Final = 66

_FROM_A_CONTROLLER: Final = {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata"}
"""What the daemon sends and must never be sent."""

_OF_ONE_BROKER: Final = {34: "AlterReplicaLogDirs", 58: "Envelope"}
"""They mean the very broker that they are sent to: another one would do the wrong thing."""

_NOT_OFFERED: Final = frozenset(_FROM_A_CONTROLLER | _OF_ONE_BROKER)
_HERE: Final = frozenset({LIST_GROUPS, LIST_TRANSACTIONS, DESCRIBE_LOG_DIRS})
_ABOUT_BROKERS: Final = frozenset({DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS})


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
"""What is passed on and may be asked of a second broker when the first one says nothing: it changes
nothing, or what it makes (the topic of the coordinators) is made once."""


def may_be_repeated(api_key: int) -> bool:
    """Whether a request that is passed on does no harm when two brokers get it."""
    return api_key in _READ_ONLY


def route(api_key: int) -> Route:
    """Who answers requests of that API."""
    if api_key == API_VERSIONS:
        return Route.VERSIONS
    if api_key in SPOKEN:
        return Route.CONTROLLER
    if api_key in SPOKEN_WITH_TOOLS:
        return Route.CONTROLLER_BY_TOOL
    if api_key in _NOT_OFFERED:
        return Route.NOBODY
    if api_key in _HERE:
        return Route.HERE
    return Route.HERE_OR_BROKER if api_key in _ABOUT_BROKERS else Route.BROKER
