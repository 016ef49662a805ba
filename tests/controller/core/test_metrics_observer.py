"""The metrics of Kafka's controller, counted from the events of a log (ControllerEventManager,
ControllerChannelManager and ControllerStats of Kafka 3.9)."""

from collections.abc import Iterator

import pytest

from controller.core import znodes
from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.commands import (
    CloseChannel,
    Command,
    CommandId,
    Issued,
    LeaderAndIsrRequest,
    OpenChannel,
    Reason,
)
from controller.core.configuration import Configuration
from controller.core.controller import Controller
from controller.core.events import BrokerResponded, Event, Recorded, TimerFired
from controller.core.metric_table import METRICS, TIMERS, controller_state, timer_name
from controller.core.metrics_observer import MetricsObserver, Sample
from controller.core.snapshot import load_snapshot, take_snapshot
from controller.core.standby import FOLLOW_TIMER
from controller.core.triggers import (
    ApiCall,
    BrokerChange,
    ConfigChange,
    Expire,
    LeaderAndIsrResponseReceived,
    PartitionReassignmentIsrChange,
    TopicChange,
    TopicDeletion,
    Trigger,
)
from controller.core.values import Endpoint
from replay.logs.recorded_fold import fold_event
from tests.controller.core.cluster import Cluster, topic_json
from tests.controller.core.procedures.brokers.test_left_channels import (
    STOCK,
    after_a_failed_failover,
)
from tests.controller.core.procedures.role.standby_pair import StandbyPair

MS = 1_000_000
NOTHING = TimerFired("x")


class ObservedMeter:
    """A `MetricsObserver` whose steps a test takes itself, at the times that it sets."""

    def __init__(self) -> None:
        self.controller = Controller(Configuration(broker_id=1000))
        self.metered = self.controller.observer = MetricsObserver(self.controller)
        self._seq = 0

    def at(self, ms: float, event: Event = NOTHING) -> MetricsObserver:
        """An event arrives."""
        self._seq += 1
        self.metered.folds(Recorded(self._seq, 0, int(ms * MS), 1, "", event))
        return self.metered

    def value(self, name: str, *labels: str, now_ms: float | None = None) -> float:
        """The value of a sample."""
        now_ns = None if now_ms is None else int(now_ms * MS)
        return value_of(self.metered.samples(now_ns), name, *labels)

    def handle(self, ms: float) -> None:
        """A controller event is queued, begins and ends at the same time."""
        self.at(ms)
        self.controller.enqueue(TopicChange())
        self.begin_next()
        self.metered.ends()

    def begin_next(self) -> None:
        """The first event of the queue begins."""
        self.metered.begins(self.take_next())

    def take_next(self) -> Trigger:
        """Take the first event from the queue, as the fold does."""
        return self.controller.triggers.popleft()

    def request(self, seq: int) -> None:
        """A LeaderAndIsr request to broker 3 is issued."""
        self._issue(seq, LeaderAndIsrRequest(3, 1, 1, 1000, 1, (), ()))

    def respond(self, ms: float, seq: int) -> BrokerResponded:
        """Broker 3 responds to a request."""
        response = BrokerResponded(CommandId(seq, 0), 3, 1, 0, [])
        self.at(ms, response)
        return response

    def open(self, epoch: int = 1) -> None:
        """The channel to broker 3 is opened."""
        self._issue(1, OpenChannel(3, epoch, Endpoint("PLAINTEXT", "PLAINTEXT", "h", 1)))

    def close(self, epoch: int = 1) -> None:
        """The channel to broker 3 is closed."""
        self._issue(1, CloseChannel(3, epoch))

    def _issue(self, seq: int, command: Command) -> None:
        self.metered.issues(Issued(CommandId(seq, 0), 1, command, Reason("")))


def value_of(samples: Iterator[Sample], name: str, *labels: str) -> float:
    (found,) = [
        one.value
        for one in samples
        if one.name == name and all(label in dict(one.labels).values() for label in labels)
    ]
    return found


def count(observed: ObservedMeter, timer: str) -> float:
    return observed.value(f"{timer_name(timer)}_count")


QUEUE_TIME = "kafka_controller_controllereventmanager_eventqueuetimems"


def test_time_of_an_event_runs_from_its_begin_to_its_end() -> None:
    observed = ObservedMeter()
    observed.at(10).begins(BrokerChange())
    assert observed.value("kafka_controller_kafkacontroller_controllerstate") == 2
    observed.at(14.5).ends()
    assert observed.value(timer_name("LeaderElection"), "0.99") == 4.5
    assert count(observed, "LeaderElection") == 1
    assert observed.value("kafka_controller_kafkacontroller_controllerstate") == 0


def test_time_of_a_paused_event_is_without_the_urgent_event() -> None:
    observed = ObservedMeter()
    paused = TopicChange()
    observed.at(100).begins(paused)
    observed.at(103).pauses()
    observed.metered.begins(BrokerChange())
    observed.at(110).ends()
    observed.metered.resumes(paused)
    observed.at(111).ends()
    assert observed.value(timer_name("TopicChange"), "0.50") == 4
    assert observed.value(timer_name("LeaderElection"), "0.50") == 7
    assert count(observed, "TopicChange") == 1


def test_event_that_the_end_of_its_term_breaks_off_is_counted() -> None:
    observed = ObservedMeter()
    observed.at(0).begins(TopicChange())
    observed.at(8).clears_queue()
    assert observed.value(timer_name("TopicChange"), "0.50") == 8


def test_paused_event_that_the_end_of_its_term_breaks_off_is_counted_once() -> None:
    observed = ObservedMeter()
    observed.at(10).begins(TopicChange())
    observed.at(13).pauses()
    observed.metered.begins(BrokerChange())
    observed.at(20).clears_queue()
    observed.metered.begins(Expire())
    observed.metered.ends()
    observed.at(30).clears_queue()
    assert count(observed, "TopicChange") == 1
    assert observed.value(timer_name("TopicChange"), "0.50") == 3, "until its pause"
    assert observed.value(timer_name("LeaderElection"), "0.50") == 7


def test_event_without_a_timer_in_kafka_is_not_timed() -> None:
    observed = ObservedMeter()
    observed.at(0).begins(ConfigChange())
    observed.at(5).ends()
    assert sum(count(observed, timer) for timer in TIMERS) == 0


def test_queue_time_runs_until_an_event_begins() -> None:
    observed = ObservedMeter()
    waiting = TopicDeletion()
    observed.at(100)
    observed.controller.enqueue(waiting)
    assert observed.value("kafka_controller_controllereventmanager_eventqueuesize") == 1
    observed.at(106)
    observed.begin_next()
    assert observed.value(QUEUE_TIME, "0.50") == 6
    assert observed.value("kafka_controller_controllereventmanager_eventqueuesize") == 0


def test_each_of_the_events_that_are_handled_together_has_waited() -> None:
    observed = ObservedMeter()
    observed.at(0)
    for number in range(3):
        observed.controller.enqueue(PartitionReassignmentIsrChange("t", number))
    observed.controller.enqueue(TopicChange())
    for _ in range(3):
        observed.take_next()
    observed.at(5).begins(PartitionReassignmentIsrChange("t", 0, (("t", 1), ("t", 2))))
    assert observed.value(f"{QUEUE_TIME}_count") == 3


def test_queue_times_are_empty_after_five_idle_minutes() -> None:
    observed = ObservedMeter()
    observed.handle(200_000)
    assert observed.value(f"{QUEUE_TIME}_count", now_ms=499_999) == 1
    assert observed.value(f"{QUEUE_TIME}_count", now_ms=500_000) == 0


@pytest.mark.parametrize(("idle_ms", "counted"), [(299_999, 2), (300_000, 1)])
def test_event_after_five_idle_minutes_is_the_first_with_a_queue_time(
    idle_ms: int, counted: int
) -> None:
    observed = ObservedMeter()
    observed.handle(200_000)
    observed.handle(200_000 + idle_ms)
    assert observed.value(f"{QUEUE_TIME}_count") == counted


def test_queue_times_remain_while_an_event_is_handled_for_five_minutes() -> None:
    observed = ObservedMeter()
    observed.handle(1)
    observed.at(2).begins(TopicChange())
    assert observed.value(f"{QUEUE_TIME}_count", now_ms=400_000) == 1


RESPONSES = "LeaderAndIsrResponseReceived"
REQUESTS = "kafka_controller_controllerchannelmanager_requestrateandqueuetimems"


def test_interruption_of_an_event_keeps_the_queue_times() -> None:
    """Its begin is long ago. Kafka empties the histogram only when nothing was queued for so
    long."""
    observed = ObservedMeter()
    observed.handle(200_000)
    observed.at(499_000)
    observed.controller.enqueue(TopicChange())
    observed.begin_next()
    observed.at(501_000).pauses()
    observed.controller.enqueue(BrokerChange())
    observed.begin_next()
    assert observed.value(f"{QUEUE_TIME}_count") == 3


QUEUED = "kafka_controller_controllerchannelmanager_queuesize"


def test_request_waits_until_the_response_to_the_one_before() -> None:
    observed = ObservedMeter()
    observed.at(100)
    observed.open()
    observed.request(2)
    assert observed.value(f"{REQUESTS}_count", "3") == 1
    observed.request(3)
    assert observed.value(QUEUED, "3") == 1
    assert observed.value("kafka_controller_controllerchannelmanager_totalqueuesize") == 1
    observed.respond(109, 2)
    assert observed.value(QUEUED, "3") == 0
    assert observed.value(REQUESTS, "3", "0.99") == 9
    assert observed.value(f"{REQUESTS}_count", "3") == 2


def test_every_leader_and_isr_response_is_counted_once() -> None:
    observed = ObservedMeter()
    observed.at(0)
    observed.open()
    observed.request(2)
    observed.request(3)
    observed.respond(8, 2)
    observed.respond(9, 3)
    observed.controller.enqueue(TopicChange())
    assert count(observed, RESPONSES) == 2
    observed.at(10)
    assert count(observed, RESPONSES) == 2


def test_leader_and_isr_response_that_is_handled_as_an_event_is_counted_once() -> None:
    observed = ObservedMeter()
    observed.at(0)
    observed.open()
    observed.request(2)
    response = observed.respond(5, 2)
    observed.controller.enqueue(LeaderAndIsrResponseReceived(response, []))
    assert count(observed, RESPONSES) == 0
    observed.begin_next()
    observed.at(9).ends()
    assert count(observed, RESPONSES) == 1
    assert observed.value(timer_name(RESPONSES), "0.50") == 4


def test_closed_channel_has_no_metrics() -> None:
    observed = ObservedMeter()
    observed.open()
    observed.request(2)
    observed.close()
    observed.respond(5, 2)
    samples = [*observed.metered.samples()]
    assert not [one for one in samples if ("broker_id", "3") in one.labels]
    assert value_of(iter(samples), f"{timer_name(RESPONSES)}_count") == 0


def test_response_by_way_of_a_closed_channel_leaves_the_queue_of_the_next_one() -> None:
    observed = ObservedMeter()
    observed.open(1)
    observed.request(2)
    observed.request(3)
    observed.close(1)
    observed.open(2)
    assert observed.value(QUEUED, "3") == 0
    observed.request(4)
    observed.request(5)
    observed.respond(5, 2)
    assert observed.value(QUEUED, "3") == 1
    assert count(observed, RESPONSES) == 0


def test_request_to_a_broker_without_a_channel_is_not_counted() -> None:
    observed = ObservedMeter()
    observed.request(2)
    assert observed.value("kafka_controller_controllerchannelmanager_totalqueuesize") == 0


def test_alter_partition_belongs_to_the_isr_changes() -> None:
    assert controller_state(ApiCall(AlterPartitionReceived(1, 1, 3, 1, []))).timer == "IsrChange"


def metered(cluster: Cluster) -> MetricsObserver:
    found = cluster.fold.controller.observer = MetricsObserver(cluster.fold.controller)
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


def test_controller_that_keeps_topics_without_the_role_counts_none() -> None:
    """A stock controller that has lost the role before it resigns keeps the topics."""
    cluster = after_a_failed_failover(STOCK, lambda cluster: cluster.seize_role(9))
    assert not cluster.is_active
    topics = "kafka_controller_kafkacontroller_globaltopiccount"
    assert value_of(metered(cluster).samples(), topics) == 0


def test_responses_to_other_requests_are_no_leader_and_isr_responses() -> None:
    cluster = Cluster(1, 2)
    found = metered(cluster)
    seen = cluster.seen()
    cluster.connect()
    cluster.create_topic("t", {0: [1, 2]})
    requests = seen.broker_requests()
    sent = [one for one in requests if isinstance(one, LeaderAndIsrRequest)]
    assert 0 < len(sent) < len(requests)
    assert value_of(found.samples(), f"{timer_name(RESPONSES)}_count") == len(sent)
    assert value_of(found.samples(), "refold_events_total") == len(cluster.history)


def test_responses_to_requests_before_the_first_event_are_not_counted() -> None:
    cluster = Cluster(1, 2)
    cluster.is_slow = lambda request: True
    cluster.connect()
    found = metered(cluster)
    cluster.answer_slow()
    assert value_of(found.samples(), f"{timer_name(RESPONSES)}_count") == 0
    assert value_of(found.samples(), QUEUED, "1") == 0


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


LAG = "refold_standby_lag_seconds"
STALE = "refold_standby_stale_znodes"


def test_lag_of_a_standby_runs_from_the_first_unread_change() -> None:
    pair = StandbyPair()
    found = metered(pair.standby)
    seen = pair.standby.seen()
    pair.active.change_topic_quietly("new", {0: [3]})
    pair.standby.run()
    changed_ns = seen.history[0][0].mono_ns
    pair.active.put_quietly(znodes.topic_path("t"), topic_json({0: [1, 2]}))
    pair.standby.run()
    assert pair.standby.now_ms * MS > changed_ns
    assert value_of(found.samples(changed_ns + 5_000 * MS), LAG) == 5


def test_standby_that_has_read_a_change_has_no_lag_until_the_next_one() -> None:
    pair = StandbyPair()
    found = metered(pair.standby)
    pair.active.change_topic_quietly("t", {0: [1, 2], 1: [2, 3], 2: [3]})
    pair.standby.run()
    assert value_of(found.samples(), STALE) == 1
    pair.standby.fire(FOLLOW_TIMER)
    assert value_of(found.samples(pair.standby.now_ms * MS + 5_000 * MS), LAG) == 0
    assert value_of(found.samples(), STALE) == 0
    pair.active.change_topic_quietly("t", {0: [1, 2], 1: [2, 3]})
    pair.standby.run()
    assert value_of(found.samples(pair.standby.now_ms * MS + 7_000 * MS), LAG) == 7


def test_standby_whose_snapshot_has_an_unread_change_has_no_lag_after_the_read() -> None:
    pair = StandbyPair()
    pair.active.change_topic_quietly("t", {0: [1, 2], 1: [2, 3], 2: [3]})
    pair.standby.run()
    standby = pair.standby.fold
    restored = load_snapshot(take_snapshot(standby), standby.controller.configuration)
    found = restored.controller.observer = MetricsObserver(restored.controller)
    seen = pair.standby.seen()
    pair.follow()
    for recorded, _ in seen.history:
        fold_event(restored, recorded)
    assert value_of(found.samples(), LAG) == value_of(found.samples(), STALE) == 0


def test_lag_after_a_snapshot_with_an_unread_change_runs_from_the_first_event() -> None:
    pair = StandbyPair()
    pair.active.change_topic_quietly("t", {0: [1, 2], 1: [2, 3], 2: [3]})
    pair.standby.run()
    standby = pair.standby.fold
    restored = load_snapshot(take_snapshot(standby), standby.controller.configuration)
    found = restored.controller.observer = MetricsObserver(restored.controller)
    seen = pair.standby.seen()
    pair.active.set_isr("t", 0, [1])
    pair.standby.run()
    for recorded, _ in seen.history:
        fold_event(restored, recorded)
    assert value_of(found.samples(), LAG) < 1


def test_states_registrations_and_lists_that_a_standby_has_to_read_are_stale() -> None:
    pair = StandbyPair()
    found = metered(pair.standby)
    pair.active.set_isr("t", 0, [1])
    pair.standby.run()
    assert value_of(found.samples(), STALE) == 1
    pair.active.register(4)
    pair.standby.run()
    assert value_of(found.samples(), STALE) == 2
    pair.active.put_quietly(znodes.broker_path(1), b"?")
    pair.standby.run()
    assert value_of(found.samples(), STALE) == 3


def test_standby_has_no_lag_from_the_moment_of_its_take_over() -> None:
    pair = StandbyPair()
    found = metered(pair.standby)
    pair.active.change_topic_quietly("new", {0: [3]})
    during: list[float] = []

    def look() -> None:
        samples = [*found.samples(pair.standby.now_ms * MS + 5_000 * MS)]
        during.extend(value_of(iter(samples), name) for name in (LAG, STALE))

    pair.standby.once(lambda issued: pair.standby.is_active, look)
    pair.take_over()
    assert during == [0, 0]


def test_every_metric_without_labels_has_a_value() -> None:
    samples = {one.metric for one in metered(Cluster(1)).samples()}
    of_brokers = {one.name for one in METRICS if "broker-id" in one.source}
    assert samples == {one.name for one in METRICS} - of_brokers
