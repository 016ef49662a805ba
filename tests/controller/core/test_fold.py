"""The fold's handling of watches, changes of the session and responses that come while a procedure
runs, or while none may run (docs/design.md#the-path-of-an-event)."""

import pytest

from controller.core import pauses, znodes
from controller.core.commands import (
    Notice,
    StartTimer,
    WatchSubtree,
    WriteAtomically,
    WriteZnodes,
)
from controller.core.events import SessionDisconnected, SessionExpired, TimerFired, ZnodesWritten
from controller.core.fold import Fold
from controller.core.operations import OK
from controller.core.procedures.role.controller_election import BACK_OFF_TIMER
from controller.core.standby import FOLLOW_TIMER
from controller.core.triggers import BrokerChange
from controller.core.values import Endpoint
from tests.controller.core.cluster import Cluster, Seen, by_rule, reads
from tests.controller.core.procedures.elections.electing import restart, timer
from tests.controller.core.procedures.reassignment.interrupting import (
    cancel_briefly,
    records,
    submit,
    two_partitions,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    assert_no_failures,
    assignment,
)
from tests.controller.core.procedures.role.standby_pair import StandbyPair, reads_of
from tests.controller.core.test_urgent_events import (
    COUNT,
    PART,
    SECOND_PART,
    TARGETS,
    alter_u0,
    between,
    with_25_partitions,
)

ENDPOINT = Endpoint("PLAINTEXT", "PLAINTEXT", "refold", 9092)


def disconnect(cluster: Cluster) -> None:
    """The connection of the session is lost."""
    cluster.happen(SessionDisconnected(cluster.session, "reset"), "session")


def timers(seen: Seen) -> list[str]:
    """The timers that were started."""
    return [one.timer for one in seen.commands if isinstance(one, StartTimer)]


# Procedures -------------------------------------------------------------------------------------


def test_controller_event_is_unfinished_until_its_procedure_ends() -> None:
    cluster = Cluster(1).start()
    assert cluster.fold.unfinished == []
    disconnect(cluster)
    cluster.stop_broker(1)
    assert cluster.fold.unfinished == [BrokerChange()]
    assert not cluster.fold.is_failing_over
    cluster.reconnect()
    assert cluster.fold.unfinished == []


def test_failover_is_under_way_until_its_last_outcome() -> None:
    cluster = Cluster(1).start()
    fold = Fold(cluster.fold.controller.configuration)
    under_way = []
    for recorded, issued in cluster.history:
        for _ in fold.apply(recorded):
            pass
        codes = [one.command.code for one in issued if isinstance(one.command, Notice)]
        under_way.append((fold.is_failing_over, "failover_done" in codes))
    states = [one for one, _ in under_way]
    done = [one for _, one in under_way].index(True)
    assert all(states[:done])
    assert not any(states[done:])


def slices(cluster: Cluster) -> list[int]:
    """The number of slices of each event, in another fold."""
    fold = Fold(cluster.fold.controller.configuration)
    return [len(list(fold.apply(recorded))) for recorded, _ in cluster.history]


def test_only_long_work_is_divided_into_slices() -> None:
    cluster = Cluster(1, 2).start()
    failover = len(cluster.history)
    cluster.create_topic("t", {0: [1, 2]})
    before = len(cluster.history)
    cluster.set_isr("t", 0, [1])
    cluster.announce_isr(("t", 0))
    found = slices(cluster)
    assert max(found[:failover]) > 1
    assert set(found[before:]) == {1}


def test_urgent_event_that_is_long_work_is_not_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Broker 3 restarts in the second of three parts; then 20 moves wait for it."""
    monkeypatch.setattr(pauses, "TOGETHER_MAX", PART)
    cluster = with_25_partitions()

    def happen() -> None:
        cluster.unregister(3)
        cluster.register(3)
        cluster.happen_next(alter_u0(cluster), "api:1")

    cluster.once(SECOND_PART, happen)
    seen = cluster.seen()
    submit(cluster, TARGETS)
    assert between(seen, "AlterPartitionResponse") == 2 * PART
    assert len(records(cluster)) == COUNT
    assert_no_failures(cluster)


# Watches ----------------------------------------------------------------------------------------


def test_cancellation_that_is_removed_again_before_the_election_is_carried_out() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    submit(cluster, {T0: [3, 4]})
    session = cluster.seize_role(9)
    cluster.run()
    assert not cluster.is_active
    cluster.zookeeper.end_session(session)
    cancel_briefly(cluster)
    cluster.run()
    assert cluster.is_active
    assert assignment(cluster) == "1,2"


def test_change_before_a_standby_has_read_everything_starts_no_timer() -> None:
    pair = StandbyPair()
    standby = Cluster(zookeeper=pair.active.zookeeper, standby=True)
    seen = standby.seen()
    standby.once(reads(znodes.BROKER_IDS), lambda: pair.active.set_isr("t", 0, [1]))
    standby.start()
    assert standby.fold.controller.standby.is_ready
    assert FOLLOW_TIMER not in timers(seen)


def test_change_during_the_take_over_multi_is_read_once() -> None:
    pair = StandbyPair()
    election = by_rule(WriteAtomically, "controller election")
    pair.standby.once(election, lambda: pair.active.change_topic_quietly("u", {0: [1]}))
    seen = pair.take_over()
    assert pair.standby.state("u", 0) == "leader 1 e 0 isr [1] v 0 ce 2"
    assert reads_of(seen).count(f"{znodes.TOPICS}/") == 1


def test_change_after_the_take_over_of_a_standby_is_handled() -> None:
    pair = StandbyPair()
    pair.take_over()
    pair.active.unregister(1)
    pair.standby.run()
    assert pair.standby.leadership("t", 0).leader == 2


# Responses and timers ---------------------------------------------------------------------------


def test_late_outcome_is_ignored_while_no_procedure_runs() -> None:
    cluster = Cluster(1).start()
    write = next(one for one in cluster.commands() if isinstance(one.command, WriteZnodes))
    seen = cluster.seen()
    cluster.happen(ZnodesWritten(write.id, 0, [OK], [1]), "zookeeper")
    assert seen.commands == []


def test_timer_of_an_earlier_term_starts_no_rebalance() -> None:
    """The timer fires after another controller has died, before this daemon is elected again."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [2, 1]})
    restart(cluster, 2, T0)
    first_term = timer(cluster)
    session = cluster.seize_role(9)
    cluster.run()
    cluster.zookeeper.end_session(session)
    cluster.happen(TimerFired(first_term), "timer")
    assert (cluster.is_active, cluster.epoch()) == (True, 3)
    assert cluster.leadership(*T0).leader == 1


def test_hand_back_waits_for_the_responses_of_all_brokers() -> None:
    """A connection to ZooKeeper that is lost and restored changes nothing."""
    cluster = Cluster(1, 2, endpoints=(ENDPOINT,)).start()
    cluster.is_slow = lambda request: request.broker == 2
    seen = cluster.seen()
    cluster.shut_down()
    cluster.lose_connection()
    assert timers(seen) == ["hand back"]
    cluster.answer_slow()
    assert timers(seen) == ["hand back", "hand back: topics under way"]


# The session ------------------------------------------------------------------------------------


def test_controller_whose_connection_is_restored_does_nothing() -> None:
    """KB 13.1: a lost connection alone changes nothing."""
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    cluster.lose_connection()
    assert seen.commands == []
    assert cluster.is_active


def test_standby_that_loses_its_connection_is_not_ready() -> None:
    pair = StandbyPair()
    assert pair.standby.fold.controller.standby.is_ready
    disconnect(pair.standby)
    assert not pair.standby.fold.controller.standby.is_ready
    pair.standby.reconnect()
    assert pair.standby.fold.controller.standby.is_ready


def test_timer_that_fires_without_a_session_waits_for_the_next_one() -> None:
    cluster = Cluster(1)
    cluster.put_quietly(znodes.CONTROLLER_EPOCH, b"?")
    cluster.start()
    cluster.happen(SessionExpired(cluster.session), "session")
    seen = cluster.seen()
    cluster.fire(BACK_OFF_TIMER)
    assert seen.commands == []
    cluster.put_quietly(znodes.CONTROLLER_EPOCH, b"1")
    cluster.connect()
    assert (cluster.is_active, cluster.epoch()) == (True, 2)


def test_standby_tries_to_be_elected_before_it_follows_in_a_new_session() -> None:
    pair = StandbyPair()
    pair.standby.happen(SessionExpired(pair.standby.session), "session")
    seen = pair.standby.seen()
    pair.standby.connect()
    assert reads_of(seen)[0] == znodes.CONTROLLER
    assert len([one for one in seen.commands if isinstance(one, WatchSubtree)]) == 1
