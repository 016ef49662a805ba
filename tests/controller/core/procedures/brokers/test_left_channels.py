"""A controller that has lost the role before it resigns. A stock controller does not close its
channels to brokers then (KafkaController.triggerControllerMove,
ControllerChannelManager.startup)."""

from typing import Any

import pytest

from controller.core import znodes
from controller.core.commands import Issued, ReadZnodes
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.reassignment.reassigning import T0, cluster_of, reassign

STOCK = {"rules": "kafka", "is_broker": True}
STATE = znodes.state_path(*T0)


def lose_role(cluster: Cluster) -> None:
    cluster.remove_quietly(znodes.CONTROLLER)


def keep_role(cluster: Cluster) -> None:
    pass


def failovers(settings: dict[str, Any], meanwhile: Any) -> int:
    """The number of failovers if the first one reads the state of a later controller.
    `meanwhile` runs before the controller resigns; the state is repaired then."""
    cluster = cluster_of(3, 1, 2, **settings)
    assert reassign(cluster, 1, 2, 3) == 0
    whole = cluster.put_state_of_a_later_controller("t", 0)

    def resigns(issued: Issued) -> bool:
        command = issued.command
        looks = isinstance(command, ReadZnodes) and command.paths == (znodes.CONTROLLER,)
        return looks and cluster.is_active

    def repair() -> None:
        cluster.put_quietly(STATE, whole)
        meanwhile(cluster)

    cluster.once(resigns, repair)
    first = cluster.epoch()
    cluster.expire()
    assert cluster.is_active
    return cluster.epoch() - first


def test_failover_after_the_lost_role_fails_on_an_open_channel() -> None:
    """The third failover begins without channels."""
    assert failovers(STOCK, lose_role) == 3


@pytest.mark.parametrize(
    ("settings", "meanwhile"),
    [
        (STOCK, keep_role),
        ({"rules": "kafka"}, lose_role),
        ({"rules": "refold", "is_broker": True}, lose_role),
    ],
)
def test_resignation_closes_channels(settings: dict[str, Any], meanwhile: Any) -> None:
    assert failovers(settings, meanwhile) == 2
