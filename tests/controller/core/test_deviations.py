"""Deviations: the outcome by refold's rule and by Kafka's, deviation by deviation.

The deviations of reassignments, of deletions and of AlterPartition are tested with these.
"""

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests.alter_partition import AlterPartitionResponse
from controller.core.api_requests.controlled_shutdown import ControlledShutdownResponse
from controller.core.api_requests.elections import ElectLeadersResponse
from controller.core.api_requests.partition_result import PartitionResult
from controller.core.commands import (
    Issued,
    ReadStats,
    ReadZnodes,
    StartTimer,
    WriteAtomically,
    WriteZnodes,
)
from controller.core.events import SessionExpired
from controller.core.operations import Create, SetData
from controller.core.procedures.role.controller_election import BACK_OFF_TIMER
from controller.core.state_machines import PartitionState
from controller.core.values import ANY_VERSION
from tests.controller.core.cluster import DAEMON, Cluster, by_rule, writes_state
from tests.controller.core.conftest import FailingFailovers
from tests.controller.core.endpoint import alter_partition, controlled_shutdown, proposal
from tests.controller.core.procedures.elections.electing import (
    Election,
    answered,
    elect,
    is_requested,
    put_election,
    put_election_quietly,
)
from tests.controller.core.procedures.reassignment.reassigning import ask
from tests.controller.core.slow_sessions import (
    ZooKeeperWithSlowSessions,
    assert_elected,
    lose_the_session,
    owner,
)
from tests.controller.core.unreliable import Delivery

both_rules = pytest.mark.parametrize("rules", ["refold", "kafka"])
ELECTION = by_rule(WriteAtomically, "controller election")
T0, NEW = ("t", 0), ("new", 0)


# every-write-guarded ------------------------------------------------------------------------------


@both_rules
@pytest.mark.deviates("every-write-guarded")
def test_deposed_controller_does_not_write_the_features(rules: str) -> None:
    """Under both rules. Another controller was elected just before, and has written them itself."""
    cluster = Cluster(1, 2, rules=rules)
    features = b'{"version":1,"status":0,"features":{}}'
    cluster.put(znodes.FEATURE, features)
    cluster.once(
        by_rule(WriteZnodes, "failover: feature versioning"), lambda: cluster.seize_role(2)
    )
    cluster.start()
    assert cluster.data(znodes.FEATURE) == features
    assert (cluster.controller(), cluster.is_active) == (2, False)
    rules_used = [one.reason.rule for one in cluster.commands()]
    _, *later = rules_used[rules_used.index("failover: feature versioning") :]
    assert "failover" not in later


# unreadable-skipped -------------------------------------------------------------------------------


@both_rules
@pytest.mark.deviates("unreadable-skipped")
def test_unreadable_registration_is_skipped_by_failover_and_broker_change(rules: str) -> None:
    """Under both rules."""
    cluster = Cluster(1, rules=rules)
    cluster.put(znodes.broker_path(9), b"{")
    seen = cluster.seen()
    cluster.start()
    cluster.start_broker(2)
    assert cluster.is_active
    assert list(cluster.fold.controller.context.brokers) == [1, 2]
    assert seen.notices() == [("unreadable_znode", znodes.broker_path(9))] * 2


# role-by-session ----------------------------------------------------------------------------------


@both_rules
@pytest.mark.deviates("role-by-session")
def test_R15_controller_znode_of_the_last_session_is_replaced(rules: str) -> None:
    """By Kafka's rule the role stays vacant until the server ends the old session."""
    cluster = Cluster(1, 2, rules=rules).start()
    old = lose_the_session(cluster)
    if rules == "kafka":
        assert (cluster.controller(), owner(cluster)) == (DAEMON, old)
        assert not cluster.is_active
        cluster.zookeeper.end_session(old)
        cluster.run()
    assert_elected(cluster, 2)


@both_rules
@pytest.mark.deviates("role-by-session")
def test_R3_election_won_by_an_ended_session_is_repeated(rules: str) -> None:
    """The reply is lost, and the next session finds the /controller of the session before."""
    server = ZooKeeperWithSlowSessions.of_a_cluster()
    cluster = Cluster(1, 2, zookeeper=server, rules=rules)
    cluster.lose(ELECTION, Delivery.SESSION_OVER_AFTER)
    cluster.start()
    if rules == "kafka":
        assert (cluster.controller(), cluster.is_active) == (DAEMON, False)
        server.expire(owner(cluster))
        cluster.run()
    assert_elected(cluster, 2)


@both_rules
def test_R3_election_lost_with_the_session_is_repeated(rules: str) -> None:
    """The request was not carried out, so that the role is still free."""
    cluster = Cluster(1, 2, zookeeper=ZooKeeperWithSlowSessions.of_a_cluster(), rules=rules)
    cluster.lose(ELECTION, Delivery.SESSION_OVER)
    cluster.start()
    assert_elected(cluster, 1)


@both_rules
def test_R15_late_end_of_the_old_session_does_not_end_the_role(rules: str) -> None:
    cluster = Cluster(1, 2, rules=rules).start()
    old = lose_the_session(cluster)
    cluster.zookeeper.end_session(old)
    cluster.run()
    assert_elected(cluster, 2)


@both_rules
@pytest.mark.parametrize("take_over", [False, True])
def test_another_daemon_with_the_same_id_loses_the_role_only_to_a_take_over(
    rules: str, take_over: bool
) -> None:
    """The other daemon may be alive, so that the rules for a live controller apply."""
    cluster = Cluster(1, 2, rules=rules, take_over=take_over)
    session = cluster.take_role(DAEMON)
    cluster.start()
    assert cluster.is_active == (take_over and rules == "refold")
    cluster.leave_role(session)
    assert_elected(cluster, 2)


@both_rules
def test_stock_broker_that_was_elected_first_keeps_the_role(rules: str) -> None:
    cluster = Cluster(1, 2, rules=rules).start()
    old = cluster.session
    cluster.happen(SessionExpired(old), "session")
    cluster.zookeeper.end_session(old)
    cluster.take_role(2)
    cluster.connect()
    assert (cluster.controller(), cluster.epoch(), cluster.is_active) == (2, 2, False)


@both_rules
def test_persistent_controller_znode_with_the_daemons_id_stops_the_daemon(rules: str) -> None:
    """A migration to KRaft makes the znode persistent."""
    cluster = Cluster(1, rules=rules)
    cluster.put(znodes.CONTROLLER, znodes.write_controller(DAEMON, 1))
    cluster.start()
    assert cluster.is_stopped


# state-adopted ------------------------------------------------------------------------------------


@both_rules
@pytest.mark.deviates("state-adopted")
def test_repaired_topic_elects_leaders_from_its_stored_states(rules: str) -> None:
    """By Kafka's rule the partition has no leader until a failover."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [2, 1]})
    cluster.put(znodes.topic_path("t"), b"broken")
    cluster.shut_down()
    again = Cluster(zookeeper=cluster.zookeeper, rules=rules)
    again.connect()
    seen = again.seen()
    again.create_topic("t", {0: [2, 1]})
    if rules == "refold":
        assert again.state("t", 0) == "leader 2 e 1 isr [2,1] v 1 ce 2"
        assert again.partition("t", 0).state is PartitionState.ONLINE
        assert seen.kinds(1)[0] == seen.kinds(2)[0] == "LeaderAndIsr"
    else:
        assert again.state("t", 0) == "leader 2 e 0 isr [2,1] v 0 ce 1"
        assert again.partition("t", 0).state is PartitionState.NEW
        assert ("no_leader_created", "t-0") in seen.notices()


# failover-back-off --------------------------------------------------------------------------------


def back_offs(cluster: Cluster) -> list[StartTimer]:
    timers = [one.command for one in cluster.commands() if isinstance(one.command, StartTimer)]
    return [one for one in timers if one.timer == BACK_OFF_TIMER]


@pytest.mark.deviates("failover-back-off")
def test_failover_back_off_waits_a_second_before_the_next_election(
    failing_failovers: FailingFailovers,
) -> None:
    cluster = Cluster(1).start()
    assert failing_failovers.epochs == [1]
    assert cluster.controller() is None
    assert back_offs(cluster) == [StartTimer(BACK_OFF_TIMER, 1000)]
    cluster.fire(BACK_OFF_TIMER)
    assert failing_failovers.epochs == [1, 2]


def test_under_kafka_rules_the_next_election_follows_at_once() -> None:
    """A requested election of a partition without a first leader fails every failover."""
    cluster = with_a_new_partition("kafka")
    put_election_quietly(cluster, NEW)

    def stop_after_ten(issued: Issued) -> None:
        cluster.is_stopped = cluster.epoch() > 11

    cluster.before = stop_after_ten
    seen = cluster.seen()
    cluster.expire()
    assert seen.notices().count(("failover_failed", znodes.CONTROLLER)) == 10
    assert back_offs(cluster) == []


def test_stock_broker_takes_the_role_that_the_daemon_resigned(
    failing_failovers: FailingFailovers,
) -> None:
    cluster = Cluster(1).start()
    session = cluster.take_role(1)
    cluster.fire(BACK_OFF_TIMER)
    assert failing_failovers.epochs == [1]
    assert cluster.controller() == 1
    cluster.leave_role(session)
    assert failing_failovers.epochs == [1, 3]
    assert cluster.data(znodes.CONTROLLER) is None


def test_repaired_controller_epoch_allows_the_next_election() -> None:
    cluster = Cluster(1)
    cluster.ask(Create(znodes.CONTROLLER_EPOCH, b"garbage"))
    cluster.start()
    assert not cluster.is_active
    timers = [one.command for one in cluster.commands() if isinstance(one.command, StartTimer)]
    assert timers == [StartTimer(BACK_OFF_TIMER, 1000)]
    cluster.ask(SetData(znodes.CONTROLLER_EPOCH, b"90", ANY_VERSION))
    cluster.fire(BACK_OFF_TIMER)
    assert (cluster.is_active, cluster.epoch()) == (True, 91)


# leaderless-reported ------------------------------------------------------------------------------


def with_a_new_partition(rules: str) -> Cluster:
    """t-0 [2,1] is led by 1; new-0 is on broker 9, which was never registered."""
    cluster = Cluster(1, 2, rules=rules).start()
    cluster.create_topic("t", {0: [1, 2]})
    ask(cluster, (T0, (2, 1)))
    cluster.create_topic("new", {0: [9]})
    assert cluster.partition("new", 0).state is PartitionState.NEW
    return cluster


@both_rules
@pytest.mark.parametrize(
    ("election", "error"),
    [
        ("preferred", codes.PREFERRED_LEADER_NOT_AVAILABLE),
        ("unclean", codes.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ],
)
@pytest.mark.deviates("leaderless-reported")
def test_OB_12_election_request_with_a_leaderless_partition_is_answered(
    rules: str, election: Election, error: int
) -> None:
    """By Kafka's rule the request is not answered and no partition is elected."""
    cluster = with_a_new_partition(rules)
    answer = answered(cluster, election, NEW, T0)
    if rules == "kafka":
        refused = tuple(PartitionResult(*one, codes.UNKNOWN_SERVER_ERROR) for one in (NEW, T0))
        assert answer == ElectLeadersResponse(answer.request, codes.UNKNOWN_SERVER_ERROR, refused)
        assert cluster.leadership("t", 0).leader == 1
        return
    is_moved = election == "preferred"
    assert {one.topic: one.error for one in answer.partitions} == {
        "new": error,
        "t": codes.NONE if is_moved else codes.ELECTION_NOT_NEEDED,
    }
    assert answer.partitions[0].message == "It never had a leader."
    assert cluster.leadership("t", 0).leader == (2 if is_moved else 1)


@both_rules
def test_OB_12_election_of_all_partitions_omits_a_partition_that_never_had_a_leader(
    rules: str,
) -> None:
    """Kafka omits the partition as well, because brokers do not know it (KB 11.5)."""
    cluster = with_a_new_partition(rules)
    assert elect(cluster, "preferred") == {T0: codes.NONE}


@both_rules
@pytest.mark.deviates("leaderless-reported")
def test_OB_05_election_znode_with_a_leaderless_partition_is_carried_out(rules: str) -> None:
    cluster = with_a_new_partition(rules)
    seen = cluster.seen()
    put_election(cluster, NEW, T0)
    if rules == "kafka":
        assert seen.notices() == [("procedure_failed", "ReplicaLeaderElection")]
        assert is_requested(cluster)
        assert cluster.leadership("t", 0).leader == 1
        return
    assert seen.notices() == [("election_refused", "new-0")]
    assert not is_requested(cluster)
    assert cluster.leadership("t", 0).leader == 2


@both_rules
@pytest.mark.deviates("leaderless-reported")
def test_OB_05_failover_carries_out_an_election_znode_with_a_leaderless_partition(
    rules: str,
) -> None:
    """By Kafka's rule failovers fail until an operator deletes the request."""
    cluster = with_a_new_partition(rules)
    put_election_quietly(cluster, NEW, T0)

    def remove_after_ten(issued: Issued) -> None:
        command = issued.command
        if isinstance(command, ReadStats) and cluster.epoch() == 10 and is_requested(cluster):
            cluster.remove_quietly(znodes.PREFERRED_ELECTION)

    cluster.before = remove_after_ten
    cluster.expire()
    assert cluster.is_active
    assert cluster.epoch() == (2 if rules == "refold" else 10)
    assert not is_requested(cluster)
    assert cluster.leadership("t", 0).leader == (2 if rules == "refold" else 1)


def test_request_is_answered_once_if_the_session_ends_after_the_fencing_error() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    damage_epoch(cluster, "raised")
    seen = cluster.seen()
    # The daemon reads /controller after it has answered.
    cluster.lose(lambda issued: znodes.CONTROLLER in paths_read(issued), Delivery.SESSION_OVER)
    answer = controlled_shutdown(cluster, 1)
    assert answer.error == codes.STALE_CONTROLLER_EPOCH
    answers = [one for one in seen.commands if isinstance(one, ControlledShutdownResponse)]
    assert answers == [answer]


def paths_read(issued: Issued) -> tuple[str, ...]:
    command = issued.command
    return command.paths if isinstance(command, ReadZnodes | ReadStats) else ()


# resigns-when-fenced -------------------------------------------------------------------------


EPOCHS = {"raised": b"7", "lowered": b"0", "written again": b"1", "garbage": b"seven"}


def damage_epoch(cluster: Cluster, how: str) -> None:
    """Another client changes /controller_epoch and leaves /controller unchanged."""
    if how == "deleted":
        cluster.remove_quietly(znodes.CONTROLLER_EPOCH)
    else:
        cluster.put_quietly(znodes.CONTROLLER_EPOCH, EPOCHS[how])


@both_rules
@pytest.mark.parametrize(
    ("how", "epoch"), [("raised", 8), ("lowered", 2), ("written again", 2), ("deleted", 2)]
)
@pytest.mark.deviates("resigns-when-fenced")
def test_OB_15_changed_controller_epoch_leads_to_an_election_with_a_higher_epoch(
    rules: str, how: str, epoch: int
) -> None:
    """Brokers know epoch 1 and would reject a lower one. The next epoch is above both."""
    cluster = Cluster(1, 2, rules=rules).start()
    damage_epoch(cluster, how)
    seen = cluster.seen()
    cluster.create_topic("t", {0: [1, 2]})
    assert cluster.is_active
    if rules == "kafka":
        assert cluster.state("t", 0) is None
        assert seen.requested() == {}
        assert cluster.fold.term == 1
        return
    assert cluster.state("t", 0) == f"leader 1 e 0 isr [1,2] v 0 ce {epoch}"
    assert cluster.epoch() == epoch
    assert ("epoch_changed", znodes.CONTROLLER_EPOCH) in seen.notices()
    assert owner(cluster) == cluster.session


def test_OB_15_unreadable_controller_epoch_ends_the_role_until_it_is_repaired() -> None:
    cluster = Cluster(1, 2).start()
    damage_epoch(cluster, "garbage")
    cluster.create_topic("t", {0: [1, 2]})
    assert not cluster.is_active
    cluster.fire(BACK_OFF_TIMER)
    cluster.put(znodes.CONTROLLER_EPOCH, b"0")
    cluster.fire(BACK_OFF_TIMER)
    assert (cluster.is_active, cluster.epoch()) == (True, 2)
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1,2] v 0 ce 2"


@both_rules
@pytest.mark.deviates("resigns-when-fenced")
def test_OB_15_alter_partition_is_answered_and_its_retry_succeeds(rules: str) -> None:
    cluster = Cluster(1, 2, rules=rules).start()
    cluster.create_topic("t", {0: [1, 2]})
    damage_epoch(cluster, "raised")
    shrunk = {"isr": (1,)}
    answer = alter_partition(cluster, 1, proposal(cluster, "t", 0, **shrunk))
    assert answer == AlterPartitionResponse(answer.request, codes.UNKNOWN_SERVER_ERROR)
    assert cluster.is_active
    again = alter_partition(cluster, 1, proposal(cluster, "t", 0, **shrunk))
    assert again.error == (codes.NONE if rules == "refold" else codes.UNKNOWN_SERVER_ERROR)
    assert cluster.leadership("t", 0).isr == ((1,) if rules == "refold" else (1, 2))


@both_rules
@pytest.mark.deviates("resigns-when-fenced")
def test_OB_15_controlled_shutdown_is_answered_and_its_retry_succeeds(rules: str) -> None:
    cluster = Cluster(1, 2, rules=rules).start()
    cluster.create_topic("t", {0: [1, 2]})
    damage_epoch(cluster, "raised")
    answer = controlled_shutdown(cluster, 1)
    assert answer == ControlledShutdownResponse(answer.request, codes.STALE_CONTROLLER_EPOCH)
    again = controlled_shutdown(cluster, 1)
    expected = codes.NONE if rules == "refold" else codes.STALE_CONTROLLER_EPOCH
    assert (again.error, again.remaining) == (expected, ())
    assert cluster.leadership("t", 0).leader == (2 if rules == "refold" else 1)


@both_rules
def test_OB_15_controller_epoch_changed_during_a_failover_repeats_the_failover(rules: str) -> None:
    """By Kafka's rule the controller is active after half of the failover."""
    cluster = Cluster(1, 2, rules=rules)
    cluster.change_topic_quietly("t", {0: [1, 2]})
    cluster.once(writes_state("t", 0), lambda: damage_epoch(cluster, "raised"))
    seen = cluster.seen()
    cluster.start()
    assert cluster.is_active
    assert bool(seen.texts_of("failover_done")) == (rules == "refold")
    state = "leader 1 e 0 isr [1,2] v 0 ce 8" if rules == "refold" else None
    assert cluster.state("t", 0) == state


@both_rules
def test_replaced_controller_becomes_a_standby(rules: str) -> None:
    """The epoch has changed because another controller was elected."""
    cluster = Cluster(1, 2, rules=rules).start()
    cluster.once(writes_state("t", 0), lambda: cluster.seize_role(2))
    cluster.create_topic("t", {0: [1, 2]})
    assert (cluster.controller(), cluster.epoch(), cluster.is_active) == (2, 2, False)


# Notices ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "is_reported"), [("2.6", True), ("2.7", False), ("3.9", False)]
)
def test_protocol_version_on_the_other_side_of_2_7_is_reported_once_per_broker(
    protocol: str, is_reported: bool
) -> None:
    """The simulated brokers register as brokers of 2.7 and later do."""
    cluster = Cluster(1, inter_broker_protocol_version=protocol)
    seen = cluster.seen()
    cluster.start()
    cluster.start_broker(2)
    announced = [subject for code, subject in seen.notices() if code == "protocol_mismatch"]
    assert announced == ([znodes.broker_path(1), znodes.broker_path(2)] if is_reported else [])
