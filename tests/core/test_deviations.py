"""Where refold's rule is better than Kafka's: both outcomes."""

import pytest

from controller.core import znodes
from controller.core.commands import Issued, ReadChildren, StartTimer
from controller.core.operations import Create, SetData
from controller.core.partition_states import PartitionState
from controller.core.procedures import failover
from controller.core.procedures.role import BACK_OFF_TIMER
from controller.core.values import ANY_VERSION
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


@pytest.mark.parametrize("rules", ["refold", "kafka"])
def test_a_topic_that_is_mended_gets_its_leaders_back_by_the_states_that_stand(rules: str) -> None:
    """state-adopted: Kafka's rule leaves the partition without a leader until a failover."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [2, 1]})
    cluster.put(znodes.topic_path("t"), b"broken")
    cluster.shut_down()
    again = Cluster(zookeeper=cluster.zookeeper, rules=rules)
    again.connect()
    seen = again.seen()
    again.create_topic("t", {0: [2, 1]})
    if rules == "refold":
        assert again.state("t", 0) == "leader 2 e 1 isr [2,1] v 1 ce 2"
        assert again.partition("t", 0).state is PartitionState.ONLINE
        assert seen.kinds(1)[0] == seen.kinds(2)[0] == "LeaderAndIsr"
    else:
        assert again.state("t", 0) == "leader 2 e 0 isr [2,1] v 0 ce 1"
        assert again.partition("t", 0).state is PartitionState.NEW
        assert ("no_leader_created", "t-0") in seen.notices()


def test_a_controller_epoch_that_is_mended_lets_somebody_control_again() -> None:
    cluster = Cluster(1)
    cluster.ask(Create(znodes.CONTROLLER_EPOCH, b"garbage"))
    cluster.start()
    assert not cluster.is_active
    timers = [one.command for one in cluster.commands() if isinstance(one.command, StartTimer)]
    assert timers == [StartTimer(BACK_OFF_TIMER, 1000)]
    cluster.ask(SetData(znodes.CONTROLLER_EPOCH, b"90", ANY_VERSION))
    cluster.fire(BACK_OFF_TIMER)
    assert (cluster.is_active, cluster.epoch()) == (True, 91)


@pytest.mark.parametrize(("protocol", "is_told"), [("2.6", True), ("2.7", False), ("3.9", False)])
def test_a_protocol_version_on_the_other_side_of_2_7_is_told_once(
    protocol: str, is_told: bool
) -> None:
    """The simulated brokers register as those of 2.7 and later do."""
    cluster = Cluster(1, inter_broker_protocol_version=protocol)
    seen = cluster.seen()
    cluster.start()
    cluster.start_broker(2)
    told = [subject for code, subject in seen.notices() if code == "protocol_mismatch"]
    assert told == ([znodes.broker_path(1), znodes.broker_path(2)] if is_told else [])
