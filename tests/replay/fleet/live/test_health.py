"""The health of a partition from leader, ISR and replicas."""

import pytest

from controller.core.values import Assignment, LeaderAndIsr
from replay.fleet.live.health import health_of, health_of_state


@pytest.mark.parametrize(
    ("leader", "isr", "replicas", "health"),
    [
        (1, (1, 2, 3), (1, 2, 3), "healthy"),
        (1, (3, 2, 1), (1, 2, 3), "healthy"),
        (2, (1, 2, 3), (1, 2, 3), "not_preferred"),
        (1, (1, 2), (1, 2, 3), "under_replicated"),
        # A broker is missing; a leader other than the preferred one is a consequence.
        (2, (2, 3), (1, 2, 3), "under_replicated"),
        # The replica of a broker that was replaced may still be in sync.
        (1, (1, 2, 4), (1, 2, 3), "under_replicated"),
        # Kafka before 0.9 emptied the ISR; later versions keep the last replica in it.
        (-1, (), (1, 2), "offline"),
        (-1, (2,), (1, 2), "offline"),
        (1, (), (1, 2), "offline"),
    ],
)
def test_health_follows_from_leader_isr_and_replicas(
    leader: int, isr: tuple[int, ...], replicas: tuple[int, ...], health: str
) -> None:
    assert health_of(leader, isr, replicas) == health


def test_replicas_being_added_do_not_count_as_missing() -> None:
    assignment = Assignment((4, 1, 2, 3), adding=(4,), removing=(3,))
    state = LeaderAndIsr(1, 5, (1, 2, 3), 7, 1)
    assert health_of_state(state, assignment) == "healthy"
    assert health_of_state(LeaderAndIsr(1, 5, (1, 2), 7, 1), assignment) == "under_replicated"


def test_partition_without_a_state_is_offline() -> None:
    assert health_of_state(None, Assignment((1, 2))) == "offline"
