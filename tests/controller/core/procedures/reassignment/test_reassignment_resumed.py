"""Interrupted reassignments are resumed: failover, lost replies, fencing (KB 7.9)."""

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import WriteZnodes
from controller.core.operations import SetData
from tests.controller.core.cluster import Cluster, at_write, by_rule, writes, writes_state
from tests.controller.core.endpoint import alter_partition, proposal
from tests.controller.core.procedures.reassignment.interrupting import interruptible, submit
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    ask,
    assert_no_failures,
    assignment,
    catch_up,
    cluster_of,
    elect_preferred,
    listed,
    put_request,
    put_request_quietly,
    reassign,
    reassigning,
    request,
)
from tests.controller.core.procedures.topics.deleting import left_of, mark, mark_quietly
from tests.controller.core.unreliable import Delivery

WRITES = 8
"""The writes of [1,2,3] to [4,5,6]: U1, A1, three of the leader, B3, B6, B7."""

UNDISTURBED = "leader 4 e 2 isr [4,5,6] v 5 ce 1"
MOVING = "4,5,6,1,2,3 adding 4,5,6 removing 1,2,3"


def move(cluster: Cluster) -> None:
    """Request [1,2,3] to [4,5,6] through the znode."""
    put_request(cluster, {T0: [4, 5, 6]})
    move_on(cluster)


def move_on(cluster: Cluster) -> None:
    """The leader adds one target after the other to the ISR while a controller is active."""
    for _ in range(5):
        isr = cluster.leadership("t", 0).isr
        lacking = [one for one in (4, 5, 6) if one not in isr]
        if lacking and cluster.is_active:
            ask_and_ignore_the_answer(cluster, *isr, lacking[0])


def ask_and_ignore_the_answer(cluster: Cluster, *isr: int) -> None:
    """The leader requests an ISR and ignores the response."""
    wanted = proposal(cluster, "t", 0, isr=isr)
    alter_partition(cluster, cluster.leadership("t", 0).leader, wanted)


def assert_moved(cluster: Cluster) -> None:
    state = cluster.leadership("t", 0)
    assert state.leader == 4
    assert sorted(state.isr) == [4, 5, 6]
    assert assignment(cluster) == "4,5,6"
    assert request(cluster) is None
    assert (listed(cluster), reassigning(cluster)) == ({}, [])
    for broker in (4, 5, 6):
        assert T0 in cluster.broker(broker).logs
    assert_no_failures(cluster)


def test_undisturbed_reassignment_completes() -> None:
    cluster = cluster_of(6, 1, 2, 3)
    seen = cluster.seen()
    move(cluster)
    assert_moved(cluster)
    assert cluster.state("t", 0) == UNDISTURBED
    assert len(seen.writes()) == WRITES


# Another controller at each write ---------------------------------------------------------------


@pytest.mark.parametrize("delivery", [Delivery.SESSION_OVER, Delivery.SESSION_OVER_AFTER])
@pytest.mark.parametrize("number", range(WRITES))
def test_session_that_ends_at_any_write_does_not_prevent_completion(
    number: int, delivery: Delivery
) -> None:
    """Before the write is carried out, or after."""
    cluster = cluster_of(6, 1, 2, 3)
    cluster.lose(at_write(number), delivery)
    move(cluster)
    assert cluster.epoch() == 2
    assert_moved(cluster)


@pytest.mark.parametrize("number", range(WRITES))
def test_another_controller_at_any_write_does_not_prevent_completion(number: int) -> None:
    """A stock broker takes the role, and the daemon's writes are fenced. Later the daemon is
    controller again."""
    cluster = cluster_of(6, 1, 2, 3)
    sessions: list[int] = []
    cluster.once(at_write(number), lambda: sessions.append(cluster.seize_role(9)))
    put_request(cluster, {T0: [4, 5, 6]})
    move_on(cluster)
    assert not cluster.is_active
    cluster.leave_role(*sessions)
    assert cluster.is_active
    move_on(cluster)
    assert_moved(cluster)


def test_fenced_controller_sends_no_requests() -> None:
    cluster = cluster_of(6, 1, 2, 3)
    cluster.once(writes_state("t", 0), lambda: cluster.seize_role(9))
    seen = cluster.seen()
    put_request(cluster, {T0: [4, 5, 6]})
    assert seen.broker_requests() == []
    assert cluster.version(znodes.state_path("t", 0)) == 0


def test_before_u1_failover_finds_the_request_znode() -> None:
    """KB 7.9.1."""
    before = cluster_of(3, 1)
    before.shut_down()
    put_request_quietly(before, {T0: [2]})
    cluster = Cluster(zookeeper=before.zookeeper).start()
    assert assignment(cluster) == "2,1 adding 2 removing 1"


def test_before_u1_api_request_is_lost_and_answered_with_an_error() -> None:
    cluster = cluster_of(3, 1)
    cluster.lose(writes(znodes.topic_path("t")), Delivery.SESSION_OVER)
    answer = ask(cluster, (T0, [2]))
    assert answer.error == codes.NOT_CONTROLLER
    assert assignment(cluster) == "1"


def test_after_u1_failover_resumes_from_the_topic_znode() -> None:
    """KB 7.9.2: an API request leaves no other znode."""
    cluster = cluster_of(3, 1)
    reassign(cluster, 2)
    seen = cluster.seen()
    cluster.expire()
    assert listed(cluster) == {T0: "2,1 adding 2 removing 1"}
    assert cluster.state("t", 0) == "leader 1 e 2 isr [1] v 2 ce 2"
    assert ("replica_state_refused", "t-0") not in seen.notices()
    catch_up(cluster, 2)
    assert cluster.state("t", 0) == "leader 2 e 3 isr [2] v 4 ce 2"


@pytest.mark.parametrize("rules", ["refold", "kafka"])
def test_failover_resumes_a_requested_reassignment_once(rules: str) -> None:
    """KB 6.2 step 11: the leader epoch rises by one, not by two."""
    cluster = cluster_of(3, 1, rules=rules)
    put_request(cluster, {T0: [2]})
    cluster.expire()
    assert cluster.state("t", 0) == "leader 1 e 2 isr [1] v 2 ce 2"


@pytest.mark.parametrize("rules", ["refold", "kafka"])
def test_request_changed_meanwhile_replaces_the_target_at_failover(rules: str) -> None:
    cluster = cluster_of(3, 1, rules=rules)
    put_request(cluster, {T0: [2]})
    put_request_quietly(cluster, {T0: [3]})
    cluster.expire()
    assert assignment(cluster) == "3,1 adding 3 removing 1"


def test_between_b2_and_b6_failover_repeats_the_completion() -> None:
    """KB 7.9.2: with additional leader epochs and the same result."""
    cluster = cluster_of(3, 1, 2, rules="kafka")
    reassign(cluster, 3)
    cluster.lose(by_rule(WriteZnodes, "remove 2 from ISR"), Delivery.SESSION_OVER_AFTER)
    ask_and_ignore_the_answer(cluster, 1, 2, 3)
    assert assignment(cluster) == "3"
    assert cluster.state("t", 0) == "leader 3 e 5 isr [3] v 6 ce 2"
    assert reassigning(cluster) == []


def test_after_b6_failover_only_removes_the_request() -> None:
    """KB 7.9.2: the reassignment runs again without changes."""
    cluster = cluster_of(3, 1)
    put_request(cluster, {T0: [2]})
    cluster.lose(writes(znodes.REASSIGN_PARTITIONS), Delivery.SESSION_OVER)
    ask_and_ignore_the_answer(cluster, 1, 2)
    assert request(cluster) is None
    assert assignment(cluster) == "2"
    assert cluster.state("t", 0) == "leader 2 e 3 isr [2] v 4 ce 2"


def test_target_that_caught_up_without_a_controller_completes_it() -> None:
    cluster = cluster_of(3, 1)
    reassign(cluster, 2)
    cluster.set_isr("t", 0, [1, 2])
    cluster.expire()
    assert assignment(cluster) == "2"
    assert cluster.leadership("t", 0).leader == 2


def test_R19_controller_and_target_that_start_together_complete_it() -> None:
    """A new controller that finds the target dead waits for it."""
    cluster = cluster_of(3, 1)
    reassign(cluster, 2)
    cluster.unregister(2)
    cluster.expire()
    assert listed(cluster) == {T0: "2,1 adding 2 removing 1"}
    cluster.start_broker(2)
    catch_up(cluster, 2)
    assert assignment(cluster) == "2"


def test_restarted_target_gets_its_requests_again() -> None:
    cluster = cluster_of(3, 1)
    reassign(cluster, 2)
    seen = cluster.seen()
    cluster.bounce(2)
    assert any(" new" in one for one in seen.requests(2))
    catch_up(cluster, 2)
    assert assignment(cluster) == "2"


@pytest.mark.parametrize("delivery", [Delivery.SESSION_OVER, Delivery.SESSION_OVER_AFTER])
@pytest.mark.parametrize(
    ("end", "number"),
    [*(("cancelled", one) for one in range(4)), *(("replaced", one) for one in range(3))],
)
def test_repeated_request_completes_after_the_session_ended_in_a_cancellation_or_replacement(
    end: str, number: int, delivery: Delivery
) -> None:
    """Race R24: the leader is one of the dropped replicas."""
    cluster = cluster_of(5, 1, 2)
    reassign(cluster, 3, 4)
    catch_up(cluster, 3)
    elect_preferred(cluster)
    cluster.lose(at_write(number), delivery)
    target, after = {
        "cancelled": (None, "1,2"),
        "replaced": ((5, 2), "5,2,1 adding 5 removing 1"),
    }[end]
    answer = ask(cluster, (T0, target))
    assert cluster.epoch() == 2
    assert answer.error == codes.NOT_CONTROLLER
    assert_leader_and_isr_fit(cluster)
    if assignment(cluster) != after:
        assert assignment(cluster) == "3,4,1,2 adding 3,4 removing 1,2"
        ask(cluster, (T0, target))
        assert_leader_and_isr_fit(cluster)
    assert assignment(cluster) == after
    assert_no_failures(cluster)


def assert_leader_and_isr_fit(cluster: Cluster) -> None:
    """The leader is in the ISR, and the ISR contains only replicas."""
    state = cluster.leadership("t", 0)
    assert state.leader in state.isr
    assert set(state.isr) <= set(cluster.partition("t", 0).replicas)


def test_under_kafka_rules_a_deletion_found_at_failover_waits_for_the_reassignment() -> None:
    """KB 7.7, B9; with refold's rule (deletion-ends-reassignment) it does not."""
    cluster = cluster_of(3, 1, rules="kafka")
    reassign(cluster, 2)
    mark_quietly(cluster, "t")
    cluster.expire()
    assert assignment(cluster) == "2,1 adding 2 removing 1"
    catch_up(cluster, 2)
    assert left_of(cluster, "t") == []


def test_CI_54_topic_id_is_kept_in_a_reassignment_under_an_older_protocol() -> None:
    cluster = Cluster(1, inter_broker_protocol_version="2.7")
    cluster.change_topic_quietly("t", {0: [1]})
    cluster.start()
    assert cluster.topic("t").topic_id is None

    def next_controller(before: Cluster, protocol: str) -> Cluster:
        before.shut_down()
        zookeeper = before.zookeeper
        return Cluster(zookeeper=zookeeper, inter_broker_protocol_version=protocol).start()

    cluster = next_controller(cluster, "3.9")
    topic_id = cluster.topic("t").topic_id
    assert topic_id is not None
    cluster = next_controller(cluster, "2.7")
    assert reassign(cluster, 1) == codes.NONE
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1] v 1 ce 3"
    assert cluster.topic("t").topic_id == topic_id
    cluster = next_controller(cluster, "3.9")
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1] v 1 ce 3"
    assert cluster.topic("t").topic_id == topic_id
    mark(cluster, "t")
    assert left_of(cluster, "t") == []
    assert topic_id not in cluster.fold.controller.context.topics_by_id


# Lost connections -------------------------------------------------------------------------------


@pytest.mark.parametrize("delivery", [Delivery.REPLY_LOST, Delivery.REQUEST_LOST])
@pytest.mark.parametrize("number", range(WRITES))
def test_write_with_a_lost_reply_does_not_change_the_outcome(
    number: int, delivery: Delivery
) -> None:
    cluster = cluster_of(6, 1, 2, 3)
    cluster.lose(at_write(number), delivery)
    move(cluster)
    assert_moved(cluster)
    assert cluster.state("t", 0) == UNDISTURBED
    assert cluster.epoch() == 1


@pytest.mark.deviates("reassignments-together")
def test_recorded_move_that_has_caught_up_in_part_is_not_begun_again_by_a_failover() -> None:
    """Its brokers are sent the assignment with the leader epoch that began it."""
    cluster = interruptible(4, 1, 2)
    submit(cluster, {T0: [3, 4]})
    catch_up(cluster, 3)
    before = cluster.leadership("t", 0)
    seen = cluster.seen()
    cluster.expire()
    assert cluster.leadership("t", 0) == before
    kinds = [one for broker in (3, 4) for one in seen.kinds(broker)]
    assert set(kinds) == {"LeaderAndIsr", "UpdateMetadata"}


def test_broker_that_returns_leads_before_its_reassignment_resumes() -> None:
    """KB 9.1 steps 5 and 6."""
    cluster = cluster_of(2, 1)
    reassign(cluster, 1, 2)
    cluster.stop_broker(1)
    seen = cluster.seen()
    cluster.start_broker(1)
    path = znodes.state_path("t", 0)
    states = [one for one in seen.writes() if isinstance(one, SetData) and one.path == path]
    assert [znodes.read_state(path, one.data, 0).leader for one in states] == [1, 1]
