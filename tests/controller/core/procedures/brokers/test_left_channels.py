"""A controller that has lost the role before it resigns. A stock controller does not close its
channels to brokers then (KafkaController.triggerControllerMove,
ControllerChannelManager.startup)."""

from collections.abc import Callable
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


def resigns(cluster: Cluster) -> Callable[[Issued], bool]:
    """A predicate that matches the read of /controller before the controller resigns."""

    def matches(issued: Issued) -> bool:
        command = issued.command
        looks = isinstance(command, ReadZnodes) and command.paths == (znodes.CONTROLLER,)
        return looks and cluster.is_active

    return matches


def after_a_failed_failover(settings: dict[str, Any], meanwhile: Any) -> Cluster:
    """The first failover reads the state of a later controller. `meanwhile` runs before the
    controller resigns; the state is repaired then."""
    cluster = cluster_of(3, 1, 2, **settings)
    assert reassign(cluster, 1, 2, 3) == 0
    whole = cluster.put_state_of_a_later_controller("t", 0)

    def repair() -> None:
        cluster.put_quietly(STATE, whole)
        meanwhile(cluster)

    cluster.once(resigns(cluster), repair)
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


def test_states_of_replicas_are_kept_until_a_failover_succeeds() -> None:
    """The first failover fails after it has set the states, the second one on an open channel. The
    role is lost each time. Another controller then removes broker 3 from the assignment. The next
    reassignment does not take its replica for a new one."""
    sessions: list[int] = []

    def lose_role_twice(cluster: Cluster) -> None:
        lose_role(cluster)
        cluster.once(resigns(cluster), lambda: sessions.append(cluster.seize_role(9)))

    cluster = after_a_failed_failover(STOCK, lose_role_twice)
    cluster.change_topic_quietly("t", {0: [1, 2]})
    cluster.leave_role(sessions[0])
    assert cluster.is_active
    seen = cluster.seen()
    assert reassign(cluster, 1, 2, 3) == 0
    assert seen.kinds(3) == ["LeaderAndIsr", "UpdateMetadata"]
