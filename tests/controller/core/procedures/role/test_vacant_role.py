"""The role of a controller whose znode was deleted, and no event reports that."""

import pytest

from controller.core import znodes
from controller.core.commands import WriteZnodes
from controller.core.events import WatchFired
from controller.core.procedures.role.controller_election import BACK_OFF_TIMER
from tests.controller.core.cluster import Cluster, by_rule
from tests.controller.core.conftest import FailingFailovers
from tests.controller.core.slow_sessions import assert_elected

both_rules = pytest.mark.parametrize("rules", ["refold", "kafka"])


# vacant-role-seen ---------------------------------------------------------------------------------


def delete_controller_unreported(cluster: Cluster) -> None:
    """Delete /controller when the daemon's watch has fired and is not set again."""
    cluster.remove_quietly(znodes.CONTROLLER)
    cluster.zookeeper.take_events(cluster.session)


@both_rules
@pytest.mark.deviates("vacant-role-seen")
def test_controller_znode_that_is_deleted_during_the_failover_is_created_again(rules: str) -> None:
    """On ZooKeeper before 3.6. By Kafka's rule no broker is controller then."""
    cluster = Cluster(1, 2, rules=rules)
    during_failover = by_rule(WriteZnodes, "failover: feature versioning")
    cluster.once(during_failover, lambda: delete_controller_unreported(cluster))
    cluster.start()
    if rules == "kafka":
        assert (cluster.controller(), cluster.is_active) == (None, False)
    else:
        assert_elected(cluster, 2)


@both_rules
@pytest.mark.deviates("vacant-role-seen")
def test_role_of_a_controller_that_dies_before_its_znode_is_read_is_taken(rules: str) -> None:
    """The watch of the daemon, which does not have the role, has fired for the creation."""
    cluster = Cluster(1, 2, rules=rules)
    session = cluster.take_role(2)
    cluster.start()
    cluster.zookeeper.end_session(session)
    cluster.zookeeper.take_events(cluster.session)
    cluster.happen(WatchFired(znodes.CONTROLLER, "created", -1), "watches")
    if rules == "kafka":
        assert (cluster.controller(), cluster.is_active) == (None, False)
    else:
        assert_elected(cluster, 2)


def test_daemon_whose_failover_has_failed_waits_for_its_timer_also_after_a_change(
    failing_failovers: FailingFailovers,
) -> None:
    """The creation of /controller is handled when the daemon has already deleted the znode."""
    cluster = Cluster(1).start()
    assert (cluster.controller(), cluster.epoch()) == (None, 1)
    failing_failovers.fails = False
    cluster.fire(BACK_OFF_TIMER)
    assert_elected(cluster, 2)
