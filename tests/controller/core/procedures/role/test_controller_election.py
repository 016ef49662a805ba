"""Controller elections and changes of the role (KB 3.2, 6.1, 13, 17.1, 17.10)."""

import msgspec
import pytest

from controller.core import znodes
from controller.core.commands import Issued, Stop, SyncZnodes, WriteAtomically, ZooKeeperCommand
from controller.core.events import WatchFired, ZnodesWritten
from controller.core.operations import NO_AUTH, OK, Create, Delete, SetData
from controller.core.procedures.role.controller_election import BACK_OFF_TIMER
from controller.core.values import ANY_VERSION
from replay.world.outcomes import ZooKeeperOutcome
from tests.controller.core.cluster import DAEMON, Cluster, by_rule, writes_state
from tests.controller.core.conftest import FailingFailovers
from tests.controller.core.unreliable import Delivery

ELECTION = by_rule(WriteAtomically, "controller election")


def test_CI_01_first_controller_gets_epoch_1() -> None:
    cluster = Cluster().start()
    assert (cluster.controller(), cluster.epoch(), cluster.is_active) == (DAEMON, 1, True)


def test_CI_02_epoch_outlives_the_controller() -> None:
    cluster = Cluster(1).start()
    cluster.shut_down()
    assert (cluster.controller(), cluster.epoch()) == (None, 1)


def test_CI_03_every_election_raises_the_epoch() -> None:
    cluster = Cluster(1).start()
    cluster.shut_down()
    restarted = Cluster(zookeeper=cluster.zookeeper).start()
    assert (restarted.controller(), restarted.epoch()) == (DAEMON, 2)
    restarted.expire()
    assert (restarted.controller(), restarted.epoch()) == (DAEMON, 3)


def test_SU_35_epoch_znode_is_created_then_raised_by_version() -> None:
    cluster = Cluster()
    seen = cluster.seen()
    cluster.start()
    assert seen.writes()[:3] == [
        Create(znodes.CONTROLLER_EPOCH, b"0"),
        Create(znodes.CONTROLLER, cluster.data(znodes.CONTROLLER) or b"", ephemeral=True),
        SetData(znodes.CONTROLLER_EPOCH, b"1", 0),
    ]
    assert cluster.version(znodes.CONTROLLER_EPOCH) == 1


def test_SU_35_epoch_znode_created_meanwhile_is_raised_from_its_content() -> None:
    """The create is answered NODEEXISTS."""
    cluster = Cluster()
    made = by_rule(WriteAtomically, "create the controller epoch")
    cluster.once(made, lambda: cluster.put_quietly(znodes.CONTROLLER_EPOCH, b"7"))
    cluster.start()
    assert (cluster.epoch(), cluster.version(znodes.CONTROLLER_EPOCH)) == (8, 1)
    assert cluster.is_active


def test_SU_35_epoch_raised_meanwhile_is_never_used_twice() -> None:
    """BADVERSION: another broker was elected and exited between the read and the election."""
    cluster = Cluster(1, 2)
    cluster.once(ELECTION, lambda: cluster.zookeeper.end_session(cluster.take_role(2)))
    seen = cluster.seen()
    cluster.start()
    assert len(seen.texts_of("lost_election")) == 1
    assert (cluster.controller(), cluster.epoch(), cluster.is_active) == (DAEMON, 2, True)


def test_SU_35_controller_znode_is_deleted_when_the_role_is_resigned() -> None:
    """The znode does not remain until the session ends."""
    cluster = Cluster(1).start()
    assert cluster.controller() == DAEMON
    seen = cluster.seen()
    cluster.shut_down()
    assert seen.writes()[-1] == Delete(znodes.CONTROLLER, ANY_VERSION)
    assert cluster.controller() is None


def test_CI_26_replaced_controller_creates_no_topic() -> None:
    """The event ends with ControllerMoved: no request is sent and the channels are closed."""
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    cluster.once(writes_state("t", 0), lambda: cluster.seize_role(2))
    cluster.create_topic("t", {0: [1, 2]})
    assert not cluster.is_active
    assert cluster.state("t", 0) is None
    assert seen.requested() == {}
    assert seen.channels() == ["close channel to 1", "close channel to 2"]


def test_standby_waits_for_a_free_role() -> None:
    cluster = Cluster(1, 2)
    session = cluster.take_role(1)
    seen = cluster.seen()
    cluster.start()
    assert not cluster.is_active
    assert seen.texts_of("standing_by") == ["broker 1 is controller; this daemon waits"]
    assert seen.writes() == []
    cluster.leave_role(session)
    assert (cluster.controller(), cluster.epoch(), cluster.is_active) == (DAEMON, 2, True)


def test_role_taken_by_a_stock_controller_returns() -> None:
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


def test_take_over_replaces_a_live_controller_in_one_transaction() -> None:
    cluster = Cluster(1, 2, take_over=True)
    cluster.take_role(2)
    seen = cluster.seen()
    cluster.start()
    assert (cluster.controller(), cluster.epoch(), cluster.is_active) == (DAEMON, 2, True)
    multi = next(one for one in seen.commands if isinstance(one, WriteAtomically))
    assert [type(one) for one in multi.operations] == [Delete, Create, SetData]
    assert multi.operations[0] == Delete(znodes.CONTROLLER, 0)


def test_without_take_over_a_live_controller_keeps_the_role() -> None:
    cluster = Cluster(1, 2)
    cluster.take_role(2)
    cluster.start()
    assert (cluster.controller(), cluster.epoch()) == (2, 1)


def test_concurrent_election_of_another_broker_is_reported() -> None:
    cluster = Cluster(1, 2)
    cluster.once(ELECTION, lambda: cluster.take_role(2))
    seen = cluster.seen()
    cluster.start()
    assert not cluster.is_active
    assert seen.texts_of("lost_election") == [
        "another broker became controller at the same time; this daemon waits until the role is "
        "free"
    ]
    assert cluster.controller() == 2


def change_holder(cluster: Cluster, session: int, broker: int) -> int:
    """The session with the role ends, and a broker is elected at once. Returns its session."""
    cluster.zookeeper.end_session(session)
    return cluster.take_role(broker)


def test_take_over_that_loses_a_concurrent_election_replaces_the_winner() -> None:
    """For example when a daemon restarts while the session of the killed process ends."""
    cluster = Cluster(1, 2, 3, take_over=True)
    dead = cluster.take_role(3)
    cluster.once(ELECTION, lambda: change_holder(cluster, dead, 2))
    seen = cluster.seen()
    cluster.start()
    assert seen.texts_of("lost_election") == [
        "another broker became controller at the same time; this daemon takes over once more"
    ]
    assert (cluster.controller(), cluster.is_active) == (DAEMON, True)


def test_take_over_that_loses_twice_becomes_a_standby() -> None:
    """Two daemons with take-over do not replace each other repeatedly."""
    cluster = Cluster(1, 2, 3, take_over=True)
    dead = cluster.take_role(3)

    def lose_twice() -> None:
        winner = change_holder(cluster, dead, 2)
        cluster.once(ELECTION, lambda: change_holder(cluster, winner, 3))

    cluster.once(ELECTION, lose_twice)
    cluster.start()
    assert (cluster.controller(), cluster.is_active) == (3, False)


def test_lost_election_is_repeated_when_the_role_is_free() -> None:
    cluster = Cluster(1, 2)
    sessions: list[int] = []
    cluster.once(ELECTION, lambda: sessions.append(cluster.take_role(2)))
    cluster.start()
    cluster.leave_role(sessions[0])
    assert (cluster.controller(), cluster.epoch(), cluster.is_active) == (DAEMON, 2, True)


@pytest.mark.parametrize("delivery", [Delivery.REPLY_LOST, Delivery.REQUEST_LOST])
def test_election_with_a_lost_reply_is_decided_by_the_controller_znode(delivery: Delivery) -> None:
    """If the election was carried out, the daemon is controller. Otherwise the role stays free."""
    cluster = Cluster(1)
    cluster.lose(ELECTION, delivery)
    cluster.start()
    assert (cluster.controller(), cluster.epoch(), cluster.is_active) == (DAEMON, 1, True)


def test_lost_election_reply_with_another_winner_makes_a_standby() -> None:
    cluster = Cluster(1, 2)
    cluster.once(ELECTION, lambda: cluster.take_role(2))
    cluster.lose(ELECTION, Delivery.REPLY_LOST)
    seen = cluster.seen()
    cluster.start()
    assert (cluster.controller(), cluster.is_active) == (2, False)
    assert seen.requested() == {}


@pytest.mark.parametrize("waits_for_own_znode", [False, True])
def test_epoch_written_while_the_reply_to_an_election_is_lost_is_raised(
    waits_for_own_znode: bool,
) -> None:
    """The daemon owns /controller already, and no broker is sent the epoch of that election."""
    cluster = Cluster(1, waits_for_own_znode=waits_for_own_znode)
    cluster.lose(ELECTION, Delivery.REPLY_LOST)
    is_looked_up = by_rule(SyncZnodes, "controller election")
    cluster.once(is_looked_up, lambda: cluster.put_quietly(znodes.CONTROLLER_EPOCH, b"7"))
    seen = cluster.seen()
    cluster.start()
    assert (cluster.controller(), cluster.epoch(), cluster.is_active) == (DAEMON, 8, True)
    assert {one.controller_epoch for one in seen.broker_requests()} == {8}
    assert seen.notices() == []


def test_controller_znode_of_an_earlier_session_belongs_to_another_controller() -> None:
    """KB 13.3.4: Kafka would consider itself active without loaded state. refold compares the
    session."""
    cluster = Cluster(1)
    session = cluster.take_role(DAEMON)
    cluster.start()
    assert not cluster.is_active
    cluster.leave_role(session)
    assert (cluster.epoch(), cluster.is_active) == (2, True)


def test_SU_36_role_is_never_taken_from_kraft() -> None:
    """After its znode is deleted, as in a return to ZooKeeper mode, the daemon is elected."""
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
    assert seen.notices() == [("foreign_controller", znodes.CONTROLLER)]
    cluster.remove_quietly(znodes.CONTROLLER)
    later = Cluster(zookeeper=cluster.zookeeper).start()
    assert (later.controller(), later.epoch(), later.is_active) == (DAEMON, 3, True)
    assert later.version(znodes.CONTROLLER_EPOCH) == 2


class RoleRejectingCluster(Cluster):
    """A cluster whose ZooKeeper does not let the daemon create a znode."""

    refused = ""

    def ask_zookeeper(self, issued: Issued, command: ZooKeeperCommand) -> list[ZooKeeperOutcome]:
        operations = command.operations if isinstance(command, WriteAtomically) else ()
        creates = [isinstance(one, Create) and one.path == self.refused for one in operations]
        if any(creates):
            errors = [NO_AUTH if one else OK for one in creates]
            return [ZnodesWritten(issued.id, 0, errors, [-1] * len(creates))]
        return super().ask_zookeeper(issued, command)


def test_refused_creation_of_the_controller_znode_is_reported_and_tried_in_the_next_session() -> (
    None
):
    cluster = RoleRejectingCluster(1)
    cluster.refused = znodes.CONTROLLER
    seen = cluster.seen()
    cluster.start()
    assert (cluster.is_active, seen.broker_requests()) == (False, [])
    assert seen.texts_of("role_not_taken") == [
        "the role cannot be taken (ZooKeeper codes [-102, 0])"
    ]
    cluster.refused = ""
    cluster.expire()
    assert cluster.is_active


def test_refused_creation_of_the_controller_epoch_is_reported_and_tried_again() -> None:
    cluster = RoleRejectingCluster(1)
    cluster.refused = znodes.CONTROLLER_EPOCH
    seen = cluster.seen()
    cluster.start()
    assert not cluster.is_active
    assert seen.texts() == ["/controller_epoch cannot be created (ZooKeeper code -102)"]
    cluster.refused = ""
    cluster.fire(BACK_OFF_TIMER)
    assert (cluster.is_active, cluster.epoch()) == (True, 1)


@pytest.mark.parametrize(("kraft_epoch", "is_replaced"), [(-1, True), (0, True), (1, False)])
def test_controller_znode_with_a_kraft_epoch_is_not_replaced(
    kraft_epoch: int, is_replaced: bool
) -> None:
    cluster = Cluster(1, take_over=True)
    session = cluster.take_role(3000)
    content = {
        "version": 2,
        "brokerid": 3000,
        "timestamp": "1",
        "kraftControllerEpoch": kraft_epoch,
    }
    cluster.put_quietly(znodes.CONTROLLER, msgspec.json.encode(content))
    cluster.start()
    assert (cluster.is_active, cluster.is_stopped) == (is_replaced, not is_replaced)
    assert cluster.zookeeper.is_live(session)


def test_unreadable_controller_znode_of_another_session_counts_as_another_controller() -> None:
    cluster = Cluster(1)
    session = cluster.take_role(3000)
    cluster.put_quietly(znodes.CONTROLLER, b"no controller")
    seen = cluster.seen()
    cluster.start()
    assert (cluster.is_active, seen.notices(), seen.broker_requests()) == (False, [], [])
    cluster.leave_role(session)
    assert cluster.is_active


def test_under_kafka_rules_the_role_is_taken_from_another_broker_with_take_over() -> None:
    cluster = Cluster(1, rules="kafka", take_over=True)
    cluster.take_role(1)
    cluster.start()
    assert (cluster.controller(), cluster.is_active) == (DAEMON, True)


def test_late_report_of_a_deletion_does_not_begin_another_failover() -> None:
    cluster = Cluster(1).start()
    seen = cluster.seen()
    cluster.happen(WatchFired(znodes.CONTROLLER, "deleted", -1), "watches")
    assert (seen.writes(), seen.broker_requests(), cluster.epoch()) == ([], [], 1)


def test_controller_whose_znode_is_deleted_resigns_before_it_is_elected_again() -> None:
    cluster = Cluster(1).start()
    seen = cluster.seen()
    cluster.remove(znodes.CONTROLLER)
    assert (cluster.is_active, cluster.epoch()) == (True, 2)
    assert seen.channels() == ["close channel to 1", "open channel to 1"]


def test_persistent_controller_znode_stops_the_daemon() -> None:
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


def test_fencing_during_a_failover_ends_the_term() -> None:
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


def test_fencing_keeps_earlier_writes() -> None:
    """KB 1.3.4: the first leader of one topic is created, and the next election is fenced."""
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


def test_state_written_by_a_later_controller_is_not_changed() -> None:
    """KB 13.3.2: a replaced controller that has not been notified changes nothing."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    later = b'{"version":1,"leader":1,"leader_epoch":3,"controller_epoch":9,"isr":[1,2]}'
    cluster.put(znodes.state_path("t", 0), later)
    seen = cluster.seen()
    cluster.stop_broker(1)
    assert cluster.data(znodes.state_path("t", 0)) == later
    assert ("no_leader_elected", "t-0") in seen.notices()


def test_failed_failover_resigns_the_role(failing_failovers: FailingFailovers) -> None:
    cluster = Cluster(1)
    seen = cluster.seen()
    cluster.start()
    assert ("failover_failed", znodes.CONTROLLER) in seen.notices()
    assert Delete(znodes.CONTROLLER, ANY_VERSION) in seen.writes()
    assert (cluster.controller(), cluster.is_active) == (None, False)
    failing_failovers.fails = False
    cluster.fire(BACK_OFF_TIMER)
    assert (cluster.epoch(), cluster.is_active) == (2, True)
