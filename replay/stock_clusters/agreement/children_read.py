"""Which children of a znode a controller has read, as lines of its log say."""

import re
from collections.abc import Iterable
from typing import Final

from controller.core import znodes
from replay.stock_clusters.agreement.marks import LogMarker

Listed = tuple[str, tuple[str, ...]]
"""A path and the children that a log says were read of it."""

_LIVE: Final = "] Initialized broker epochs cache: "


def read_by_failover(text: str) -> Listed | None:
    """The live brokers (KafkaController.initializeControllerContext); None for other lines."""
    _, is_it, brokers = text.partition(_LIVE)
    return (znodes.BROKER_IDS, tuple(re.findall(r"(\d+) -> ", brokers))) if is_it else None


def read_by_event(opening: LogMarker, known_topics: Iterable[str]) -> Listed | None:
    """What an event has read that says what became of the brokers, or of the known topics."""
    if opening.event == "BrokerChange":
        return znodes.BROKER_IDS, tuple(map(str, opening.brokers))
    if opening.event == "TopicChange":
        left = {*known_topics} - {*opening.gone}
        return znodes.TOPICS, tuple(sorted(left | {*opening.topics}))
    return None
