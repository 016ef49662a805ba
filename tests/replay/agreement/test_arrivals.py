"""Which events are there, and in which order they are taken where lines tell of some."""

from controller.core.commands import CommandId
from controller.core.configuration import Configuration
from controller.core.events import AlterPartitionReceived, BrokerAnswered
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
from controller.core.turns import Turns
from replay.agreement.arrivals import Arrivals
from replay.agreement.held_fold import HeldFold
from replay.agreement.index import Index, LoggedOpening
from replay.agreement.marks import Opening
from replay.agreement.order import Order
from tests.replay.agreement.view import STATE, Tree

REASSIGNMENT = ZkPartitionReassignment(created=True)
ANSWER = LeaderAndIsrResponseReceived(BrokerAnswered(CommandId(1, 1), 2, 5, 0, []), [("t", 0)])
LINE = BrokerChange()


REQUEST = ApiCall(AlterPartitionReceived(1, 3, 1, 7, []))


def arrived(index: Index, *came: Trigger) -> Arrivals:
    fold = HeldFold(Configuration(broker_id=1, rules="kafka"), Turns())
    arrivals = Arrivals(9, 1, fold.controller, index, Order())
    for one in came:
        arrivals.add(one, 1000)
    return arrivals


def before(line: Trigger, *came: Trigger, is_deposed: bool) -> list[Trigger]:
    """What is taken before the event that a line is about, of what came before it."""
    index = Index(iter(()), "", Tree().view)
    index.lines.has_debug.add(1)
    index.openings[1].append(LoggedOpening(1, 1000, Opening("BrokerChange", "")))
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
    assert arrivals.unlogged() == REQUEST
    arrivals.hold(REQUEST, [STATE])
    assert arrivals.unlogged() is None
    assert arrivals.let_go([STATE], lambda: {STATE}) == REQUEST
    assert arrivals.unlogged() == REQUEST
