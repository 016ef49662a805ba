"""A controller that has lost the role before it resigns. A stock controller does not close its
channels to brokers then (KafkaController.triggerControllerMove,
ControllerChannelManager.startup)."""

from typing import Any

import pytest

from controller.core import znodes
from controller.core.commands import Issued, OpenChannel, ReadZnodes
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.reassignment.reassigning import T0, cluster_of, reassign

STOCK = {"rules": "kafka", "is_broker": True}
STATE = znodes.state_path(*T0)


def lose_role(cluster: Cluster) -> None:
    cluster.remove_quietly(znodes.CONTROLLER)


def keep_role(cluster: Cluster) -> None:
    pass


def after_a_failed_failover(settings: dict[str, Any], meanwhile: Any) -> Cluster:
    """The first failover reads the state of a later controller. `meanwhile` runs before the
    controller resigns; the state is repaired then."""
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
    cluster.expire()
    return cluster


def failovers(settings: dict[str, Any], meanwhile: Any) -> int:
    """The number of failovers, with the failed one."""
    cluster = after_a_failed_failover(settings, meanwhile)
    assert cluster.is_active
    return cluster.epoch() - 1


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


def test_failover_that_fails_on_an_open_channel_opens_no_other() -> None:
    """Of four failovers, the third one fails on a channel that the second one has opened."""
    cluster = after_a_failed_failover(STOCK, lose_role)
    opened = [one.command for one in cluster.commands() if isinstance(one.command, OpenChannel)]
    assert cluster.epoch() == 4
    assert [one.broker for one in opened] == [1, 2, 3] * 3


def test_failover_after_the_term_of_another_controller_fails_on_an_open_channel() -> None:
    """The other controller took the role before the first failover ended."""
    sessions: list[int] = []
    cluster = after_a_failed_failover(STOCK, lambda cluster: sessions.append(cluster.seize_role(9)))
    assert not cluster.is_active
    first = cluster.epoch()
    cluster.leave_role(sessions[0])
    assert cluster.is_active
    assert cluster.epoch() - first == 2
