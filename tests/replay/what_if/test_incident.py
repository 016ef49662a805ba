"""Logs become incidents: what happened, and the causes."""

from pathlib import Path

import pytest

from controller.core.api_requests.alter_partition import AlterPartitionReceived
from replay.errors import ReplayError
from replay.logs.decode import records
from replay.logs.open_log import RecordedLog, open_log
from replay.what_if.causes import BrokerRegistered, BrokerUnregistered, ReplicaLagged
from replay.what_if.history import cluster_state_at
from replay.world.inputs import (
    ChangeTopicConfig,
    CrashBroker,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    Reassign,
    StopBroker,
    Target,
)
from replay.world.scenario import SlowReplica, TopicSpec
from tests.replay.what_if.simulated import incident_at, log_of_run, scenario

INCIDENTS = Path(__file__).parents[2] / "incidents"


def test_end_of_a_registration_is_the_watch_event_that_reports_it() -> None:
    incident = incident_at(INCIDENTS / "broker-crash")
    (gone,) = [one for one in incident.causes if isinstance(one.what, BrokerUnregistered)]
    (back,) = [one for one in incident.causes if isinstance(one.what, BrokerRegistered)]
    assert (gone.seq, gone.last_seq) == (67, 70)
    assert back.seq == 82
    assert 2 in cluster_state_at(incident.history.changes, 66, 0).brokers
    assert 2 not in cluster_state_at(incident.history.changes, 67, 0).brokers


def test_shutdown_at_the_end_of_a_log_is_no_cause() -> None:
    incident = incident_at(INCIDENTS / "broker-crash")
    assert incident.causes[-1].seq == 82
    assert incident.end_ms == incident.times[116]


def test_controlled_shutdown_is_a_cause_when_the_broker_asks_for_it(tmp_path: Path) -> None:
    log = log_of_run(
        tmp_path, scenario(TopicSpec("t", ((1, 2), (2, 1)))), StopBroker(10_000, 2, None)
    )
    incident = incident_at(log)
    (gone,) = [one for one in incident.causes if isinstance(one.what, BrokerUnregistered)]
    assert isinstance(gone.what, BrokerUnregistered)
    assert gone.what.is_controlled
    assert gone.seq < gone.what.gone_seq


def test_topic_that_a_tool_created_in_zookeeper_is_a_cause() -> None:
    incident = incident_at(INCIDENTS / "broker-crash")
    (created,) = [one.what for one in incident.causes if isinstance(one.what, CreateTopic)]
    assert created.topic == "moved"
    assert created.assignment == ((1, 2), (1, 2))
    assert created.route == "znode_with_id"


def test_topic_is_created_with_the_replicas_that_it_got(tmp_path: Path) -> None:
    created = CreateTopic(8_000, "new", ((3, 1), (1, 2)), {"min.insync.replicas": "2"})
    incident = incident_at(log_of_run(tmp_path, scenario(TopicSpec("t", ((1, 2),))), created))
    (found,) = [one.what for one in incident.causes if isinstance(one.what, CreateTopic)]
    assert found.assignment == created.assignment
    assert found.route == "api"


def test_deletion_by_a_tool_in_zookeeper_is_a_cause(tmp_path: Path) -> None:
    begun = scenario(TopicSpec("t", ((1, 2),)), TopicSpec("u", ((1, 2),)))
    incident = incident_at(log_of_run(tmp_path, begun, DeleteTopic(8_000, "u", "znode")))
    assert [one.what.topic for one in incident.causes if isinstance(one.what, DeleteTopic)] == ["u"]


def test_follower_that_lags_is_a_cause_at_the_request_of_its_leader(tmp_path: Path) -> None:
    begun = scenario(TopicSpec("t", ((1, 2),)), slow=[SlowReplica(2, "t", 0, 8_000, 20_000)])
    log = log_of_run(tmp_path, begun)
    incident = incident_at(log)
    (lag,) = [one for one in incident.causes if isinstance(one.what, ReplicaLagged)]
    with open_log(log) as opened:
        assert isinstance(opened, RecordedLog)
        requests = [
            one.seq
            for one, _ in records(opened.reader)
            if isinstance(one.event, AlterPartitionReceived)
        ]
    assert any(0 <= lag.seq - one <= 1 for one in requests)
    assert isinstance(lag.what, ReplicaLagged)
    assert lag.what.until_ms is not None
    assert 8_000 <= lag.what.until_ms - lag.at_ms <= 14_000


def test_crashed_broker_does_not_lag(tmp_path: Path) -> None:
    begun = scenario(TopicSpec("t", ((1, 2),)))
    incident = incident_at(log_of_run(tmp_path, begun, CrashBroker(9_000, 2, False, None)))
    assert [type(one.what) for one in incident.causes] == [BrokerUnregistered]


def test_changed_configuration_is_a_cause(tmp_path: Path) -> None:
    change = ChangeTopicConfig(9_000, "t", {"unclean.leader.election.enable": "true"})
    log = log_of_run(tmp_path, scenario(TopicSpec("t", ((1, 2),))), change)
    found = [one.what for one in incident_at(log).causes if isinstance(one.what, ChangeTopicConfig)]
    assert [one.configs for one in found] == [change.configs]


def test_unclean_election_of_a_stock_cluster_was_requested_by_a_client() -> None:
    incident = incident_at(INCIDENTS / "stock-unclean-election")
    requested = [one.what for one in incident.causes if isinstance(one.what, ElectLeaders)]
    assert [one.partitions for one in requested] == [(("tool.03", 0), ("tool.03", 1))]
    assert incident.is_imported
    assert incident.configuration.rules == "kafka"


def test_registrations_that_a_failover_has_not_read_have_not_ended() -> None:
    incident = incident_at(INCIDENTS / "session-expiry")
    ended = [one.what.broker for one in incident.causes if isinstance(one.what, BrokerUnregistered)]
    assert ended == [3]


def test_event_that_is_not_in_the_incident_is_refused() -> None:
    incident = incident_at(INCIDENTS / "broker-crash")
    with pytest.raises(ReplayError, match="no event 9999"):
        incident.at_ms(9999)


def test_log_without_a_failover_is_refused() -> None:
    with pytest.raises(ReplayError, match="no failover"):
        incident_at(INCIDENTS / "failed-failover")


def test_reassignment_that_the_controller_rejected_is_no_cause(tmp_path: Path) -> None:
    rejected, accepted = Target("t", 0, (1, 9)), Target("t", 1, (3, 2))
    asked = Reassign(8_000, (rejected, accepted))
    incident = incident_at(log_of_run(tmp_path, scenario(TopicSpec("t", ((1, 2), (2, 1)))), asked))
    (found,) = [one.what for one in incident.causes if isinstance(one.what, Reassign)]
    assert found.targets == (accepted,)
