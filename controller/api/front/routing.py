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

_OF_THE_CONTROLLERS_ROLE: Final = {51: "AlterUserScramCredentials"}
"""What only a controller answers, and we do not: a broker answers NOT_CONTROLLER, and a client
would ask us again and again. Not offered, it fails at once in the client, which says that this node
does not support it."""

_FROM_A_CONTROLLER: Final = {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata"}
"""What the daemon sends and must never be sent."""

_OF_ONE_BROKER: Final = {34: "AlterReplicaLogDirs", 58: "Envelope"}
"""They mean the very broker that they are sent to: another one would do the wrong thing."""

_NOT_OFFERED: Final = frozenset(_OF_THE_CONTROLLERS_ROLE | _FROM_A_CONTROLLER | _OF_ONE_BROKER)
_HERE: Final = frozenset({LIST_GROUPS, LIST_TRANSACTIONS, DESCRIBE_LOG_DIRS})
_ABOUT_BROKERS: Final = frozenset({DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS})


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
