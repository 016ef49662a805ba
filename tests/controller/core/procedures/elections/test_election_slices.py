"""Elections of many partitions, which are divided into slices."""

from collections.abc import Callable

import pytest

from controller.core import znodes
from controller.core.fold import Fold
from controller.core.procedures.elections import leadership
from tests.controller.core.cluster import Cluster
from tests.controller.core.replaying import encoded

COUNT = 10


def led_by_broker_1() -> Cluster:
    """Broker 1 has the only replicas of t-0 to t-9."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {number: [1] for number in range(COUNT)})
    return cluster


def without_a_live_replica(cluster: Cluster) -> None:
    """No replica can lead."""


def without_states(cluster: Cluster) -> None:
    """A client has deleted the state znodes."""
    for number in range(COUNT):
        cluster.remove_quietly(znodes.state_path("t", number))


def with_unreadable_states(cluster: Cluster) -> None:
    """A client has written content that is no state."""
    for number in range(COUNT):
        cluster.put_quietly(znodes.state_path("t", number), b"{broken")


def of_a_later_controller(cluster: Cluster) -> None:
    """A controller with a later epoch has written the states."""
    for number in range(COUNT):
        cluster.put_state_of_a_later_controller("t", number)


def replayed(cluster: Cluster, start: int) -> tuple[int, list[object]]:
    """The number of slices of the events from `start` on in another fold, and their commands."""
    fold = Fold(cluster.fold.controller.configuration)
    slices = [list(fold.apply(recorded)) for recorded, _ in cluster.history][start:]
    commands = [encoded(one) for each in slices for part in each for one in part]
    return sum(map(len, slices)), commands


@pytest.mark.parametrize(
    ("prepare", "loops"),
    [
        (without_a_live_replica, 3),
        (without_states, 2),
        (with_unreadable_states, 2),
        (of_a_later_controller, 2),
    ],
)
def test_partitions_that_get_no_leader_are_handled_in_slices(
    prepare: Callable[[Cluster], None], loops: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two loops read the states: for the elections, and to remove broker 1 from the ISRs. The third
    one chooses the leaders of those that could be read."""
    cluster = led_by_broker_1()
    prepare(cluster)
    start = len(cluster.history)
    cluster.stop_broker(1)
    undivided, commands = replayed(cluster, start)
    monkeypatch.setattr(leadership, "SLICE_SIZE", 1)
    assert replayed(cluster, start) == (undivided + loops * (COUNT - 1), commands)
