"""Changes that a standby has read, or has not read yet, when it takes over: it decides as a
failover that reads everything (docs/standby.md)."""

from collections.abc import Iterable

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import StartTimer
from controller.core.fold_observer import FoldObserver
from controller.core.procedures.role.controller_election import BACK_OFF_TIMER
from controller.core.standby import FOLLOW_MS, FOLLOW_TIMER
from controller.core.state import Topic
from tests.controller.core.cluster import DAEMON
from tests.controller.core.conftest import FailingFailovers
from tests.controller.core.endpoint import alter_partition, proposal
from tests.controller.core.procedures.reassignment.interrupting import (
    cancel_quietly,
    submit_quietly,
)
from tests.controller.core.procedures.role.standby_pair import StandbyPair, reads_of

STATE = znodes.state_path("t", 0)


def restart_quietly(pair: StandbyPair, broker: int) -> None:
    """A broker registers again. No controller reacts yet."""
    pair.active.unregister(broker)
    pair.active.register(broker)


def add_a_partition_quietly(pair: StandbyPair) -> None:
    pair.active.change_topic_quietly("t", {0: [1, 2], 1: [2, 3], 2: [3]})


# Topics ------------------------------------------------------------------------------------------


def test_followed_topic_that_names_the_daemon_later_is_repaired() -> None:
    pair = StandbyPair()
    pair.active.change_topic_quietly("t", {0: [DAEMON, 1], 1: [2, 3]})
    pair.follow()
    pair.take_over_as_cold()
    assert DAEMON not in pair.standby.topic("t").assignments[0].replicas


def test_topic_that_has_to_be_repaired_and_is_deleted_unseen_is_forgotten() -> None:
    pair = StandbyPair()
    pair.active.change_topic_quietly("auto", {0: [DAEMON, 1]})
    pair.follow()
    pair.active.remove_quietly(znodes.topic_path("auto"))
    pair.take_over_as_cold()
    assert pair.standby.fold.controller.context.known_topics() == ["t"]


def test_topic_that_is_followed_has_its_id_after_the_take_over() -> None:
    pair = StandbyPair()
    pair.take_over()
    shrunk = proposal(pair.standby, "t", 0, isr=(1,))
    [one] = alter_partition(pair.standby, 1, shrunk).partitions
    assert (one.error, one.isr) == (codes.NONE, (1,))


class DroppedTopicsObserver(FoldObserver):
    """Notes the topics that the core no longer uses, which the daemon frees."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def drops_topics(self, topics: Iterable[Topic]) -> None:
        self.names += [one.name for one in topics]


def test_topic_that_was_known_is_freed_when_it_changes_or_is_deleted() -> None:
    pair, dropped = StandbyPair(), DroppedTopicsObserver()
    pair.standby.fold.controller.observer = dropped
    add_a_partition_quietly(pair)
    pair.active.change_topic_quietly("new", {0: [2]}, topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    pair.follow()
    assert dropped.names == ["t"]
    pair.active.remove_quietly(znodes.topic_path("new"))
    pair.follow()
    assert dropped.names == ["t", "new"]


# States ------------------------------------------------------------------------------------------


def test_restart_of_a_broker_counts_once_if_its_topic_changes_unseen() -> None:
    pair = StandbyPair()
    restart_quietly(pair, 1)
    add_a_partition_quietly(pair)
    pair.take_over_as_cold()
    assert pair.standby.state("t", 0) == "leader 2 e 1 isr [2] v 1 ce 2"


def test_broker_that_leads_again_after_its_restart_keeps_the_lead() -> None:
    """Its leader has written the state unseen by the standby, after the restart."""
    pair = StandbyPair()
    restart_quietly(pair, 1)
    pair.active.set_isr("t", 0, [1])
    pair.take_over_as_cold()
    assert pair.standby.leadership("t", 0).leader == 1


def test_unreadable_state_of_a_topic_that_changes_unseen_is_reported_once() -> None:
    pair = StandbyPair()
    pair.active.put_quietly(STATE, b"?")
    pair.follow()
    add_a_partition_quietly(pair)
    pair.take_over_as_cold()


def test_state_of_a_partition_that_its_topic_does_not_have_is_ignored() -> None:
    pair = StandbyPair()
    stray = znodes.state_path("t", 7)
    pair.active.put_quietly(stray.removesuffix("/state"), b"")
    pair.active.put_quietly(stray, b"?")
    pair.take_over_as_cold()


# Other znodes ------------------------------------------------------------------------------------


def test_first_of_several_changes_starts_the_timer() -> None:
    pair = StandbyPair()
    for _ in range(2):
        seen = pair.standby.seen()
        pair.active.set_isr("t", 0, [1])
        pair.active.set_isr("t", 1, [2])
        pair.standby.run()
        assert seen.commands == [StartTimer(FOLLOW_TIMER, FOLLOW_MS)]
        pair.standby.fire(FOLLOW_TIMER)


def test_entry_that_is_younger_than_a_cancellation_waits_after_a_take_over() -> None:
    """/admin/reassign_partitions is known to the standby, with its transaction."""
    pair = StandbyPair(kip_236_enable=True)
    cancel_quietly(pair.active)
    submit_quietly(pair.active, {("t", 0): [3, 1]})
    pair.follow()
    pair.take_over_as_cold()
    assert pair.standby.data(znodes.REASSIGN_PARTITIONS) is not None


def test_standby_that_waits_after_a_failed_failover_accepts_a_broker_as_controller(
    failing_failovers: FailingFailovers,
) -> None:
    """The standby has read that the session of the broker owns /controller."""
    failing_failovers.fails = False
    pair = StandbyPair()
    failing_failovers.fails = True
    pair.take_over()
    assert failing_failovers.epochs == [2]
    pair.active.take_role(2)
    pair.follow()
    seen = pair.standby.seen()
    pair.standby.fire(BACK_OFF_TIMER)
    assert reads_of(seen) == []
    assert seen.notices() == []
    assert (pair.standby.is_active, pair.standby.is_stopped) == (False, False)
