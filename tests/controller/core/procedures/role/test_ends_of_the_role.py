"""The end of a term at a hand-back that is fenced, and epochs that a client lowers (KB 13)."""

import pytest

from controller.core import znodes
from controller.core.commands import StartTimer, WriteZnodes
from controller.core.values import Endpoint
from tests.controller.core.cluster import Cluster, by_rule
from tests.controller.core.procedures.reassignment.interrupting import half_way

ENDPOINTS = (Endpoint("PLAINTEXT", "PLAINTEXT", "daemon", 9099),)
gives_up = by_rule(WriteZnodes, "give up the role")


def test_role_whose_epoch_changes_while_it_is_given_up_is_resigned() -> None:
    cluster = Cluster(1).start()
    cluster.once(gives_up, lambda: cluster.put_quietly(znodes.CONTROLLER_EPOCH, b"9"))
    seen = cluster.seen()
    cluster.shut_down()
    assert (cluster.is_active, cluster.is_stopped) == (False, True)
    assert seen.texts_of("resigned") == ["another controller took the role meanwhile"]
    assert [one.partition(" ")[0] for one in seen.channels()] == ["close"]


def test_controller_elected_while_topics_are_read_again_ends_the_hand_back() -> None:
    cluster = Cluster(1, 2, endpoints=ENDPOINTS).start()
    cluster.shut_down()
    cluster.change_topic_quietly("late", {0: [1]})
    cluster.seize_role(2)
    seen = cluster.seen()
    cluster.fire("hand back: topics under way")
    assert (cluster.is_stopped, cluster.controller()) == (True, 2)
    assert seen.texts_of("resigned") == ["another controller was found"]
    assert cluster.state("late", 0) is None


def test_controller_elected_before_entries_are_stripped_ends_the_hand_back() -> None:
    cluster = half_way()
    cluster.once(
        by_rule(WriteZnodes, "hand back: entries that stock brokers can read"),
        lambda: cluster.seize_role(2),
    )
    seen = cluster.seen()
    cluster.shut_down()
    assert (cluster.is_stopped, cluster.controller()) == (True, 2)
    assert seen.texts_of("resigned") == ["another controller was found"]


def test_standby_with_an_endpoint_stops_without_waiting_for_brokers() -> None:
    first = Cluster(1).start()
    standby = Cluster(zookeeper=first.zookeeper, endpoints=ENDPOINTS).start()
    seen = standby.seen()
    standby.shut_down()
    assert standby.is_stopped
    assert [one for one in seen.commands if isinstance(one, StartTimer)] == []


@pytest.mark.parametrize(("rules", "epoch"), [("refold", 6), ("kafka", 3)])
def test_controller_epoch_that_a_client_lowers_is_used_by_kafka_only(
    rules: str, epoch: int
) -> None:
    """Brokers know the earlier epochs, and would refuse a lower one (RESIGNS_WHEN_FENCED)."""
    cluster = Cluster(1, rules=rules)
    cluster.put_quietly(znodes.CONTROLLER_EPOCH, b"4")
    cluster.start()
    assert cluster.epoch() == 5
    cluster.put_quietly(znodes.CONTROLLER_EPOCH, b"2")
    cluster.expire()
    assert (cluster.is_active, cluster.epoch()) == (True, epoch)
