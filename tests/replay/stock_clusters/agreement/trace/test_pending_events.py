"""Which events are there, and in which order they are taken where lines tell of some."""

from controller.core.commands import CommandId
from controller.core.configuration import Configuration
from controller.core.events import (
    AlterPartitionReceived,
    ApiRequest,
    BrokerAnswered,
    ControlledShutdownReceived,
    ElectLeadersReceived,
)
from controller.core.processing_order import ProcessingOrder
from controller.core.triggers import (
    ApiCall,
    BrokerChange,
    ControllerChange,
    LeaderAndIsrResponseReceived,
    LogDirEventNotification,
    ReplicaLeaderElection,
    Trigger,
    ZkPartitionReassignment,
)
from controller.core.values import Assignment
from replay.stock_clusters.agreement.decisions.write_batch import Decision
from replay.stock_clusters.agreement.logs.index import Index
from replay.stock_clusters.agreement.logs.markers import LocatedMarker, LogMarker
from replay.stock_clusters.agreement.logs.received_requests import ReceivedRequest, RequestOrder
from replay.stock_clusters.agreement.search.assumptions import Choices
from replay.stock_clusters.agreement.trace.pending_events import PendingEvents
from replay.stock_clusters.agreement.trace.stepped_fold import SteppedFold
from replay.stock_clusters.zookeeper_log.transactions import SetData
from tests.replay.stock_clusters.agreement.view import OTHER, STATE, Tree

REASSIGNMENT = ZkPartitionReassignment(created=True)
ANSWER = LeaderAndIsrResponseReceived(BrokerAnswered(CommandId(1, 1), 2, 5, 0, []), [("t", 0)])
LINE = BrokerChange()


REQUEST = ApiCall(AlterPartitionReceived(1, 3, 1, 7, []))


def arrived(index: Index, *came: Trigger) -> PendingEvents:
    fold = SteppedFold(Configuration(broker_id=1, rules="kafka"), ProcessingOrder())
    arrivals = PendingEvents(9, 1, fold.controller, index, Choices())
    for one in came:
        arrivals.add(one, 1000)
    return arrivals


def before(line: Trigger, *came: Trigger, is_deposed: bool) -> list[Trigger]:
    """What is taken before the event that a line is about, of what came before it."""
    index = Index(iter(()), "", Tree().view)
    index.coverage.has_debug.add(1)
    index.markers[1].append(LocatedMarker(1, 1000, LogMarker("BrokerChange", "")))
    return arrived(index, *came, line).unlogged_before(line, is_deposed=is_deposed)


def test_what_leaves_no_line_is_taken_before_the_line_of_what_came_later() -> None:
    assert before(LINE, REASSIGNMENT, ANSWER, is_deposed=False) == [REASSIGNMENT, ANSWER]


def test_who_is_deposed_hears_only_what_comes_by_no_watch() -> None:
    """Watches come in the order of zxids, and the one of /controller was not heard yet."""
    came = (REASSIGNMENT, ControllerChange(), ZkPartitionReassignment(created=False), ANSWER)
    assert before(LINE, *came, is_deposed=True) == [REASSIGNMENT, ANSWER]


def test_who_is_not_deposed_hears_of_what_came_behind_its_election() -> None:
    came = (ControllerChange(), REASSIGNMENT)
    assert before(LINE, *came, is_deposed=False) == [REASSIGNMENT]


def test_an_election_by_znode_has_a_line_of_its_own() -> None:
    """A broker that was paused may have lost the watch with its connection."""
    assert before(LINE, ReplicaLeaderElection(), ANSWER, is_deposed=False) == [ANSWER]


def test_failed_log_directories_have_a_line_of_their_own() -> None:
    """An answer that came later may be taken before it."""
    assert before(LINE, LogDirEventNotification(), ANSWER, is_deposed=False) == [ANSWER]


def test_what_waits_for_its_write_is_not_taken_for_that_there_is_nothing_else() -> None:
    """It would be taken back again, and again."""
    arrivals = arrived(Index(iter(()), "", Tree().view), REQUEST)
    assert arrivals.next_unlogged() == REQUEST
    arrivals.hold(REQUEST, [STATE])
    assert arrivals.next_unlogged() is None
    assert arrivals.release([STATE], lambda: {STATE}) == REQUEST
    assert arrivals.next_unlogged() == REQUEST


def test_what_waits_is_not_taken_in_the_place_of_another_request() -> None:
    """Though it was answered before."""

    class Answered(Index):
        def request_order(self, number: int) -> RequestOrder:
            return RequestOrder(number, number)

    other = ApiCall(AlterPartitionReceived(2, 3, 1, 7, []))
    arrivals = arrived(Answered(iter(()), "", Tree().view), REQUEST, other)
    arrivals.hold(REQUEST, [STATE])
    assert arrivals.next_unlogged() == other


def cause(asked: ApiRequest, path: str, at_ms: int, *, line: str = "") -> Trigger | None:
    """What led to a write, of a request that seems to have come at 1000 ms."""
    index = Index(iter(()), "", Tree().view)
    index.received_requests[1].append(ReceivedRequest(1000, 40, asked))
    if line:
        index.markers[1].append(LocatedMarker(1, 1, LogMarker(line, "")))
    fold = SteppedFold(Configuration(broker_id=1, rules="kafka"), ProcessingOrder())
    topic = fold.controller.context.topic("t")
    for number, replicas in enumerate(((1, 2), (1, 3))):
        partition = topic.partition(number)
        partition.assignment = Assignment(replicas)
    arrivals = PendingEvents(9, 1, fold.controller, index, Choices())
    written = Decision(30, 7, at_ms, "partition_state", 0, ((path, SetData(path, b"", 2)),))
    return arrivals.request_causing(written, at_ms)


ELECT = ElectLeadersReceived(1, 2, "preferred", [("t", 0)])


def test_request_that_seems_to_have_come_behind_its_write_led_to_it() -> None:
    """Its log tells when it was put together, and takes off how long the request took."""
    assert cause(ELECT, STATE, 990) == ApiCall(ELECT)
    assert cause(ELECT, OTHER, 990) is None
    assert cause(ELECT, STATE, 400) is None
    everything = ElectLeadersReceived(1, 2, "preferred", None)
    assert cause(everything, OTHER, 990) == ApiCall(everything)
    assert cause(everything, "/admin/reassign_partitions", 990) is None


def test_so_did_a_broker_that_shuts_down_if_it_has_a_replica() -> None:
    asked = ControlledShutdownReceived(1, 3, 2, 70)
    assert cause(asked, STATE, 990) == ApiCall(asked)
    assert cause(asked, OTHER, 990) is None


def test_request_with_a_line_is_taken_there() -> None:
    assert cause(ELECT, STATE, 990, line="BrokerChange") is None
