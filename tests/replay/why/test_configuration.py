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
    assert " Its replication is throttled to 1,000 B/s on broker " in answer.answer
    assert "(follower.replication.throttled.rate)" in answer.answer


def test_throttle_of_another_partition_is_not_named() -> None:
    settings = ConfigOverrides(
        {"leader.replication.throttled.replicas": "1:1,1:2"},
        {1: {"leader.replication.throttled.rate": "1000"}},
    )
    assert throttles(settings, partition(1)) == ""
    everything = ConfigOverrides({"leader.replication.throttled.replicas": "*"}, settings.brokers)
    assert throttles(everything, partition(1)) == (
        " Its replication is throttled to 1,000 B/s on broker 1 "
        "(leader.replication.throttled.rate)."
    )


def test_min_insync_replicas_is_named_only_if_it_is_not_reached() -> None:
    settings = ConfigOverrides({"min.insync.replicas": "2"})
    assert "min.insync.replicas is 2, and the ISR has 1" in too_few_in_sync(settings, partition(1))
    assert too_few_in_sync(settings, partition(1, 2)) == ""
    assert too_few_in_sync(ConfigOverrides(), partition(1)) == ""


def test_topic_overrides_the_unclean_setting_of_all_brokers() -> None:
    key = "unclean.leader.election.enable"
    settings = ConfigOverrides({key: "false"}, default={key: "true"})
    assert unclean_setting(settings) == f" The topic sets {key} to false."


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
