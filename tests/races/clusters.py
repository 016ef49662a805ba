"""The cluster of directed runs."""

import msgspec

from replay.explore.generators.scenarios import generic
from replay.world.scenario import Scenario


def cluster() -> Scenario:
    """The generic cluster without a standby, whose failovers read everything, and with time for a
    failover after a crash and for what follows."""
    return msgspec.structs.replace(generic(standby=(False, False)), active_ms=30_000)
