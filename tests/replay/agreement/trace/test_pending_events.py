"""The pending controller events, and the order in which they are processed."""

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
from replay.agreement.assumptions import Choices
from replay.agreement.decisions.write_batch import StockDecision
from replay.agreement.logs.index import BrokerLogIndex
from replay.agreement.logs.received_requests import RequestOrder
from replay.agreement.trace.pending_events import PendingEvents
from replay.agreement.trace.stepped_fold import SteppedFold
from replay.stock_clusters.imported_log.events import ControllerLogged
from replay.stock_clusters.zookeeper_log.transactions import SetData
from tests.replay.agreement.sample_log import Log
from tests.replay.agreement.view import OTHER, STATE, Tree

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


def pending(index: BrokerLogIndex, *triggers: Trigger) -> PendingEvents:
    fold = SteppedFold(Configuration(broker_id=1, rules="kafka"), ProcessingOrder())
    events = PendingEvents(9, 1, fold.controller, index, Choices())
    for one in triggers:
        events.add(one, 1000)
    return events


def before(line: Trigger, *triggers: Trigger, is_deposed: bool) -> list[Trigger]:
    """The triggers that are processed before the event of a line."""
    log = Log()
    log.add(ControllerLogged(1, "BrokerChange", BROKERS_CHANGED))
    log.add(ControllerLogged(1, "", LOGGED_AT_DEBUG_ONLY))
    return pending(log.index(), *triggers, line).unlogged_before(line, is_deposed=is_deposed)


def test_earlier_events_without_a_line_are_processed_before_a_line() -> None:
    assert before(LINE, REASSIGNMENT, ANSWER, is_deposed=False) == [REASSIGNMENT, ANSWER]


def test_deposed_controller_processes_only_events_without_a_watch() -> None:
    """Watches fire in the order of zxids, and the watch of /controller has not fired yet."""
    triggers = (REASSIGNMENT, ControllerChange(), ZkPartitionReassignment(created=False), ANSWER)
    assert before(LINE, *triggers, is_deposed=True) == [REASSIGNMENT, ANSWER]


def test_elected_controller_processes_events_after_its_election() -> None:
    triggers = (ControllerChange(), REASSIGNMENT)
    assert before(LINE, *triggers, is_deposed=False) == [REASSIGNMENT]


def test_election_by_znode_waits_for_its_line() -> None:
    """The watch may have been lost with the connection while the broker was paused."""
    assert before(LINE, ReplicaLeaderElection(), ANSWER, is_deposed=False) == [ANSWER]


def test_failure_of_log_directories_waits_for_its_line() -> None:
    """A later answer may be processed before it."""
    assert before(LINE, LogDirEventNotification(), ANSWER, is_deposed=False) == [ANSWER]


def test_held_event_is_not_returned_until_it_is_released() -> None:
    """Otherwise the event would be taken and put back repeatedly."""
    events = pending(BrokerLogIndex(iter(()), "", Tree().view), REQUEST)
    assert events.next_unlogged() == REQUEST
    events.hold_until_write(REQUEST, [STATE])
    assert events.next_unlogged() is None
    assert events.release([STATE], lambda: {STATE}) == REQUEST
    assert events.next_unlogged() == REQUEST


def test_request_that_is_not_held_is_returned_first() -> None:
    """The waiting request was answered earlier."""

    class Answered(BrokerLogIndex):
        def request_order(self, number: int) -> RequestOrder:
            return RequestOrder(number, number)

    other = ApiCall(AlterPartitionReceived(2, 3, 1, 7, []))
    events = pending(Answered(iter(()), "", Tree().view), REQUEST, other)
    events.hold_until_write(REQUEST, [STATE])
    assert events.next_unlogged() == other


def cause(request: Served, path: str, at_ms: int, *lines: str) -> Trigger | None:
    """The trigger of a write, if a request was apparently received at 1000 ms."""
    log = Log()
    for line in lines:
        log.add(ControllerLogged(1, "BrokerChange", line))
    while log.add(ControllerLogged(2, "", "")) < ANSWERED_SEQ - 1:
        pass
    log.serve(*request, received_ms=1000)
    index = log.index()
    fold = SteppedFold(Configuration(broker_id=1, rules="kafka"), ProcessingOrder())
    topic = fold.controller.context.topic("t")
    for number, replicas in enumerate(((1, 2), (1, 3))):
        partition = topic.partition(number)
        partition.assignment = Assignment(replicas)
    events = PendingEvents(9, 1, fold.controller, index, Choices())
    written = StockDecision(30, 7, at_ms, "partition_state", 0, ((path, SetData(path, b"", 2)),))
    return events.request_causing(written, at_ms)


T0 = {"topic": "t", "partitions": [0]}
ELECT: Served = ("ELECT_LEADERS", 2, {"electionType": 0, "topicPartitions": [T0]})
ELECT_ALL: Served = ("ELECT_LEADERS", 2, {"electionType": 0, "topicPartitions": None})


def test_request_received_just_after_a_write_can_be_its_cause() -> None:
    """The log has the time at which its line was written, minus the duration of the request."""
    elect = ElectLeadersReceived(ANSWERED_SEQ, 2, "preferred", [("t", 0)])
    assert cause(ELECT, STATE, 990) == ApiCall(elect)
    assert cause(ELECT, OTHER, 990) is None
    assert cause(ELECT, STATE, 400) is None
    elect_all = ElectLeadersReceived(ANSWERED_SEQ, 2, "preferred", None)
    assert cause(ELECT_ALL, OTHER, 990) == ApiCall(elect_all)
    assert cause(ELECT_ALL, "/admin/reassign_partitions", 990) is None


def test_controlled_shutdown_is_the_cause_only_for_a_replica_of_the_broker() -> None:
    request: Served = ("CONTROLLED_SHUTDOWN", 3, {"brokerId": 2, "brokerEpoch": 70})
    shutdown = ControlledShutdownReceived(ANSWERED_SEQ, 3, 2, 70)
    assert cause(request, STATE, 990) == ApiCall(shutdown)
    assert cause(request, OTHER, 990) is None


def test_request_with_a_line_is_no_inferred_cause() -> None:
    assert cause(ELECT, STATE, 990, BROKERS_CHANGED) is None
