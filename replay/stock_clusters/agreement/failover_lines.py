"""How far a failover is, by its lines in controller.log."""

from typing import Final

from controller.core import znodes

_STAGES: Final = (
    ("Initializing controller context", (znodes.BROKER_IDS,)),
    ("Initialized broker epochs cache", (znodes.TOPICS,)),
    ("Register BrokerModifications handler", ("/state'", znodes.DELETE_TOPICS)),
    ("Currently active brokers", (znodes.DELETE_TOPICS,)),
    ("List of topics to be deleted", (znodes.REASSIGN_PARTITIONS, "/state'")),
)
"""Lines of a failover, and what is read behind each of them, whatever of it comes first."""
_FAILED: Final = "Trigger controller movement immediately"


def read_behind(text: str) -> tuple[str, ...]:
    """The first of these is read behind a line; nothing for lines that tell of no reading."""
    message = text.partition("] ")[2]
    return next((paths for start, paths in _STAGES if message.startswith(start)), ())


def has_failed(text: str) -> bool:
    """Whether a failover has failed: the controller looks whether the role is still its own, and
    only then resigns and gives it up (KafkaController.triggerControllerMove)."""
    return _FAILED in text
