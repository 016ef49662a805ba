"""Throttles, min.insync.replicas and unclean elections are part of an answer."""

from collections.abc import Callable
from pathlib import Path

import pytest

from controller.core.values import Assignment, LeaderAndIsr
from replay.cluster_view.views import PartitionView, partition_view
from replay.description.commands import content
from replay.why.configuration import ConfigOverrides, throttles, too_few_in_sync, unclean_setting
from tests.replay.why.asked import asked

LogOf = Callable[[str], Path]


def partition(*isr: int) -> PartitionView:
    state = LeaderAndIsr(leader=1, leader_epoch=0, isr=isr, partition_epoch=0, controller_epoch=1)
    return partition_view("t", 0, "online", state, Assignment((1, 2)), ())


def test_throttle_explains_a_reassignment_that_has_not_ended(log_of: LogOf) -> None:
    """The script throttled the moves of big.01 to 1,000 B/s."""
    answer = asked(
        log_of("reassign-cancel-6"), 600, topic="big.01", partition=0, is_reassignment=True
    )
    assert " Its replication is throttled to 1,000 B/s on brokers 1,4 " in answer.answer
    assert "(follower.replication.throttled.rate)" in answer.answer


def test_throttle_of_another_partition_is_not_named() -> None:
    settings = ConfigOverrides(
        {"t": {"leader.replication.throttled.replicas": "1:1,1:2"}},
        {1: {"leader.replication.throttled.rate": "1000"}},
    )
    assert throttles(settings, partition(1)) == ""
    everything = ConfigOverrides(
        {"t": {"leader.replication.throttled.replicas": "*"}}, settings.brokers
    )
    assert throttles(everything, partition(1)) == (
        " Its replication is throttled to 1,000 B/s on broker 1 "
        "(leader.replication.throttled.rate)."
    )


def test_min_insync_replicas_is_named_only_if_it_is_not_reached() -> None:
    settings = ConfigOverrides({"t": {"min.insync.replicas": "2"}})
    assert "min.insync.replicas is 2, and the ISR has 1" in too_few_in_sync(settings, partition(1))
    assert too_few_in_sync(settings, partition(1, 2)) == ""
    assert too_few_in_sync(ConfigOverrides(), partition(1)) == ""


def test_topic_overrides_the_unclean_setting_of_all_brokers() -> None:
    key = "unclean.leader.election.enable"
    settings = ConfigOverrides({"t": {key: "false"}}, default={key: "true"})
    assert unclean_setting(settings, "t") == f" The topic sets {key} to false."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b'{"version":1,"config":{"producer_byte_rate":"9"}}', " (producer_byte_rate=9)"),
        (b'{"version":1,"config":{"ssl.keystore.password":"x"}}', ""),
        (b"{", ""),
    ],
)
def test_limits_in_a_configuration_are_described_and_secrets_are_not(
    text: bytes, shown: str
) -> None:
    assert content("/config/users/u", text) == shown


@pytest.mark.parametrize(
    ("about", "text"),
    [
        (
            {"topic": "big.01", "partition": 0},
            " Its replication is throttled to 1,000 B/s on brokers 1,4"
            " (leader.replication.throttled.rate) and 1,000 B/s on brokers 2,5"
            " (follower.replication.throttled.rate).",
        ),
        ({"topic": "big.01"}, " The replication of big.01-0 is throttled to 1,000 B/s on brokers"),
    ],
)
def test_throttle_explains_replicas_that_are_not_in_sync(
    about: dict[str, object], text: str, log_of: LogOf
) -> None:
    assert text in asked(log_of("reassign-cancel-6"), 600, **about).answer


def test_throttle_is_part_of_a_root_cause(log_of: LogOf) -> None:
    found = asked(log_of("reassign-cancel-6"), 600, is_unhealthy=True)
    affected = {one.cause: one.affected for one in found.unhealthy}
    cause = (
        "broker 2: live, but has not caught up; the replication is throttled to 1,000 B/s on"
        " broker 2 (follower.replication.throttled.rate)"
    )
    assert affected[cause] == ["big.01-0", "big.01-1", "big.01-2"]


def test_throttle_of_a_partition_in_sync_is_not_named(log_of: LogOf) -> None:
    """At the end of the recording, the moves are over."""
    assert "throttled" not in asked(log_of("reassign-cancel-6"), topic="big.01").answer
