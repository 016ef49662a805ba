"""The core as the controller of a stock broker: its own id is one of the brokers'."""

import pytest

from controller.core import error_codes as codes
from controller.core.configuration import Configuration
from controller.core.values import NO_BROKER
from tests.controller.core.cluster import DAEMON, Cluster
from tests.controller.core.reassignment.reassigning import (
    T0,
    assignment,
    catch_up,
    put_request,
    reassign,
)


def cluster_of(*brokers: int, is_broker: bool = True) -> Cluster:
    return Cluster(*brokers, is_broker=is_broker, rules="kafka").start()


@pytest.mark.parametrize(("is_broker", "id"), [(True, NO_BROKER), (False, DAEMON)])
def test_only_the_daemon_can_hold_no_replica(is_broker: bool, id: int) -> None:
    configuration = Configuration(broker_id=DAEMON, is_broker=is_broker)
    assert configuration.id_without_replicas == id


@pytest.mark.parametrize("is_broker", [True, False])
def test_own_registration_is_that_of_a_live_broker(is_broker: bool) -> None:
    """Beside the daemon a broker of its id is told and left out."""
    cluster = Cluster(1, DAEMON, is_broker=is_broker, rules="kafka")
    seen = cluster.seen()
    cluster.start()
    live = list(cluster.fold.controller.context.brokers)
    assert live == ([1, DAEMON] if is_broker else [1])
    assert bool(seen.notices()) != is_broker


def test_it_leads_what_is_placed_on_it() -> None:
    cluster = cluster_of(1, DAEMON)
    cluster.create_topic("t", {0: [DAEMON, 1]})
    assert cluster.state("t", 0) == f"leader {DAEMON} e 0 isr [{DAEMON},1] v 0 ce 1"
    assert assignment(cluster) == f"{DAEMON},1"


def test_reassignments_to_it_are_done() -> None:
    cluster = cluster_of(1, DAEMON)
    cluster.create_topic("t", {0: [1]})
    assert reassign(cluster, DAEMON) == codes.NONE
    catch_up(cluster, DAEMON)
    assert assignment(cluster) == str(DAEMON)
    put_request(cluster, {T0: [DAEMON, 1]})
    catch_up(cluster, 1)
    assert assignment(cluster) == f"{DAEMON},1"
