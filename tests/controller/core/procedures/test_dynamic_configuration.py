"""Unclean leader election that is enabled while the cluster runs (KB 3.10): row SU-11 of KB 17."""

from typing import Any

import pytest

from controller.core import znodes
from controller.core.commands import ReadChildren, ReadZnodes
from controller.core.operations import Create
from tests.controller.core.cluster import DAEMON, Cluster, Seen, reads
from tests.controller.core.procedures.elections.electing import (
    configure,
    configure_quietly,
    leaders,
    notify,
    notify_quietly,
)
from tests.controller.core.procedures.topics.deleting import mark
from tests.controller.core.unreliable import Delivery

T, ALL, OWN = "topics/t", "brokers/<default>", f"brokers/{DAEMON}"
ENABLED = {"version": 1, "config": {"unclean.leader.election.enable": "true"}}
OF_T = {"version": 2, "entity_path": T}
WAITING = {0: -1, 1: -1}


def waiting(**settings: Any) -> Cluster:
    """t-0, t-1 and u-0 [1,2]: broker 2 died, then 1 with the only ISR, then 2 came back."""
    cluster = Cluster(1, 2, **settings).start()
    cluster.create_topic("t", {0: [1, 2], 1: [1, 2]})
    cluster.create_topic("u", {0: [1, 2]})
    cluster.stop_broker(2)
    cluster.stop_broker(1)
    cluster.start_broker(2)
    return cluster


def states_read(seen: Seen) -> list[str]:
    """The states that were read for an election."""
    read = [path for one in seen.commands if isinstance(one, ReadZnodes) for path in one.paths]
    return [path for path in read if path.endswith("/state")]


# A topic ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", ["true", "TRUE"])
def test_SU_11_topic_override_elects_an_unclean_leader_at_once(setting: str) -> None:
    cluster = waiting()
    seen = cluster.seen()
    configure(cluster, T, setting)
    assert cluster.state("t", 0) == "leader 2 e 3 isr [2] v 3 ce 1 recovering"
    assert leaders(cluster, "t") == {0: 2, 1: 2}
    assert states_read(seen) == [znodes.state_path("t", number) for number in (0, 1)]


def test_SU_11_topic_override_changes_nothing_while_the_leader_lives() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.stop_broker(2)
    seen = cluster.seen()
    for setting in ("true", "false"):
        configure(cluster, T, setting)
    assert seen.writes() == []
    assert seen.requested() == {}
    cluster.stop_broker(1)
    cluster.start_broker(2)
    assert cluster.leadership("t", 0).leader == -1
    configure(cluster, T, "true")
    assert cluster.leadership("t", 0).leader == 2


@pytest.mark.parametrize("setting", ["false", "yes", "1", "", None])
def test_setting_that_does_not_enable_it_elects_no_leader(setting: str | None) -> None:
    cluster = waiting()
    seen = cluster.seen()
    configure(cluster, T, setting)
    assert leaders(cluster, "t") == WAITING
    assert states_read(seen) == []


def test_override_that_was_true_before_elects_again() -> None:
    """KB 3.10."""
    cluster = waiting()
    configure_quietly(cluster, T, ENABLED)
    notify(cluster, OF_T)
    assert leaders(cluster, "t") == {0: 2, 1: 2}


def test_removed_override_allows_no_unclean_leader() -> None:
    cluster = waiting()
    configure(cluster, T, "true")
    configure(cluster, T, None)
    cluster.stop_broker(2)
    cluster.start_broker(1)
    assert leaders(cluster, "t") == WAITING


def test_override_of_an_unknown_or_deleted_topic_is_ignored() -> None:
    cluster = waiting()
    mark(cluster, "t")
    assert cluster.data(znodes.topic_path("t")) is not None
    before = leaders(cluster, "t")
    configure(cluster, T, "true")
    configure(cluster, "topics/missing", "true")
    assert leaders(cluster, "t") == before


# All topics without an override -----------------------------------------------------------------


@pytest.mark.parametrize("entity", [ALL, OWN])
def test_default_of_the_cluster_or_the_daemon_elects_all_leaderless_partitions(entity: str) -> None:
    """For all brokers, or for the daemon's id. Kafka's controller uses its broker's settings."""
    cluster = waiting()
    configure(cluster, entity, "true")
    assert leaders(cluster, "t") == {0: 2, 1: 2}
    assert leaders(cluster, "u") == {0: 2}


def test_settings_of_another_broker_are_ignored() -> None:
    cluster = waiting()
    seen = cluster.seen()
    configure(cluster, "brokers/2", "true")
    assert leaders(cluster, "t") == WAITING
    assert states_read(seen) == []


def test_daemons_setting_has_priority_over_the_cluster_default() -> None:
    cluster = waiting()
    configure(cluster, OWN, "false")
    configure(cluster, ALL, "true")
    assert leaders(cluster, "t") == WAITING
    configure(cluster, OWN, None)
    assert leaders(cluster, "t") == {0: 2, 1: 2}


def test_topic_override_has_priority_over_the_cluster_default() -> None:
    cluster = waiting()
    configure(cluster, T, "false")
    configure(cluster, ALL, "true")
    assert leaders(cluster, "t") == WAITING
    assert leaders(cluster, "u") == {0: 2}


def test_cluster_default_applies_to_partitions_that_lose_their_leader_later() -> None:
    cluster = Cluster(1, 2).start()
    configure(cluster, ALL, "true")
    cluster.create_topic("t", {0: [1, 2]})
    cluster.stop_broker(2)
    cluster.stop_broker(1)
    cluster.start_broker(2)
    assert cluster.leadership("t", 0).leader == 2


def test_removed_cluster_default_restores_the_daemons_settings() -> None:
    cluster = Cluster(1, 2, unclean_leader_election_enable=True).start()
    configure(cluster, ALL, "false")
    cluster.create_topic("t", {0: [1, 2]})
    cluster.stop_broker(2)
    cluster.stop_broker(1)
    cluster.start_broker(2)
    assert cluster.leadership("t", 0).leader == -1
    configure(cluster, ALL, None)
    assert cluster.leadership("t", 0).leader == 2


def test_cluster_default_enabled_twice_elects_once() -> None:
    """Kafka elects when the setting turns from false to true."""
    cluster = waiting()
    configure(cluster, ALL, "true")
    cluster.stop_broker(2)
    seen = cluster.seen()
    configure(cluster, ALL, "true")
    assert states_read(seen) == []


# Notifications ----------------------------------------------------------------------------------


BAD = [
    b"",
    b"{",
    b"\xff",
    b"7",
    b'{"version":2}',
    b'{"version":2,"entity_path":7}',
]


@pytest.mark.parametrize("data", BAD)
def test_unreadable_notification_is_reported_and_skipped(data: bytes) -> None:
    cluster = waiting()
    configure_quietly(cluster, T, ENABLED)
    notify_quietly(cluster, data)
    seen = cluster.seen()
    notify(cluster, OF_T)
    assert [code for code, _ in seen.notices()] == ["unreadable_znode", "unclean_leader"]
    assert leaders(cluster, "t") == {0: 2, 1: 2}


@pytest.mark.parametrize("entity", ["topics", "topics/", "users/alice", "clients/c", "ips/::1", ""])
def test_notifications_of_other_entities_are_ignored(entity: str) -> None:
    cluster = waiting()
    seen = cluster.seen()
    notify(cluster, {"version": 2, "entity_path": entity})
    assert seen.notices() == []
    assert seen.writes() == []


@pytest.mark.parametrize("name", ["config_change_x", "config_change_9", "config_change_", "other"])
def test_child_with_another_name_hides_no_notification(name: str) -> None:
    """The name would be sorted after all later notifications."""
    cluster = waiting()
    cluster.put(f"{znodes.CONFIG_CHANGES}/{name}", b"{}")
    configure(cluster, T, "true")
    assert leaders(cluster, "t") == {0: 2, 1: 2}
    cluster.expire()
    configure(cluster, ALL, "true")
    assert leaders(cluster, "u") == {0: 2}


def test_each_notification_is_read_once() -> None:
    cluster = waiting()
    notify(cluster, BAD[1])
    seen = cluster.seen()
    notify(cluster, {"version": 2, "entity_path": "users/alice"})
    assert seen.notices() == []


@pytest.mark.parametrize("entities", [(T, "topics/u"), (T, ALL), (ALL, T)])
def test_several_notifications_at_once_are_all_processed(entities: tuple[str, str]) -> None:
    cluster = waiting()
    for entity in entities:
        configure_quietly(cluster, entity, ENABLED)
        notify_quietly(cluster, {"version": 2, "entity_path": entity})
    cluster.run()
    assert leaders(cluster, "t") == {0: 2, 1: 2}
    assert leaders(cluster, "u") == {0: 2}


def test_notifications_deleted_by_brokers_are_ignored() -> None:
    """A deletion also changes the children."""
    cluster = waiting()
    for _ in range(2):
        configure(cluster, T, "false")
    seen = cluster.seen()
    cluster.remove(f"{znodes.CONFIG_CHANGES}/config_change_0000000000")
    assert [type(one) for one in seen.commands] == [ReadChildren]


@pytest.mark.parametrize("entity", [T, ALL])
def test_unreadable_configuration_is_reported_and_allows_no_unclean_leader(entity: str) -> None:
    cluster = waiting()
    path = f"/config/{entity}"
    cluster.put_quietly(path, b"{")
    seen = cluster.seen()
    notify(cluster, {"version": 2, "entity_path": entity})
    assert seen.notices() == [("unreadable_znode", path)]
    assert leaders(cluster, "t") == WAITING


@pytest.mark.parametrize("delivery", [Delivery.REQUEST_LOST, Delivery.REPLY_LOST])
def test_notifications_survive_a_lost_connection(delivery: Delivery) -> None:
    cluster = waiting()
    cluster.lose(reads(znodes.CONFIG_CHANGES), delivery)
    configure(cluster, T, "true")
    assert leaders(cluster, "t") == {0: 2, 1: 2}


# Changes of the controller ----------------------------------------------------------------------


def test_new_controller_applies_the_stored_configuration() -> None:
    cluster = waiting()
    configure_quietly(cluster, ALL, ENABLED)
    cluster.expire()
    assert cluster.state("t", 0) == "leader 2 e 4 isr [2] v 4 ce 2 recovering"


def test_new_controller_does_not_process_older_notifications() -> None:
    """The failover has read the configurations that these notifications announce."""
    cluster = waiting()
    configure(cluster, ALL, "true")
    notify_quietly(cluster, BAD[1])
    seen = cluster.seen()
    cluster.expire()
    notify(cluster, {"version": 2, "entity_path": "users/alice"})
    assert seen.notices() == []


def test_configuration_enabled_during_a_failover_is_processed() -> None:
    """The change follows the read of the configurations."""
    cluster = waiting()

    def enable() -> None:
        configure_quietly(cluster, ALL, ENABLED)
        notify_quietly(cluster, {"version": 2, "entity_path": ALL})

    cluster.once(reads(znodes.BROKER_IDS), enable)
    cluster.expire()
    assert leaders(cluster, "t") == {0: 2, 1: 2}


def test_next_term_begins_with_the_daemons_settings() -> None:
    cluster = waiting()
    configure(cluster, ALL, "true")
    cluster.remove_quietly(f"/config/{ALL}")
    cluster.stop_broker(2)
    cluster.start_broker(1)
    cluster.expire()
    assert not cluster.fold.controller.context.unclean_default


def test_missing_config_changes_znode_is_watched() -> None:
    """Kafka has not created /config/changes yet."""
    cluster = Cluster(1, 2)
    cluster.remove_quietly("/config")
    seen = cluster.seen()
    cluster.start()
    assert seen.notices() == []
    cluster.ask(Create("/config"))
    cluster.put(znodes.CONFIG_CHANGES, b"")
    assert cluster.is_active


def test_standby_ignores_notifications() -> None:
    cluster = Cluster(1)
    cluster.take_role(1)
    cluster.connect()
    seen = cluster.seen()
    notify(cluster, OF_T)
    assert seen.commands == []
