"""How far a failover is, by its lines in controller.log, and what it has read."""

import re
from typing import Final

from controller.core import znodes
from replay.agreement.fold_beside import Listed

_STAGES: Final = (
    ("Initializing controller context", (znodes.BROKER_IDS,)),
    ("Initialized broker epochs cache", (znodes.TOPICS,)),
    ("Register BrokerModifications handler", ("/state'", znodes.DELETE_TOPICS)),
    ("Currently active brokers", (znodes.DELETE_TOPICS,)),
    ("List of topics to be deleted", (znodes.REASSIGN_PARTITIONS, "/state'")),
)
"""Lines of a failover, and what is read behind each of them, whatever of it comes first."""
_LIVE: Final = "Initialized broker epochs cache: "


def read_behind(text: str) -> tuple[str, ...]:
    """The first of these is read behind a line; nothing for lines that tell of no reading."""
    message = _message(text)
    return next((paths for start, paths in _STAGES if message.startswith(start)), ())


def listed_by(text: str) -> Listed | None:
    """The live brokers that a line says were read (KafkaController.initializeControllerContext)."""
    message = _message(text)
    if not message.startswith(_LIVE):
        return None
    return znodes.BROKER_IDS, tuple(re.findall(r"(\d+) -> ", message))


def _message(text: str) -> str:
    return text.partition("] ")[2]
