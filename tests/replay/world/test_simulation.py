"""The simulated cluster."""

import pytest

from controller.core import znodes
from controller.core.commands import Issued, ReadChildren
from controller.core.configuration import Configuration
from controller.core.events import WatchFired
from replay.errors import ReplayError
from replay.world.simulation import Simulation


def test_controller_that_never_becomes_idle_is_an_error() -> None:
    simulation = Simulation(Configuration(broker_id=1000))
    simulation.connect()

    def disturb(issued: Issued) -> None:
        if issued.command == ReadChildren(znodes.BROKER_IDS, watch=True):
            simulation.happen_next(WatchFired(znodes.BROKER_IDS, "children", 1), "watches")

    simulation.before = disturb
    with pytest.raises(ReplayError, match="still works after 20000 events"):
        simulation.happen(WatchFired(znodes.BROKER_IDS, "children", 1), "watches")
