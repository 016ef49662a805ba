"""Settings by Kafka's names."""

import pytest

from controller.core.configuration import Configuration
from replay.errors import ReplayError
from replay.what_if.settings import first_settings, with_setting
from replay.what_if.starting import SettingOverrides

GIVEN = SettingOverrides(Configuration(broker_id=100))


def test_setting_of_the_controller_is_parsed() -> None:
    found = with_setting(GIVEN, "", "unclean.leader.election.enable", "TRUE")
    assert found.configuration.unclean_leader_election_enable


def test_setting_of_controller_and_brokers_is_given_to_both() -> None:
    found = with_setting(GIVEN, "", "min.insync.replicas", "2")
    assert found.configuration.broker_settings == {"min.insync.replicas": "2"}
    assert found.brokers == {"min.insync.replicas": "2"}


def test_configuration_of_a_topic_is_kept_by_topic() -> None:
    found = with_setting(GIVEN, "t", "min.insync.replicas", "2")
    found = with_setting(found, "t", "unclean.leader.election.enable", "true")
    assert found.topics == {
        "t": {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}
    }


def test_rebalance_is_off_unless_the_world_knows_its_times() -> None:
    configuration = Configuration(broker_id=100)
    assert first_settings(configuration, rebalances=True).configuration == configuration
    found = first_settings(configuration, rebalances=False).configuration
    assert not found.auto_leader_rebalance_enable


@pytest.mark.parametrize(
    ("topic", "key", "value", "text"),
    [
        ("", "foo", "1", "not a setting .* use one of: .*replica.lag.time.max.ms"),
        ("", "log.retention.ms", "2", "log.retention.ms is not a setting that changes a cont"),
        ("t", "retention.ms", "2", "use min.insync.replicas or unclean.leader.election.enable"),
        ("", "unclean.leader.election.enable", "maybe", "must be true or false"),
        ("", "replica.lag.time.max.ms", "long", "must be a whole number"),
        ("", "min.insync.replicas", "0", "min.insync.replicas"),
        ("t", "replica.lag.time.max.ms", "1", "not a configuration of topics"),
        ("t", "min.insync.replicas", "none", "min.insync.replicas"),
    ],
)
def test_wrong_setting_is_refused(topic: str, key: str, value: str, text: str) -> None:
    with pytest.raises(ReplayError, match=text):
        with_setting(GIVEN, topic, key, value)
