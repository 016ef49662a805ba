"""Deviations in reassignments: the outcomes by refold's rule and by Kafka's."""

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.commands import ReadStats, WriteZnodes
from controller.core.state_machines import PartitionState
from tests.controller.core.cluster import Cluster, by_rule, writes
from tests.controller.core.endpoint import call, next_request
from tests.controller.core.procedures.reassignment.dropping import stopped
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    ask,
    assignment,
    cancel,
    catch_up,
    cluster_of,
    elect_preferred,
    listed,
    put_request,
    reassign,
    reassigning,
    request,
    request_json,
)
from tests.controller.core.unreliable import Delivery

PATH = znodes.REASSIGN_PARTITIONS
both_rules = pytest.mark.parametrize("rules", ["refold", "kafka"])


def on_one_broker(rules: str) -> Cluster:
    """t-0 and t-1 on broker 1 of three."""
    cluster = Cluster(1, 2, 3, rules=rules).start()
    cluster.create_topic("t", {0: [1], 1: [1]})
    return cluster


# request-changes-seen ---------------------------------------------------------------------------


@both_rules
@pytest.mark.deviates("request-changes-seen")
def test_R22_entries_written_into_the_request_later_start(rules: str) -> None:
    cluster = on_one_broker(rules)
    put_request(cluster, {T0: [2]})
    put_request(cluster, {T0: [2], T1: [3]})
    catch_up(cluster, 2)
    assert assignment(cluster) == "2"
    if rules == "refold":
        assert assignment(cluster, T1) == "3,1 adding 3 removing 1"
        catch_up(cluster, 3, name=T1)
        assert request(cluster) is None
    else:
        assert assignment(cluster, T1) == "1"
        assert request(cluster) == {T1: (3,)}


def test_R22_reassignment_under_way_is_not_restarted_by_another_entry() -> None:
    cluster = on_one_broker("refold")
    put_request(cluster, {T0: [2]})
    put_request(cluster, {T0: [2], T1: [3]})
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1] v 1 ce 1"
    put_request(cluster, {T0: [3], T1: [3]})
    assert assignment(cluster) == "3,1 adding 3 removing 1"
    assert cluster.state("t", 1) == "leader 1 e 1 isr [1] v 1 ce 1"


@both_rules
@pytest.mark.deviates("request-changes-seen")
def test_R22_request_that_names_a_replica_twice_is_removed_when_complete(rules: str) -> None:
    cluster = on_one_broker(rules)
    put_request(cluster, {T0: [2, 2]})
    catch_up(cluster, 2)
    assert assignment(cluster) == "2"
    assert request(cluster) == (None if rules == "refold" else {T0: (2, 2)})


@both_rules
def test_R22_request_deleted_by_a_client_is_watched_for_again(rules: str) -> None:
    """With one-shot watches, the controller would not notice the next request."""
    cluster = on_one_broker(rules)
    put_request(cluster, {T0: [2]})
    seen = cluster.seen()
    cluster.remove(PATH)
    looks = [ReadStats((PATH,), watch=True)] if rules == "refold" else []
    assert seen.commands == looks
    assert assignment(cluster) == "2,1 adding 2 removing 1"


@both_rules
@pytest.mark.deviates("request-changes-seen")
def test_R22_request_without_entries_does_not_hide_a_later_one(rules: str) -> None:
    cluster = on_one_broker(rules)
    put_request(cluster, {})
    assert request(cluster) == (None if rules == "refold" else {})
    put_request(cluster, {T1: [3]})
    began = assignment(cluster, T1) == "3,1 adding 3 removing 1"
    assert began is (rules == "refold")


@both_rules
@pytest.mark.deviates("request-changes-seen")
def test_R22_write_between_the_read_and_the_write_back_is_kept(rules: str) -> None:
    cluster = on_one_broker(rules)
    put_request(cluster, {T0: [2]})

    both = request_json({T0: [2], T1: [3]})
    cluster.once(writes(PATH), lambda: cluster.put_quietly(PATH, both))
    catch_up(cluster, 2)
    assert request(cluster) == ({T1: (3,)} if rules == "refold" else None)


# unreadable-request-kept ------------------------------------------------------------------------


@both_rules
@pytest.mark.deviates("unreadable-request-kept")
def test_OB_03_unreadable_request_is_kept(rules: str) -> None:
    cluster = on_one_broker(rules)
    reassign(cluster, 2)
    seen = cluster.seen()
    cluster.put(PATH, b"{broken")
    assert cluster.data(PATH) == b"{broken"
    assert seen.notices() == [("unreadable_znode", PATH)]
    catch_up(cluster, 2)
    assert assignment(cluster) == "2"
    assert cluster.data(PATH) == (b"{broken" if rules == "refold" else None)


@both_rules
def test_OB_03_request_made_unreadable_later_is_kept(rules: str) -> None:
    cluster = on_one_broker(rules)
    put_request(cluster, {T0: [2]})
    cluster.put(PATH, b"{broken")
    catch_up(cluster, 2)
    assert assignment(cluster) == "2"
    assert cluster.data(PATH) == (b"{broken" if rules == "refold" else None)


def test_OB_03_repaired_request_is_carried_out() -> None:
    cluster = on_one_broker("refold")
    cluster.put(PATH, b"{broken")
    put_request(cluster, {T0: [2]})
    assert assignment(cluster) == "2,1 adding 2 removing 1"


# empty-target-refused ---------------------------------------------------------------------------


@both_rules
@pytest.mark.deviates("empty-target-refused")
def test_OB_04_empty_target_is_refused(rules: str) -> None:
    cluster = cluster_of(3, 2, 3, rules=rules)
    seen = cluster.seen()
    put_request(cluster, {T0: []})
    assert request(cluster) is None
    expected = "2,3" if rules == "refold" else "2,3 removing 2,3"
    assert assignment(cluster) == expected
    if rules == "refold":
        assert seen.texts() == [
            "the entry is removed from /admin/reassign_partitions: The replica list is empty."
        ]
        cluster.expire()
        assert cluster.is_active
    else:
        assert ("reassignment_failed", "t-0") in seen.notices()


@pytest.mark.parametrize("rules", ["refold", "kafka"])
@pytest.mark.deviates("empty-target-refused")
def test_OB_04_empty_target_found_at_failover_is_refused(rules: str) -> None:
    cluster = Cluster(1, 2, 3, rules=rules)
    cluster.change_topic_quietly("t", {0: [2, 3]}, removing_replicas={"0": [2, 3]})
    epochs: list[int] = []

    def stop_after_five(issued: object) -> None:
        if cluster.epoch() not in epochs:
            epochs.append(cluster.epoch())
        cluster.is_stopped = cluster.epoch() == 5

    cluster.before = stop_after_five
    seen = cluster.seen()
    cluster.start()
    if rules == "refold":
        assert (cluster.is_active, epochs[-1]) == (True, 1)
        assert seen.notices() == [("reassignment_cancelled", "t-0")]
        assert assignment(cluster) == "2,3"
        assert cluster.leadership("t", 0).leader == 2
        assert reassigning(cluster) == []
    else:
        assert epochs[-5:] == [1, 2, 3, 4, 5]


# leader-moved-first -----------------------------------------------------------------------------


def led_by_an_added_replica(rules: str) -> Cluster:
    """t-0 [1,2] moves to [3,99]. Broker 3 is in sync and leads."""
    cluster = cluster_of(4, 1, 2, rules=rules)
    put_request(cluster, {T0: [3, 99]})
    catch_up(cluster, 3)
    elect_preferred(cluster)
    assert cluster.state("t", 0) == "leader 3 e 2 isr [1,2,3] v 3 ce 1"
    return cluster


@both_rules
@pytest.mark.deviates("leader-moved-first")
def test_OB_06_leading_added_replica_is_replaced_before_another_target_drops_it(rules: str) -> None:
    cluster = led_by_an_added_replica(rules)
    assert reassign(cluster, 4, 1) == codes.NONE
    assert assignment(cluster) == "4,1,2 adding 4 removing 2"
    assert cluster.partition("t", 0).state is PartitionState.ONLINE
    if rules == "refold":
        assert cluster.state("t", 0) == "leader 1 e 4 isr [1,2] v 5 ce 1"
        catch_up(cluster, 4)
        assert cluster.state("t", 0) == "leader 1 e 5 isr [1,4] v 7 ce 1"
    else:
        assert cluster.state("t", 0) == "leader -1 e 4 isr [1,2] v 5 ce 1"
        unclean = ElectLeadersReceived(next_request(cluster), 2, "unclean", [T0])
        assert [one.error for one in call(cluster, unclean).partitions] == [codes.NONE]
        assert cluster.state("t", 0) == "leader 1 e 5 isr [1,2] v 6 ce 1"
        catch_up(cluster, 4)
        assert cluster.state("t", 0) == "leader 1 e 7 isr [1,4] v 9 ce 1"
    assert assignment(cluster) == "4,1"


@both_rules
@pytest.mark.deviates("leader-moved-first")
def test_OB_07_leading_added_replica_is_replaced_before_it_is_cancelled(rules: str) -> None:
    cluster = led_by_an_added_replica(rules)
    leaders: list[int] = []
    cluster.before = lambda issued: leaders.append(cluster.leadership("t", 0).leader)
    assert cancel(cluster) == codes.NONE
    assert assignment(cluster) == "1,2"
    assert request(cluster) is None
    assert cluster.state("t", 0) == "leader 1 e 4 isr [1,2] v 5 ce 1"
    assert (-1 in leaders) is (rules == "kafka")


def test_R24_kept_replica_of_the_new_target_is_elected_first() -> None:
    cluster = cluster_of(5, 1, 2)
    reassign(cluster, 3, 4, 5)
    catch_up(cluster, 4, 3)
    elect_preferred(cluster)
    reassign(cluster, 4, 2)
    assert cluster.state("t", 0) == "leader 4 e 4 isr [2,4] v 6 ce 1"


def only_added_replicas_in_sync(rules: str) -> Cluster:
    """t-0 [1] moves to [2,3]. Broker 1 died; 2 alone is in sync and leads."""
    cluster = cluster_of(4, 1, rules=rules)
    reassign(cluster, 2, 3)
    catch_up(cluster, 2)
    cluster.stop_broker(1)
    assert cluster.state("t", 0) == "leader 2 e 2 isr [2] v 3 ce 1"
    return cluster


@both_rules
@pytest.mark.deviates("leader-moved-first")
def test_R24_only_replica_in_sync_is_not_dropped(rules: str) -> None:
    """Kafka deletes the last copy of acknowledged records."""
    cluster = only_added_replicas_in_sync(rules)
    error = cancel(cluster)
    if rules == "refold":
        assert error == codes.INVALID_REPLICA_ASSIGNMENT
        assert cluster.state("t", 0) == "leader 2 e 2 isr [2] v 3 ce 1"
        assert assignment(cluster) == "2,3,1 adding 2,3 removing 1"
        assert T0 in cluster.broker(2).logs
    else:
        assert error == codes.NONE
        assert cluster.leadership("t", 0).leader == -1
        assert assignment(cluster) == "1"
        assert T0 not in cluster.broker(2).logs


def test_R24_another_target_with_the_only_replica_in_sync_is_accepted() -> None:
    cluster = only_added_replicas_in_sync("refold")
    answer = ask(cluster, (T0, [4]))
    assert answer.partitions[0].message == "Every replica in sync would be dropped."
    assert reassign(cluster, 4, 2) == codes.NONE
    catch_up(cluster, 4)
    assert assignment(cluster) == "4,2"


@both_rules
def test_R24_controller_that_fails_while_replicas_are_dropped_leaves_a_leader_in_the_assignment(
    rules: str,
) -> None:
    """Kafka's next controller does not know of 3, which leads outside of the assignment."""
    cluster = led_by_an_added_replica(rules)
    lost = {
        "refold": writes(znodes.topic_path("t")),
        "kafka": by_rule(WriteZnodes, "remove 3 from ISR"),
    }
    cluster.lose(lost[rules], Delivery.SESSION_OVER)
    assert ask(cluster, (T0, None)).error == codes.NOT_CONTROLLER
    state = cluster.leadership("t", 0)
    if rules == "refold":
        assert state.isr == (1, 2)
        assert assignment(cluster) == "3,99,1,2 adding 3,99 removing 1,2"
        assert listed(cluster) == {T0: "3,99,1,2 adding 3,99 removing 1,2"}
    else:
        assert assignment(cluster) == "1,2"
        assert (state.leader, state.isr) == (3, (1, 2, 3))
        assert listed(cluster) == {}


@both_rules
def test_R24_offline_replica_that_could_lead_is_waited_for(rules: str) -> None:
    """The partition is offline, not online without a leader."""
    cluster = cluster_of(4, 1, 4, inter_broker_protocol_version="2.6", rules=rules)
    reassign(cluster, 2, 3)
    cluster.set_isr("t", 0, [1, 2])
    cluster.run()
    cluster.stop_broker(4)
    elect_preferred(cluster)
    cluster.unregister(1)
    cluster.run()
    cluster.set_isr("t", 0, [1, 2])
    cancel(cluster)
    assert cluster.leadership("t", 0).leader == -1
    state = cluster.partition("t", 0).state
    assert state is (PartitionState.OFFLINE if rules == "refold" else PartitionState.ONLINE)
    cluster.start_broker(1)
    assert cluster.leadership("t", 0).leader == (1 if rules == "refold" else -1)


# `resume-errors-reported` -------------------------------------------------------------------------


def waiting_for_its_first_leader(rules: str) -> Cluster:
    """t-0 moves from broker 8 to 9, both dead: it never had a leader. u-0 moves, too."""
    cluster = Cluster(1, 2, rules=rules).start()
    cluster.create_topic("t", {0: [8]})
    cluster.create_topic("u", {0: [1]})
    put_request(cluster, {T0: [9], ("u", 0): [2, 7]})
    assert assignment(cluster) == "9,8 adding 9 removing 8"
    return cluster


@both_rules
@pytest.mark.deviates("resume-errors-reported")
def test_R23_failover_reports_a_reassignment_that_cannot_be_resumed(rules: str) -> None:
    cluster = waiting_for_its_first_leader(rules)

    def stop_after_five(issued: object) -> None:
        cluster.is_stopped = cluster.epoch() == 5

    cluster.before = stop_after_five
    seen = cluster.seen()
    cluster.expire()
    if rules == "refold":
        assert cluster.is_active
        assert ("reassignment_failed", "t-0") in seen.notices()
        assert cluster.leadership("u", 0).leader_epoch == 2
        cluster.start_broker(9)
        assert cluster.state("t", 0) == "leader 9 e 1 isr [9] v 1 ce 2"
        assert assignment(cluster) == "9"
        assert list(listed(cluster)) == [("u", 0)]
    else:
        assert cluster.is_stopped, "failover follows failover"
        assert ("failover_failed", znodes.CONTROLLER) in seen.notices()


@both_rules
@pytest.mark.deviates("resume-errors-reported")
def test_R23_start_of_a_target_reports_a_reassignment_that_cannot_be_resumed(rules: str) -> None:
    """The state znode of t-0 is deleted. u-0 waits for the same broker."""
    cluster = Cluster(1, 2, 3, rules=rules).start()
    cluster.create_topic("t", {0: [1]})
    cluster.create_topic("u", {0: [1]})
    cluster.stop_broker(3)
    put_request(cluster, {T0: [3], ("u", 0): [3]})
    cluster.remove(znodes.state_path("t", 0))
    seen = cluster.seen()
    cluster.start_broker(3)
    raised = cluster.leadership("u", 0).leader_epoch == 2
    assert raised is (rules == "refold")
    failed = ("procedure_failed", "BrokerChange") in seen.notices()
    assert failed is (rules == "kafka")


@pytest.mark.parametrize(
    ("content", "fails"),
    [
        (b'{"version":1}', True),
        (b'{"version":1,"partitions":null}', True),
        (b"null", True),
        (b"{broken", False),
        (b"", False),
    ],
)
def test_stock_controller_fails_on_a_request_without_partitions(
    content: bytes, fails: bool
) -> None:
    """Kafka fails with a null pointer exception. The daemon does not, by either rule."""

    def announced(**settings: bool) -> list[tuple[str, str]]:
        cluster = cluster_of(3, 1, rules="kafka", **settings)
        seen = cluster.seen()
        cluster.put(PATH, content)
        return seen.notices()

    assert announced() == [("unreadable_znode", PATH)]
    assert (announced(is_broker=True) != announced()) is fails


# added-without-state ----------------------------------------------------------------------------


@both_rules
@pytest.mark.deviates("added-without-state")
def test_replica_added_before_the_partition_had_a_state_is_deleted_by_a_later_move(
    rules: str,
) -> None:
    """Found by refold explore."""
    cluster = Cluster(1, 2, 3, rules=rules).start()
    cluster.stop_broker(1)
    cluster.create_topic("t", {0: [1]})
    assert cluster.state("t", 0) is None
    put_request(cluster, {T0: [1, 2]})
    cluster.start_broker(1)
    assert assignment(cluster) == "1,2"
    seen = cluster.seen()
    reassign(cluster, 1, 3)
    catch_up(cluster, 3)
    assert assignment(cluster) == "1,3"
    refused = [code for code, _ in seen.notices()]
    if rules == "refold":
        assert stopped(seen, 2) == [T0]
        assert not refused
    else:
        assert stopped(seen, 2) == []
        assert set(refused) == {"replica_state_refused"}
