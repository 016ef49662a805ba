"""What Kafka's controller counts, counted from the events of a log (ControllerEventManager,
ControllerChannelManager and ControllerStats of Kafka 3.9)."""

from collections.abc import Iterator

import pytest

from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.commands import CommandId, Issued, LeaderAndIsrRequest, OpenChannel, Reason
from controller.core.configuration import Configuration
from controller.core.controller import Controller
from controller.core.events import BrokerResponded, Event, Recorded, TimerFired
from controller.core.metered import Metered, Sample
from controller.core.metric_table import METRICS, TIMERS, state_of, timer_name
from controller.core.triggers import (
    ApiCall,
    BrokerChange,
    ConfigChange,
    PartitionReassignmentIsrChange,
    TopicChange,
    TopicDeletion,
)
from controller.core.values import Endpoint
from tests.controller.core.cluster import Cluster

MS = 1_000_000
NOTHING = TimerFired("x")


class Observed:
    """A `Metered` whose steps a test takes itself, at the times that it sets."""

    def __init__(self) -> None:
        self.controller = Controller(Configuration(broker_id=1000))
        self.metered = self.controller.observer = Metered(self.controller)
        self._seq = 0

    def at(self, ms: float, event: Event = NOTHING) -> Metered:
        """An event arrives."""
        self._seq += 1
        self.metered.takes(Recorded(self._seq, 0, int(ms * MS), 1, "", event))
        return self.metered

    def value(self, name: str, *labels: str, now_ms: float | None = None) -> float:
        """The value of a sample."""
        return value_of(self.metered.samples(now_ms and int(now_ms * MS)), name, *labels)

    def request(self, seq: int) -> None:
        """A LeaderAndIsr request to broker 3 is issued."""
        request = LeaderAndIsrRequest(3, 1, 1, 1000, 1, (), ())
        self.metered.issues(Issued(CommandId(seq, 0), 1, request, Reason("")))

    def open(self) -> None:
        """The channel to broker 3 is opened."""
        opened = OpenChannel(3, 1, Endpoint("PLAINTEXT", "PLAINTEXT", "h", 1))
        self.metered.issues(Issued(CommandId(1, 0), 1, opened, Reason("")))


def value_of(samples: Iterator[Sample], name: str, *labels: str) -> float:
    (found,) = [
        one.value
        for one in samples
        if one.name == name and all(label in dict(one.labels).values() for label in labels)
    ]
    return found


def count(observed: Observed, timer: str) -> float:
    return observed.value(f"{timer_name(timer)}_count")


QUEUE_TIME = "kafka_controller_controllereventmanager_eventqueuetimems"


def test_time_of_an_event_runs_from_its_begin_to_its_end() -> None:
    observed = Observed()
    observed.at(10).begins(BrokerChange())
    assert observed.value("kafka_controller_kafkacontroller_controllerstate") == 2
    observed.at(14.5).ends()
    assert observed.value(timer_name("LeaderElection"), "0.99") == 4.5
    assert count(observed, "LeaderElection") == 1
    assert observed.value("kafka_controller_kafkacontroller_controllerstate") == 0


def test_time_of_a_paused_event_is_without_the_urgent_event() -> None:
    observed = Observed()
    paused = TopicChange()
    observed.at(0).begins(paused)
    observed.at(3).pauses()
    observed.metered.begins(BrokerChange())
    observed.at(10).ends()
    observed.metered.resumes(paused)
    observed.at(11).ends()
    assert observed.value(timer_name("TopicChange"), "0.50") == 4
    assert observed.value(timer_name("LeaderElection"), "0.50") == 7
    assert count(observed, "TopicChange") == 1


def test_event_that_the_end_of_its_term_breaks_off_is_counted() -> None:
    observed = Observed()
    observed.at(0).begins(TopicChange())
    observed.at(8).clears_queue()
    assert observed.value(timer_name("TopicChange"), "0.50") == 8


def test_event_without_a_timer_in_kafka_is_not_timed() -> None:
    observed = Observed()
    observed.at(0).begins(ConfigChange())
    observed.at(5).ends()
    assert sum(count(observed, timer) for timer in TIMERS) == 0


def test_queue_time_runs_until_an_event_begins() -> None:
    observed = Observed()
    waiting = TopicDeletion()
    observed.at(0)
    observed.controller.enqueue(waiting)
    assert observed.value("kafka_controller_controllereventmanager_eventqueuesize") == 1
    observed.at(6)
    observed.metered.begins(observed.controller.triggers.popleft())
    assert observed.value(QUEUE_TIME, "0.50") == 6
    assert observed.value("kafka_controller_controllereventmanager_eventqueuesize") == 0


def test_each_of_the_events_that_are_handled_together_has_waited() -> None:
    observed = Observed()
    observed.at(0)
    for number in range(3):
        observed.controller.enqueue(PartitionReassignmentIsrChange("t", number))
    observed.controller.enqueue(TopicChange())
    for _ in range(3):
        observed.controller.triggers.popleft()
    observed.at(5).begins(PartitionReassignmentIsrChange("t", 0, (("t", 1), ("t", 2))))
    assert observed.value(f"{QUEUE_TIME}_count") == 3


def test_dropped_events_have_no_queue_time() -> None:
    observed = Observed()
    observed.at(0)
    observed.controller.enqueue(TopicChange())
    observed.metered.clears_queue()
    observed.at(5)
    assert observed.value(f"{QUEUE_TIME}_count") == 0


def test_queue_times_are_forgotten_after_five_idle_minutes() -> None:
    observed = Observed()
    observed.at(0)
    observed.controller.enqueue(TopicChange())
    observed.at(1).begins(observed.controller.triggers.popleft())
    observed.metered.ends()
    assert observed.value(f"{QUEUE_TIME}_count", now_ms=299_000) == 1
    assert observed.value(f"{QUEUE_TIME}_count", now_ms=300_001) == 0


REQUESTS = "kafka_controller_controllerchannelmanager_requestrateandqueuetimems"
QUEUED = "kafka_controller_controllerchannelmanager_queuesize"


def test_request_waits_until_the_response_to_the_one_before() -> None:
    observed = Observed()
    observed.at(0)
    observed.open()
    observed.request(2)
    observed.request(3)
    assert observed.value(QUEUED, "3") == 1
    assert observed.value("kafka_controller_controllerchannelmanager_totalqueuesize") == 1
    observed.at(9, BrokerResponded(CommandId(2, 0), 3, 1, 0, []))
    assert observed.value(QUEUED, "3") == 0
    assert observed.value(REQUESTS, "3", "0.99") == 9
    assert observed.value(f"{REQUESTS}_count", "3") == 2


def test_every_leader_and_isr_response_is_counted() -> None:
    observed = Observed()
    observed.at(0)
    observed.open()
    observed.request(2)
    observed.at(9, BrokerResponded(CommandId(2, 0), 3, 1, 0, []))
    assert count(observed, "LeaderAndIsrResponseReceived") == 1


def test_request_to_a_broker_without_a_channel_is_not_counted() -> None:
    observed = Observed()
    observed.request(2)
    assert observed.value("kafka_controller_controllerchannelmanager_totalqueuesize") == 0


def test_alter_partition_belongs_to_the_isr_changes() -> None:
    assert state_of(ApiCall(AlterPartitionReceived(1, 1, 3, 1, []))).timer == "IsrChange"


def metered(cluster: Cluster) -> Metered:
    found = cluster.fold.controller.observer = Metered(cluster.fold.controller)
    return found


def test_active_controller_count_is_0_while_standing_by() -> None:
    cluster = Cluster(1, 2)
    found = metered(cluster)
    active = "kafka_controller_kafkacontroller_activecontrollercount"
    assert value_of(found.samples(), active) == 0
    cluster.connect()
    assert value_of(found.samples(), active) == 1
    brokers = "kafka_controller_kafkacontroller_activebrokercount"
    assert value_of(found.samples(), brokers) == 2
    cluster.seize_role(1)
    cluster.run()
    assert value_of(found.samples(), active) == value_of(found.samples(), brokers) == 0


@pytest.mark.parametrize(("unclean", "counted"), [(True, 1), (False, 0)])
def test_unclean_leaders_are_counted(unclean: bool, counted: int) -> None:
    cluster = Cluster(2, 4, unclean_leader_election_enable=unclean)
    found = metered(cluster)
    cluster.connect()
    cluster.create_topic("t", {0: [2, 4]})
    cluster.set_isr("t", 0, [2])
    cluster.stop_broker(2)
    name = "kafka_controller_controllerstats_uncleanleaderelections_total"
    assert value_of(found.samples(), name) == counted


def test_sessions_are_counted_as_kafkas_zookeeper_client_does() -> None:
    cluster = Cluster(1)
    found = metered(cluster)
    cluster.connect()
    cluster.lose_connection()
    session = "kafka_server_sessionexpirelistener_zookeeper"
    assert value_of(found.samples(), f"{session}syncconnects_total") == 2
    assert value_of(found.samples(), f"{session}disconnects_total") == 1
    cluster.expire()
    assert value_of(found.samples(), f"{session}expires_total") == 1


def test_every_metric_without_labels_has_a_value() -> None:
    samples = {one.metric for one in metered(Cluster(1)).samples()}
    of_brokers = {one.name for one in METRICS if "broker-id" in one.source}
    assert samples == {one.name for one in METRICS} - of_brokers
