"""Where refold's rule is better than Kafka's: both outcomes."""

import pytest

from controller.core import znodes
from controller.core.commands import Issued, ReadChildren, StartTimer
from controller.core.procedures import failover
from controller.core.procedures.role import BACK_OFF_TIMER
from tests.core.cluster import DAEMON, Cluster


@pytest.fixture
def failing_failover(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every failover fails where topics are read; gives the epochs in which it did."""
    epochs: list[int] = []

    async def fail(controller: object) -> None:
        epochs.append(controller.context.epoch)  # type: ignore[attr-defined]
        raise ValueError("planted")

    monkeypatch.setattr(failover, "load_context", fail)
    return epochs


def test_failover_back_off_waits_a_second_before_it_stands_again(
    failing_failover: list[int],
) -> None:
    cluster = Cluster(1).start()
    assert failing_failover == [1]
    assert cluster.controller() is None
    assert [one for one in cluster.seen().commands if isinstance(one, StartTimer)] == []
    timers = [one.command for one in cluster.commands() if isinstance(one.command, StartTimer)]
    assert timers == [StartTimer(BACK_OFF_TIMER, 1000)]
    cluster.fire(BACK_OFF_TIMER)
    assert failing_failover == [1, 2]


def test_under_kafka_rules_it_stands_again_at_once(failing_failover: list[int]) -> None:
    cluster = Cluster(1, rules="kafka")

    def stop_after_ten(issued: Issued) -> None:
        if isinstance(issued.command, ReadChildren) and len(failing_failover) >= 10:
            cluster.is_stopped = True

    cluster.before = stop_after_ten
    cluster.start()
    assert failing_failover[:10] == list(range(1, 11))


def test_a_stock_broker_takes_the_role_that_was_given_up(failing_failover: list[int]) -> None:
    cluster = Cluster(1).start()
    session = cluster.take_role(1)
    cluster.fire(BACK_OFF_TIMER)
    assert failing_failover == [1]
    assert cluster.controller() == 1
    cluster.leave_role(session)
    assert failing_failover == [1, 3]
    assert cluster.data(znodes.CONTROLLER) is None
    assert cluster.controller() != DAEMON
