"""Do the brokers' logs have the times that ZooKeeper has? log4j writes no time zone."""

from collections.abc import Mapping
from typing import Final

_OFF_MINUTES: Final = 10
_MINUTE_MS: Final = 60_000


def clock_notes(said_ms: Mapping[int, int], elected_ms: Mapping[int, int]) -> list[str]:
    """What to tell where no controller said that it was elected when ZooKeeper has its election;
    both by epoch."""
    minutes = [
        (said_ms[epoch] - elected_ms[epoch]) // _MINUTE_MS
        for epoch in sorted(said_ms.keys() & elected_ms.keys())
    ]
    if not minutes or min(map(abs, minutes)) < _OFF_MINUTES:
        return []
    off = min(minutes, key=abs)
    way = "ahead of" if off > 0 else "behind"
    return [
        f"the brokers' logs are {abs(off)} minutes {way} ZooKeeper's: name the time zone that the"
        " brokers log in with --zone"
    ]
