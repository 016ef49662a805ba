"""The state that a controller has read, by the lines of its state-change.log."""

from replay.agreement.logs.logged_reads import StatesRead
from replay.stock_clusters.imported_log.events import StateChangeLogged
from tests.replay.agreement.view import OTHER, STATE

LINE = (
    "[Controller id=2 epoch=5] Partition t-0 state changed to (Leader:3,ISR:3,2,"
    "LeaderRecoveryState:RECOVERED,LeaderEpoch:5,ZkVersion:8,ControllerEpoch:4) after removing "
    "replica 1 from the ISR as part of transition to OfflineReplica"
)


def states_read(text: str = LINE) -> StatesRead:
    """A line at record 50, of controller 2 in epoch 5."""
    found = StatesRead()
    found.note(50, StateChangeLogged(2, 5, "other", (), text))
    return found


def test_line_after_a_read_has_its_version() -> None:
    assert states_read().version(2, 5, STATE, 40) == 8


def test_line_of_another_controller_or_before_the_read_is_ignored() -> None:
    found = states_read()
    assert found.version(1, 5, STATE, 40) is None
    assert found.version(2, 6, STATE, 40) is None
    assert found.version(2, 5, OTHER, 40) is None
    assert found.version(2, 5, STATE, 50) is None


def test_line_much_later_belongs_to_another_read() -> None:
    found = StatesRead()
    found.note(5000, StateChangeLogged(2, 5, "other", (), LINE))
    assert found.version(2, 5, STATE, 40) is None


def test_line_without_a_state_is_ignored() -> None:
    assert (
        states_read("[Controller id=2 epoch=5] Changed partition t-0").version(2, 5, STATE, 40)
        is None
    )
