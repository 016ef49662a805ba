"""/admin/reassign_partitions: requests and their remaining entries (KB 7.2, 7.6)."""

import itertools

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import Issued, ReadStats, ReadZnodes
from controller.core.errors import ZnodeError
from controller.core.znodes import Entry
from tests.controller.core.cluster import DAEMON, Cluster, reads, writes, writes_state
from tests.controller.core.procedures.reassignment.interrupting import WriteRejectingCluster
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    assert_no_failures,
    assignment,
    cancel,
    catch_up,
    cluster_of,
    put_request,
    put_request_quietly,
    reassign,
    request,
    request_json,
)

UNKNOWN = ("missing", 0)
PATH = znodes.REASSIGN_PARTITIONS


def test_CI_29_replaced_controller_starts_no_reassignment() -> None:
    cluster = cluster_of(3, 1)
    put_request_quietly(cluster, {T0: [1]})
    cluster.seize_role(9)
    seen = cluster.seen()
    cluster.run()
    assert not cluster.is_active
    assert seen.broker_requests() == []
    assert request(cluster) == {T0: (1,)}
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1] v 0 ce 1"


def test_CI_29_controller_replaced_during_a_reassignment_stops() -> None:
    cluster = cluster_of(3, 1)
    put_request_quietly(cluster, {T0: [1]})
    cluster.once(writes_state("t", 0), lambda: cluster.seize_role(9))
    seen = cluster.seen()
    cluster.run()
    assert not cluster.is_active
    assert seen.broker_requests() == []
    assert request(cluster) == {T0: (1,)}
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1] v 0 ce 1"
    assert_no_failures(cluster)


def test_targets_of_the_znode_are_not_validated() -> None:
    """KB 7.2 step 3: dead brokers are waited for, and duplicates are removed."""
    cluster = cluster_of(3, 1, 2)
    put_request(cluster, {T0: [3, 99, 3]})
    assert assignment(cluster) == "3,99,1,2 adding 3,99 removing 1,2"


def test_failed_entries_are_dropped_and_the_others_start() -> None:
    """KB 7.9.6."""
    cluster = cluster_of(3, 1, 2)
    seen = cluster.seen()
    put_request(cluster, {UNKNOWN: [1], T0: [3], T1: [2]})
    assert request(cluster) == {T0: (3,)}
    assert seen.notices() == [
        ("reassignment_refused", "missing-0"),
        ("reassignment_refused", "t-1"),
    ]
    assert assignment(cluster) == "3,1,2 adding 3 removing 1,2"


def test_request_without_remaining_entries_is_deleted_and_the_next_one_noticed() -> None:
    """KB 7.6.1."""
    cluster = cluster_of(3, 1, 2)
    put_request(cluster, {UNKNOWN: [1]})
    assert request(cluster) is None
    put_request(cluster, {T0: [3]})
    assert assignment(cluster) == "3,1,2 adding 3 removing 1,2"


def test_entry_with_the_daemon_as_target_is_dropped() -> None:
    cluster = cluster_of(3, 1, 2)
    seen = cluster.seen()
    put_request(cluster, {T0: [1, DAEMON]})
    assert request(cluster) is None
    assert assignment(cluster) == "1,2"
    assert seen.texts() == [
        "the entry is removed from /admin/reassign_partitions: Broker 1000 is the controller, "
        "which holds no replicas."
    ]


def test_entry_whose_assignment_cannot_be_written_is_dropped_with_the_error_code() -> None:
    cluster = WriteRejectingCluster(1, 2, 3)
    cluster.start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.refuses = writes(znodes.topic_path("t"))
    seen = cluster.seen()
    put_request(cluster, {T0: [3]})
    assert seen.texts_of("reassignment_refused") == [
        "the entry is removed from /admin/reassign_partitions: error code -1"
    ]


@pytest.mark.parametrize("rules", ["refold", "kafka"])
def test_daemon_as_target_is_refused_under_both_rules(rules: str) -> None:
    cluster = cluster_of(3, 1, 2, rules=rules)
    assert reassign(cluster, DAEMON) == codes.INVALID_REPLICA_ASSIGNMENT
    put_request(cluster, {T0: [DAEMON]})
    assert assignment(cluster) == "1,2"


@pytest.mark.parametrize("rules", ["refold", "kafka"])
def test_entries_are_removed_one_by_one_as_partitions_complete(rules: str) -> None:
    cluster = Cluster(1, 2, 3, rules=rules).start()
    cluster.create_topic("t", {0: [1], 1: [1]})
    put_request(cluster, {T0: [2], T1: [3]})
    catch_up(cluster, 3, name=T1)
    assert request(cluster) == {T0: (2,)}
    catch_up(cluster, 2)
    assert request(cluster) is None
    assert_no_failures(cluster)


@pytest.mark.parametrize("rules", ["refold", "kafka"])
def test_entry_with_another_target_is_kept_and_started_afterwards(rules: str) -> None:
    """KB 7.6.3: it was written during the last steps towards the former target."""
    cluster = cluster_of(3, 1, rules=rules)
    reassign(cluster, 2)
    cluster.once(writes(znodes.topic_path("t")), lambda: put_request_quietly(cluster, {T0: [3]}))
    catch_up(cluster, 2)
    assert request(cluster) == {T0: (3,)}
    assert assignment(cluster) == "3,2 adding 3 removing 2"


def test_api_request_replaces_an_earlier_entry() -> None:
    """KB 7.8.5. Other entries continue."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1], 1: [1]})
    put_request(cluster, {T0: [2], T1: [3]})
    assert reassign(cluster, 3) == codes.NONE
    assert request(cluster) == {T1: (3,)}
    assert assignment(cluster) == "3,1 adding 3 removing 1"
    assert assignment(cluster, T1) == "3,1 adding 3 removing 1"


def test_refused_api_request_does_not_change_the_znodes_reassignment() -> None:
    cluster = cluster_of(3, 1)
    put_request(cluster, {T0: [2]})
    seen = cluster.seen()
    assert reassign(cluster, 99) == codes.INVALID_REPLICA_ASSIGNMENT
    assert request(cluster) == {T0: (2,)}
    assert seen.written() == []


@pytest.mark.parametrize("rules", ["refold", "kafka"])
def test_znode_is_watched_again_after_completion(rules: str) -> None:
    """KB 7.6.1."""
    cluster = cluster_of(3, 1, rules=rules)
    put_request(cluster, {T0: [2]})
    seen = cluster.seen()
    catch_up(cluster, 2)
    assert request(cluster) is None
    assert ReadStats((znodes.REASSIGN_PARTITIONS,), watch=True) in seen.commands
    put_request(cluster, {T0: [3]})
    assert assignment(cluster) == "3,2 adding 3 removing 2"


@pytest.mark.parametrize("rules", ["refold", "kafka"])
def test_znode_deleted_by_a_client_is_watched_again_at_the_next_completion(rules: str) -> None:
    """KB 7.6.1: the removal of entries sets the watch again, which the deletion used up on
    servers with one-shot watches."""
    cluster = cluster_of(3, 1, rules=rules)
    put_request(cluster, {T0: [2]})
    cluster.remove(znodes.REASSIGN_PARTITIONS)
    seen = cluster.seen()
    catch_up(cluster, 2)
    assert ReadStats((znodes.REASSIGN_PARTITIONS,), watch=True) in seen.commands
    put_request(cluster, {T0: [3]})
    assert assignment(cluster) == "3,2 adding 3 removing 2"


def test_cancellation_removes_the_entry() -> None:
    cluster = cluster_of(3, 1)
    put_request(cluster, {T0: [2]})
    assert cancel(cluster) == codes.NONE
    assert request(cluster) is None
    assert assignment(cluster) == "1"


def test_entry_replaces_an_earlier_api_request() -> None:
    cluster = cluster_of(3, 1)
    reassign(cluster, 2)
    put_request(cluster, {T0: [3]})
    assert assignment(cluster) == "3,1 adding 3 removing 1"
    catch_up(cluster, 3)
    assert assignment(cluster) == "3"
    assert request(cluster) is None


def test_request_deleted_before_it_is_read_has_no_effect() -> None:
    cluster = cluster_of(3, 1)
    path = znodes.REASSIGN_PARTITIONS
    put_request_quietly(cluster, {T0: [2]})
    looks = iter([False, True])
    cluster.once(
        lambda issued: reads(path)(issued) and next(looks), lambda: cluster.remove_quietly(path)
    )
    seen = cluster.seen()
    cluster.run()
    assert (assignment(cluster), seen.notices()) == ("1", [])
    put_request(cluster, {T0: [2]})
    assert assignment(cluster) == "2,1 adding 2 removing 1"


@pytest.mark.parametrize(("rules", "epoch"), [("refold", 1), ("kafka", 2)])
def test_entry_with_the_target_under_way_begins_again_only_by_kafkas_rule(
    rules: str, epoch: int
) -> None:
    cluster = cluster_of(3, 1, 2, rules=rules)
    assert reassign(cluster, 3) == codes.NONE
    put_request(cluster, {T0: [3]})
    assert cluster.leadership("t", 0).leader_epoch == epoch
    assert assignment(cluster) == "3,1,2 adding 3 removing 1,2"


def test_move_whose_entry_a_failover_refuses_is_resumed() -> None:
    cluster = cluster_of(3, 1, 2)
    assert reassign(cluster, 3) == codes.NONE
    put_request_quietly(cluster, {T0: []})
    cluster.expire()
    assert cluster.leadership("t", 0).leader_epoch == 2
    catch_up(cluster, 3)
    assert (assignment(cluster), request(cluster)) == ("3", None)


# Concurrent writes of clients -------------------------------------------------------------------


@pytest.mark.parametrize(("rules", "left"), [("refold", None), ("kafka", {T1: (3,)})])
def test_request_deleted_meanwhile_is_created_again_only_by_kafkas_rule(
    rules: str, left: dict[tuple[str, int], tuple[int, ...]] | None
) -> None:
    """Kafka creates the znode again with the remaining entries (KB 7.6.1)."""
    cluster = Cluster(1, 2, 3, rules=rules).start()
    cluster.create_topic("t", {0: [1], 1: [1]})
    put_request(cluster, {T0: [2], T1: [3]})
    path = znodes.REASSIGN_PARTITIONS

    cluster.once(writes(znodes.REASSIGN_PARTITIONS), lambda: cluster.remove_quietly(path))
    catch_up(cluster, 2)
    assert request(cluster) == left
    assert_no_failures(cluster)


@pytest.mark.parametrize("rules", ["refold", "kafka"])
def test_request_deleted_while_it_is_read_at_completion_is_not_written(rules: str) -> None:
    cluster = cluster_of(3, 1, rules=rules)
    put_request(cluster, {T0: [2]})
    cluster.once(
        lambda issued: isinstance(issued.command, ReadZnodes) and reads(PATH)(issued),
        lambda: cluster.remove_quietly(PATH),
    )
    seen = cluster.seen()
    catch_up(cluster, 2)
    assert (assignment(cluster), request(cluster)) == ("2", None)
    assert PATH not in seen.written()
    assert_no_failures(cluster)


def test_entry_written_meanwhile_is_kept_and_started() -> None:
    """Race R22: two clients write the request."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1], 1: [1]})
    put_request(cluster, {T0: [2]})
    path = znodes.REASSIGN_PARTITIONS

    both = request_json({T0: [2], T1: [3]})
    cluster.once(writes(znodes.REASSIGN_PARTITIONS), lambda: cluster.put_quietly(path, both))
    catch_up(cluster, 2)
    assert request(cluster) == {T1: (3,)}
    assert assignment(cluster, T1) == "3,1 adding 3 removing 1"
    assert cluster.state("t", 0) == "leader 2 e 2 isr [2] v 3 ce 1", "done once"


def test_refused_entry_rewritten_meanwhile_is_started() -> None:
    cluster = cluster_of(3, 1)
    path = znodes.REASSIGN_PARTITIONS
    put_request_quietly(cluster, {T0: [DAEMON]})
    looks = iter([False, False, True])
    cluster.once(
        lambda issued: reads(path)(issued) and next(looks),
        lambda: put_request_quietly(cluster, {T0: [2]}),
    )
    cluster.run()
    assert assignment(cluster) == "2,1 adding 2 removing 1"
    assert request(cluster) == {T0: (2,)}


# Content ----------------------------------------------------------------------------------------


def test_refused_entry_with_another_target_meanwhile_is_removed_by_kafkas_rule() -> None:
    cluster = cluster_of(3, 1, 2, rules="kafka")
    put_request_quietly(cluster, {UNKNOWN: [1]})
    number = itertools.count()

    def reads_entries_again(issued: Issued) -> bool:
        is_read = isinstance(issued.command, ReadZnodes) and reads(PATH)(issued)
        return is_read and next(number) == 1

    cluster.once(reads_entries_again, lambda: put_request_quietly(cluster, {UNKNOWN: [2]}))
    cluster.run()
    assert request(cluster) is None


def test_SU_43_request_is_written_as_kafka_writes_it() -> None:
    """Keys are in the order of Kafka's case classes (KB 1.2 item 6)."""
    text = (
        b'{"version":1,"partitions":[{"topic":"foo","partition":0,"replicas":[1,2]},'
        b'{"topic":"bar","partition":3,"replicas":[]}]}'
    )
    entries = {("foo", 0): (1, 2), ("bar", 3): ()}
    assert znodes.write_entries({name: Entry(one) for name, one in entries.items()}) == text
    assert znodes.read_reassignments(text) == entries


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"{}",
        b'{"version":1}',
        b'{"version":1,"partitions":[{"topic":"t","partition":0}]}',
        b'{"version":1,"partitions":[{"topic":"t","partition":"0","replicas":[1]}]}',
    ],
)
def test_SU_43_unreadable_request_is_an_error(data: bytes | None) -> None:
    with pytest.raises(ZnodeError, match=znodes.REASSIGN_PARTITIONS):
        znodes.read_reassignments(data)
