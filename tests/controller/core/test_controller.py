"""Parts of the controller that all procedures use: its observer, its queue, its responses and
requests."""

from collections.abc import Iterable, Sequence

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests import ApiResponse
from controller.core.api_requests.topics import CreateTopicsReceived
from controller.core.commands import (
    BrokerRequest,
    Issued,
    LeaderAndIsrRequest,
    ReadChildren,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.core.fold_observer import FoldObserver
from controller.core.operations import Create
from controller.core.snapshot import load_snapshot, take_snapshot
from controller.core.state import Topic
from controller.core.triggers import Trigger
from replay.cluster_view.from_context import cluster_of
from tests.controller.core.cluster import DAEMON, Cluster, reads
from tests.controller.core.denied_reads import ReadDenyingCluster
from tests.controller.core.endpoint import controlled_shutdown
from tests.controller.core.procedures.role.standby_pair import StandbyPair
from tests.controller.core.procedures.topics.topic_requests import (
    TIMEOUT_MS,
    ask_without_answer,
    error_by_name,
    new_topic,
)
from tests.controller.core.unreliable import Delivery


class RecordingObserver(FoldObserver):
    """Notes what is queued, issued, sent and dropped."""

    def __init__(self) -> None:
        self.queued: list[str] = []
        self.issued: list[Issued] = []
        self.sent: list[BrokerRequest] = []
        self.dropped: list[str] = []

    def queues(self, trigger: Trigger) -> None:
        self.queued.append(type(trigger).__name__)

    def issues(self, issued: Issued) -> None:
        self.issued.append(issued)

    def sends(self, requests: Sequence[BrokerRequest], rule: str) -> None:
        self.sent += requests

    def drops_topics(self, topics: Iterable[Topic]) -> None:
        self.dropped += [one.name for one in topics]


def noting(cluster: Cluster) -> RecordingObserver:
    """The observer of a daemon from now on."""
    observer = cluster.fold.controller.observer = RecordingObserver()
    return observer


def creation(number: int = 1) -> CreateTopicsReceived:
    """Topic t with one partition on brokers 1 and 2."""
    return CreateTopicsReceived(number, 7, TIMEOUT_MS, False, [new_topic("t", given={0: [1, 2]})])


# The observer ---------------------------------------------------------------------------------


def test_observer_sees_each_command_each_batch_and_each_queued_event() -> None:
    cluster = Cluster(1, 2)
    observer = noting(cluster)
    cluster.start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.shut_down()
    assert observer.issued == cluster.commands()
    kinds = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
    requests = [one.command for one in cluster.commands() if isinstance(one.command, kinds)]
    assert observer.sent == requests
    assert {"Startup", "TopicChange", "HandBack"} <= set(observer.queued)


def test_standby_that_loses_its_connection_drops_the_topics_that_it_knows() -> None:
    pair = StandbyPair(topics={"s": {0: [1]}, "t": {0: [1, 2]}, "unreadable": {0: [2]}})
    pair.active.put_quietly(znodes.topic_path("unreadable"), b"?")
    pair.follow()
    observer = noting(pair.standby)
    pair.standby.zookeeper.disconnect(pair.standby.session)
    pair.standby.lose_connection()
    assert sorted(observer.dropped) == ["s", "t"]


def test_lost_connection_during_a_take_over_drops_no_topic() -> None:
    """The failover has taken the topics that the standby knew."""
    pair = StandbyPair()
    pair.active.set_isr("t", 0, [1])
    pair.standby.run()
    observer = noting(pair.standby)
    pair.standby.lose(reads(znodes.state_path("t", 0)), Delivery.REPLY_LOST)
    pair.take_over()
    assert pair.standby.is_active
    assert observer.dropped == []


# The queue ------------------------------------------------------------------------------------


def test_event_that_is_queued_already_is_handled_once() -> None:
    """Brokers 3 and 4 register while the controller reads that 2 has registered."""
    cluster = Cluster(1).start()
    observer = noting(cluster)

    def register() -> None:
        for broker in (3, 4):
            cluster.register(broker)

    cluster.once(reads(znodes.broker_path(2)), register)
    seen = cluster.seen()
    cluster.start_broker(2)
    lists = [one for one in seen.commands if isinstance(one, ReadChildren)]
    assert len(lists) == observer.queued.count("BrokerChange") == 2
    assert len(seen.requests(4)) > 0


# Answers and requests -------------------------------------------------------------------------


def test_request_that_was_answered_before_the_session_ends_has_one_answer() -> None:
    """The write of the topic is fenced; the session ends while the controller reads the role."""
    cluster = Cluster(1, 2).start()
    topic = znodes.topic_path("t")

    def creates(issued: Issued) -> bool:
        operations = getattr(issued.command, "operations", ())
        return any(isinstance(one, Create) and one.path == topic for one in operations)

    def change_epoch() -> None:
        cluster.put_quietly(znodes.CONTROLLER_EPOCH, b"9")
        cluster.lose(reads(znodes.CONTROLLER), Delivery.SESSION_OVER)

    cluster.once(creates, change_epoch)
    cluster.happen(creation(), "api:1")
    assert error_by_name(cluster) == [("t", codes.NOT_CONTROLLER)]
    assert cluster.is_active


def test_answer_at_the_end_of_the_role_belongs_to_no_term() -> None:
    cluster = Cluster(1, 2).start()
    cluster.is_slow = lambda request: True
    ask_without_answer(cluster, creation())
    cluster.seize_role(1)
    cluster.run()
    [answer] = [one for one in cluster.commands() if isinstance(one.command, ApiResponse)]
    assert answer.term == 0


def test_answer_waits_for_no_broker_without_a_channel() -> None:
    """Broker 1 has no listener for the controller."""
    cluster = Cluster(1, control_plane_listener="CONTROL")
    data = b"""{"version":5,"host":"h","port":9092,"endpoints":["CONTROL://h:9093"],
        "listener_security_protocol_map":{"CONTROL":"PLAINTEXT"}}"""
    session = cluster.zookeeper.create_session()
    cluster.zookeeper.apply(session, Create(znodes.broker_path(2), data, ephemeral=True), 0)
    cluster.start()
    cluster.is_slow = lambda request: request.broker == 1
    cluster.happen(creation(), "api:1")
    assert error_by_name(cluster) == [("t", codes.NONE)]


def test_stop_of_a_replica_that_is_kept_needs_no_response() -> None:
    """Broker 2 shuts down and answers no request."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.is_slow = lambda request: isinstance(request, StopReplicaRequest)
    seen = cluster.seen()
    controlled_shutdown(cluster, 2)
    assert any(one.startswith("StopReplica") for one in seen.requests(2))
    assert cluster_of(cluster.fold, seq=1, time="").unanswered == []


# The beginning --------------------------------------------------------------------------------


def test_daemon_without_a_session_starts_from_its_snapshot() -> None:
    cluster = Cluster(1)
    data = take_snapshot(cluster.fold)
    cluster.fold = load_snapshot(data, cluster.fold.controller.configuration)
    assert cluster_of(cluster.fold, seq=0, time="").controller.session == 0
    cluster.start()
    assert cluster.controller() == DAEMON


@pytest.mark.parametrize("standby", [False, True])
def test_daemon_that_takes_over_has_the_role_after_its_start(standby: bool) -> None:
    cluster = Cluster(1, take_over=True, standby=standby)
    cluster.take_role(1)
    cluster.start()
    assert cluster.controller() == DAEMON


def test_daemon_that_could_not_read_the_role_takes_it_from_no_later_controller() -> None:
    cluster = ReadDenyingCluster(1, 2, take_over=True)
    cluster.denied = (znodes.CONTROLLER,)
    session = cluster.take_role(1)
    cluster.start()
    cluster.denied = ()
    cluster.zookeeper.end_session(session)
    cluster.take_role(2)
    cluster.run()
    assert cluster.controller() == 2
