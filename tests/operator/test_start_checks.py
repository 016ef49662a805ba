import pytest

from controller.operator.facts import ClusterFacts, ControllerFacts, ZooKeeperFacts
from controller.operator.start_checks import check_start, may_be_last_run
from tests.operator.settings import settings


def facts(
    *,
    chroot_exists: bool = True,
    is_kafka: bool = True,
    cluster_id: str | None = "c1",
    registered: tuple[int, ...] = (),
    controller: ControllerFacts | None = None,
    migrating: int | None = None,
) -> ZooKeeperFacts:
    return ZooKeeperFacts(
        cluster=ClusterFacts(
            chroot_exists=chroot_exists,
            is_kafka=is_kafka,
            cluster_id=cluster_id,
            registered=registered,
            controller=controller,
            migrating=migrating,
        )
    )


def errors(found: ZooKeeperFacts) -> list[str]:
    return [one.line for one in check_start(settings(), found) if one.level == "error"]


def test_nothing_stands_in_the_way() -> None:
    assert errors(facts()) == []
    assert errors(facts(registered=(1,), controller=ControllerFacts(broker_id=1))) == []
    # Content that cannot be read is no controller, as in Kafka; its session may be replaced.
    assert errors(facts(controller=ControllerFacts(broker_id=None))) == []


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (ZooKeeperFacts(fault="refused"), "no ZooKeeper: refused"),
        (facts(chroot_exists=False), "/kafka does not exist"),
        (facts(is_kafka=False), "no readable /brokers/ids"),
        (facts(cluster_id=None), "no readable /cluster/id"),
        (facts(registered=(1000,)), "registered in /brokers/ids/1000"),
        (facts(controller=ControllerFacts(broker_id=1000)), "another daemon holds /controller"),
        (
            facts(controller=ControllerFacts(broker_id=1, is_ephemeral=False)),
            "/controller is persistent",
        ),
        (
            facts(controller=ControllerFacts(broker_id=1, kraft_epoch=5, is_ephemeral=False)),
            "kraftControllerEpoch 5",
        ),
        (facts(migrating=3000), "KRaft controller 3000 migrates"),
    ],
)
def test_what_refuses_a_start(found: ZooKeeperFacts, told: str) -> None:
    (error,) = errors(found)
    assert told in error


def test_the_last_runs_session_is_waited_for_and_nothing_else() -> None:
    own, other = ControllerFacts(broker_id=1000), ControllerFacts(broker_id=1)
    assert may_be_last_run(settings(), facts(controller=own))
    assert not may_be_last_run(settings(), facts(controller=other))
    assert not may_be_last_run(settings(), facts(controller=own, registered=(1000,)))
    assert not may_be_last_run(settings(), ZooKeeperFacts(fault="refused"))
