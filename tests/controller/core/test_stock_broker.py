"""The core as the controller of a stock broker: the controller's id is that of a broker."""

import pytest

from controller.core import error_codes as codes
from controller.core.configuration import Configuration
from controller.core.values import NO_BROKER
from tests.controller.core.cluster import DAEMON, Cluster
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    assignment,
    catch_up,
    put_request,
    reassign,
)


def cluster_of(*brokers: int, is_broker: bool = True) -> Cluster:
    return Cluster(*brokers, is_broker=is_broker, rules="kafka").start()


@pytest.mark.parametrize(("is_broker", "id"), [(True, NO_BROKER), (False, DAEMON)])
def test_only_the_daemon_cannot_hold_replicas(is_broker: bool, id: int) -> None:
    configuration = Configuration(broker_id=DAEMON, is_broker=is_broker)
    assert configuration.id_without_replicas == id


@pytest.mark.parametrize("is_broker", [True, False])
def test_registration_with_the_controllers_id_is_live_only_for_a_stock_broker(
    is_broker: bool,
) -> None:
    """The daemon reports and skips a broker with its id."""
    cluster = Cluster(1, DAEMON, is_broker=is_broker, rules="kafka")
    seen = cluster.seen()
    cluster.start()
    live = list(cluster.fold.controller.context.brokers)
    assert live == ([1, DAEMON] if is_broker else [1])
    assert bool(seen.notices()) != is_broker


def test_stock_controller_leads_the_partitions_assigned_to_it() -> None:
    cluster = cluster_of(1, DAEMON)
    cluster.create_topic("t", {0: [DAEMON, 1]})
    assert cluster.state("t", 0) == f"leader {DAEMON} e 0 isr [{DAEMON},1] v 0 ce 1"
    assert assignment(cluster) == f"{DAEMON},1"


def test_reassignments_to_the_stock_controller_are_carried_out() -> None:
    cluster = cluster_of(1, DAEMON)
    cluster.create_topic("t", {0: [1]})
    assert reassign(cluster, DAEMON) == codes.NONE
    catch_up(cluster, DAEMON)
    assert assignment(cluster) == str(DAEMON)
    put_request(cluster, {T0: [DAEMON, 1]})
    catch_up(cluster, 1)
    assert assignment(cluster) == f"{DAEMON},1"
