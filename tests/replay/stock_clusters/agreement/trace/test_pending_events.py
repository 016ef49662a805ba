"""Which events are there, and in which order they are taken where lines tell of some."""

from typing import Any

from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.commands import CommandId
from controller.core.configuration import Configuration
from controller.core.events import BrokerResponded
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
from replay.stock_clusters.agreement.logs.received_requests import RequestOrder
from replay.stock_clusters.agreement.search.assumptions import Choices
from replay.stock_clusters.agreement.trace.pending_events import PendingEvents
from replay.stock_clusters.agreement.trace.stepped_fold import SteppedFold
from replay.stock_clusters.imported_log.events import ControllerLogged
from replay.stock_clusters.zookeeper_log.transactions import SetData
from tests.replay.stock_clusters.agreement.sample_log import Log
from tests.replay.stock_clusters.agreement.view import OTHER, STATE, Tree

REASSIGNMENT = ZkPartitionReassignment(created=True)
ANSWER = LeaderAndIsrResponseReceived(BrokerResponded(CommandId(1, 1), 2, 5, 0, []), [("t", 0)])
LINE = BrokerChange()
BROKERS_CHANGED = (
    "[Controller id=1] Newly added brokers: 1, deleted brokers: 7, bounced brokers: , all live "
    "brokers: 1"
)
LOGGED_AT_DEBUG_ONLY = "[Controller id=1] Register BrokerModifications handler for Set(1)"
ANSWERED_SEQ = 40

Served = tuple[str, int, dict[str, Any]]
"""A request as a broker's request log has it: API, version, content."""

REQUEST = ApiCall(AlterPartitionReceived(1, 3, 1, 7, []))


def arrived(index: Index, *came: Trigger) -> PendingEvents:
    fold = SteppedFold(Configuration(broker_id=1, rules="kafka"), ProcessingOrder())
    arrivals = PendingEvents(9, 1, fold.controller, index, Choices())
    for one in came:
        arrivals.add(one, 1000)
    return arrivals


def before(line: Trigger, *came: Trigger, is_deposed: bool) -> list[Trigger]:
    """What is taken before the event that a line is about, of what came before it."""
    log = Log()
    log.add(ControllerLogged(1, "BrokerChange", BROKERS_CHANGED))
    log.add(ControllerLogged(1, "", LOGGED_AT_DEBUG_ONLY))
    return arrived(log.index(), *came, line).unlogged_before(line, is_deposed=is_deposed)


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


def cause(asked: Served, path: str, at_ms: int, *lines: str) -> Trigger | None:
    """What led to a write, of a request that seems to have come at 1000 ms."""
    log = Log()
    for line in lines:
        log.add(ControllerLogged(1, "BrokerChange", line))
    while log.add(ControllerLogged(2, "", "")) < ANSWERED_SEQ - 1:
        pass
    log.serve(*asked, received_ms=1000)
    index = log.index()
    fold = SteppedFold(Configuration(broker_id=1, rules="kafka"), ProcessingOrder())
    topic = fold.controller.context.topic("t")
    for number, replicas in enumerate(((1, 2), (1, 3))):
        partition = topic.partition(number)
        partition.assignment = Assignment(replicas)
    arrivals = PendingEvents(9, 1, fold.controller, index, Choices())
    written = Decision(30, 7, at_ms, "partition_state", 0, ((path, SetData(path, b"", 2)),))
    return arrivals.request_causing(written, at_ms)


T0 = {"topic": "t", "partitions": [0]}
ELECT: Served = ("ELECT_LEADERS", 2, {"electionType": 0, "topicPartitions": [T0]})
ELECT_ALL: Served = ("ELECT_LEADERS", 2, {"electionType": 0, "topicPartitions": None})


def test_request_that_seems_to_have_come_behind_its_write_led_to_it() -> None:
    """Its log tells when it was put together, and takes off how long the request took."""
    elect = ElectLeadersReceived(ANSWERED_SEQ, 2, "preferred", [("t", 0)])
    assert cause(ELECT, STATE, 990) == ApiCall(elect)
    assert cause(ELECT, OTHER, 990) is None
    assert cause(ELECT, STATE, 400) is None
    elect_all = ElectLeadersReceived(ANSWERED_SEQ, 2, "preferred", None)
    assert cause(ELECT_ALL, OTHER, 990) == ApiCall(elect_all)
    assert cause(ELECT_ALL, "/admin/reassign_partitions", 990) is None


def test_so_did_a_broker_that_shuts_down_if_it_has_a_replica() -> None:
    asked: Served = ("CONTROLLED_SHUTDOWN", 3, {"brokerId": 2, "brokerEpoch": 70})
    shutdown = ControlledShutdownReceived(ANSWERED_SEQ, 3, 2, 70)
    assert cause(asked, STATE, 990) == ApiCall(shutdown)
    assert cause(asked, OTHER, 990) is None


def test_request_with_a_line_is_taken_there() -> None:
    assert cause(ELECT, STATE, 990, BROKERS_CHANGED) is None
