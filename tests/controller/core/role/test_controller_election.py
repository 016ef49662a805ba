"""Who becomes controller, and how the role changes hands (KB 3.2, 6.1, 13, 17.1, 17.10)."""

import pytest

from controller.core import znodes
from controller.core.commands import Stop, WriteAtomically
from controller.core.controller import Controller
from controller.core.operations import Create, Delete, SetData
from controller.core.procedures.role import controller_election
from controller.core.values import ANY_VERSION
from replay.world.simulation import Fate
from tests.controller.core.cluster import DAEMON, Cluster, by_rule, writes_state

ELECTION = by_rule(WriteAtomically, "controller election")


def test_CI_01_an_empty_cluster_gets_epoch_1() -> None:
    cluster = Cluster().start()
    assert (cluster.controller(), cluster.epoch(), cluster.is_active) == (DAEMON, 1, True)


def test_CI_02_the_epoch_outlives_the_controller() -> None:
    cluster = Cluster(1).start()
    cluster.shut_down()
    assert (cluster.controller(), cluster.epoch()) == (None, 1)


def test_CI_03_every_controller_raises_the_epoch() -> None:
    cluster = Cluster(1).start()
    cluster.shut_down()
    restarted = Cluster(zookeeper=cluster.zookeeper).start()
    assert (restarted.controller(), restarted.epoch()) == (DAEMON, 2)
    restarted.expire()
    assert (restarted.controller(), restarted.epoch()) == (DAEMON, 3)


def test_SU_35_the_epoch_znode_is_made_then_raised_by_version() -> None:
    cluster = Cluster()
    seen = cluster.seen()
    cluster.start()
    assert seen.writes()[:3] == [
        Create(znodes.CONTROLLER_EPOCH, b"0"),
        Create(znodes.CONTROLLER, cluster.data(znodes.CONTROLLER) or b"", ephemeral=True),
        SetData(znodes.CONTROLLER_EPOCH, b"1", 0),
    ]
    assert cluster.version(znodes.CONTROLLER_EPOCH) == 1


def test_SU_35_an_epoch_znode_that_somebody_made_meanwhile_is_raised_from_what_it_holds() -> None:
    """Its creation is answered NODEEXISTS."""
    cluster = Cluster()
    made = by_rule(WriteAtomically, "create the controller epoch")
    cluster.once(made, lambda: cluster.put_quietly(znodes.CONTROLLER_EPOCH, b"7"))
    cluster.start()
    assert (cluster.epoch(), cluster.version(znodes.CONTROLLER_EPOCH)) == (8, 1)
    assert cluster.is_active


def test_SU_35_an_epoch_that_another_raised_meanwhile_is_never_given_twice() -> None:
    """BADVERSION: another became controller and ended between the read and the election."""
    cluster = Cluster(1, 2)
    cluster.once(ELECTION, lambda: cluster.zookeeper.end_session(cluster.take_role(2)))
    seen = cluster.seen()
    cluster.start()
    assert len(seen.notice_texts("lost_election")) == 1
    assert (cluster.controller(), cluster.epoch(), cluster.is_active) == (DAEMON, 2, True)


def test_SU_35_the_controllers_id_is_there_until_the_role_is_given_up() -> None:
    """It is deleted, not left there until the session ends."""
    cluster = Cluster(1).start()
    assert cluster.controller() == DAEMON
    seen = cluster.seen()
    cluster.shut_down()
    assert seen.writes()[-1] == Delete(znodes.CONTROLLER, ANY_VERSION)
    assert cluster.controller() is None


def test_CI_26_a_controller_that_was_replaced_makes_no_topic() -> None:
    """The event ends with ControllerMoved: nobody is told and the channels are closed."""
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    cluster.once(writes_state("t", 0), lambda: cluster.seize_role(2))
    cluster.create_topic("t", {0: [1, 2]})
    assert not cluster.is_active
    assert cluster.state("t", 0) is None
    assert seen.requested() == {}
    assert seen.channels() == ["close channel to 1", "close channel to 2"]


def test_a_standby_waits_for_the_role_to_be_free() -> None:
    cluster = Cluster(1, 2)
    session = cluster.take_role(1)
    seen = cluster.seen()
    cluster.start()
    assert not cluster.is_active
    assert seen.notice_texts("standing_by") == ["broker 1 is controller; waiting"]
    assert seen.writes() == []
    cluster.leave_role(session)
    assert (cluster.controller(), cluster.epoch(), cluster.is_active) == (DAEMON, 2, True)


def test_a_stock_controller_takes_over_and_the_role_comes_back() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    seen = cluster.seen()
    session = cluster.seize_role(2)
    cluster.run()
    assert not cluster.is_active
    assert cluster.controller() == 2
    assert seen.channels() == ["close channel to 1", "close channel to 2"]
    cluster.stop_broker(1)
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1,2] v 0 ce 1"
    cluster.leave_role(session)
    assert (cluster.controller(), cluster.epoch()) == (DAEMON, 3)
    assert cluster.state("t", 0) == "leader 2 e 2 isr [2] v 2 ce 3"


def test_take_over_replaces_a_living_controller_in_one_transaction() -> None:
    cluster = Cluster(1, 2, take_over=True)
    cluster.take_role(2)
    seen = cluster.seen()
    cluster.start()
    assert (cluster.controller(), cluster.epoch(), cluster.is_active) == (DAEMON, 2, True)
    multi = next(one for one in seen.commands if isinstance(one, WriteAtomically))
    assert [type(one) for one in multi.operations] == [Delete, Create, SetData]
    assert multi.operations[0] == Delete(znodes.CONTROLLER, 0)


def test_without_take_over_a_living_controller_stays() -> None:
    cluster = Cluster(1, 2)
    cluster.take_role(2)
    cluster.start()
    assert (cluster.controller(), cluster.epoch()) == (2, 1)


def test_an_election_that_somebody_else_won_is_lost() -> None:
    cluster = Cluster(1, 2)
    cluster.once(ELECTION, lambda: cluster.take_role(2))
    seen = cluster.seen()
    cluster.start()
    assert not cluster.is_active
    assert seen.notice_texts("lost_election") == [
        "another broker became controller at the same time"
    ]
    assert cluster.controller() == 2


def moves_on(cluster: Cluster, session: int, broker: int) -> int:
    """The session that holds the role ends, and a broker takes it at once; the new session."""
    cluster.zookeeper.end_session(session)
    return cluster.take_role(broker)


def test_who_takes_over_and_loses_in_the_same_moment_takes_the_role_of_the_winner() -> None:
    """As when a daemon is started again while the session of the killed one ends."""
    cluster = Cluster(1, 2, 3, take_over=True)
    dead = cluster.take_role(3)
    cluster.once(ELECTION, lambda: moves_on(cluster, dead, 2))
    seen = cluster.seen()
    cluster.start()
    assert len(seen.notice_texts("lost_election")) == 1
    assert (cluster.controller(), cluster.is_active) == (DAEMON, True)


def test_who_takes_over_and_loses_twice_stands_by() -> None:
    """Two that take over do not fight for the role."""
    cluster = Cluster(1, 2, 3, take_over=True)
    dead = cluster.take_role(3)

    def lose_twice() -> None:
        winner = moves_on(cluster, dead, 2)
        cluster.once(ELECTION, lambda: moves_on(cluster, winner, 3))

    cluster.once(ELECTION, lose_twice)
    cluster.start()
    assert (cluster.controller(), cluster.is_active) == (3, False)


def test_a_lost_election_is_tried_again_when_the_role_is_free() -> None:
    cluster = Cluster(1, 2)
    sessions: list[int] = []
    cluster.once(ELECTION, lambda: sessions.append(cluster.take_role(2)))
    cluster.start()
    cluster.leave_role(sessions[0])
    assert (cluster.controller(), cluster.epoch(), cluster.is_active) == (DAEMON, 2, True)


@pytest.mark.parametrize("fate", [Fate.REPLY_LOST, Fate.REQUEST_LOST])
def test_an_election_whose_reply_was_lost_is_decided_by_what_stands_there(fate: Fate) -> None:
    """Done: the role is ours. Not done: nobody is told that it is, and the role stays free."""
    cluster = Cluster(1)
    cluster.lose(ELECTION, fate)
    cluster.start()
    assert (cluster.controller(), cluster.epoch(), cluster.is_active) == (DAEMON, 1, True)


def test_a_lost_election_reply_while_somebody_else_won() -> None:
    cluster = Cluster(1, 2)
    cluster.once(ELECTION, lambda: cluster.take_role(2))
    cluster.lose(ELECTION, Fate.REPLY_LOST)
    seen = cluster.seen()
    cluster.start()
    assert (cluster.controller(), cluster.is_active) == (2, False)
    assert seen.requested() == {}


def test_a_node_of_an_earlier_session_with_the_own_id_is_somebody_elses() -> None:
    """KB 13.3.4: Kafka would believe itself active with nothing loaded; here the session counts."""
    cluster = Cluster(1)
    session = cluster.take_role(DAEMON)
    cluster.start()
    assert not cluster.is_active
    cluster.leave_role(session)
    assert (cluster.epoch(), cluster.is_active) == (2, True)


def test_SU_36_the_role_is_never_taken_from_kraft() -> None:
    """Once its node is deleted, as an operator who goes back does, the next epoch is ours."""
    cluster = Cluster(1, take_over=True)
    cluster.ask(Create(znodes.CONTROLLER_EPOCH, b"1"))
    cluster.ask(SetData(znodes.CONTROLLER_EPOCH, b"2", 0))
    kraft = b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":5}'
    cluster.zookeeper.apply(
        cluster.zookeeper.create_session(), Create(znodes.CONTROLLER, kraft, ephemeral=True), 0
    )
    seen = cluster.seen()
    cluster.start()
    assert cluster.is_stopped
    assert not cluster.is_active
    assert [one.reason for one in seen.commands if isinstance(one, Stop)] == [
        "/controller: a KRaft controller holds it: a migration to KRaft is under way, "
        "refold must not run in this cluster"
    ]
    assert seen.writes() == []
    cluster.remove_quietly(znodes.CONTROLLER)
    later = Cluster(zookeeper=cluster.zookeeper).start()
    assert (later.controller(), later.epoch(), later.is_active) == (DAEMON, 3, True)
    assert later.version(znodes.CONTROLLER_EPOCH) == 2


def test_a_persistent_controller_znode_is_refused() -> None:
    cluster = Cluster(1, take_over=True)
    cluster.put(znodes.CONTROLLER, znodes.write_controller(3000, 1))
    seen = cluster.seen()
    cluster.start()
    assert cluster.is_stopped
    assert [one.reason for one in seen.commands if isinstance(one, Stop)] == [
        "/controller: it is persistent: a migration to KRaft is under way, "
        "refold must not run in this cluster"
    ]
    assert seen.writes() == []


def test_fencing_in_a_failover_ends_it() -> None:
    cluster = Cluster(1, 2)
    cluster.change_topic_quietly("t", {0: [1, 2]})
    seen = cluster.seen()
    cluster.once(writes_state("t", 0), lambda: cluster.seize_role(2))
    cluster.start()
    assert (cluster.is_active, cluster.controller()) == (False, 2)
    assert cluster.state("t", 0) is None
    assert seen.channels() == [
        "open channel to 1",
        "open channel to 2",
        "close channel to 1",
        "close channel to 2",
    ]


def test_fencing_leaves_what_was_written_before_it() -> None:
    """KB 1.3.4: the first leader of one topic is made, the election after it is fenced."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.once(
        lambda issued: issued.reason.rule == "remove 2 from ISR", lambda: cluster.seize_role(1)
    )
    cluster.create_topic("u", {0: [2, 1]})
    seen = cluster.seen()
    cluster.stop_broker(2)
    assert cluster.state("u", 0) == "leader 1 e 1 isr [1] v 1 ce 1"
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1,2] v 0 ce 1"
    assert not cluster.is_active
    assert [one.partition("; ")[0] for one in seen.requests(1)] == [
        "LeaderAndIsr v7",
        "UpdateMetadata v8",
    ]


def test_a_state_that_a_later_controller_wrote_is_left_alone() -> None:
    """KB 13.3.2: a controller that does not know yet that it was replaced changes nothing."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    later = b'{"version":1,"leader":1,"leader_epoch":3,"controller_epoch":9,"isr":[1,2]}'
    cluster.put(znodes.state_path("t", 0), later)
    seen = cluster.seen()
    cluster.stop_broker(1)
    assert cluster.data(znodes.state_path("t", 0)) == later
    assert ("no_leader_elected", "t-0") in seen.notices()


def test_the_role_is_given_up_when_a_failover_cannot_be_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fail_over, failures = controller_election.fail_over, [RuntimeError()]

    async def fails_once(controller: Controller) -> None:
        if failures:
            raise failures.pop()
        await fail_over(controller)

    monkeypatch.setattr(controller_election, "fail_over", fails_once)
    cluster = Cluster(1)
    seen = cluster.seen()
    cluster.start()
    assert ("failover_failed", znodes.CONTROLLER) in seen.notices()
    assert Delete(znodes.CONTROLLER, ANY_VERSION) in seen.writes()
    assert (cluster.controller(), cluster.is_active) == (None, False)
    cluster.fire(controller_election.BACK_OFF_TIMER)
    assert (cluster.epoch(), cluster.is_active) == (2, True)
