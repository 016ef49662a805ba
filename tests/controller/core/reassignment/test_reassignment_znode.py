"""/admin/reassign_partitions: what is asked there, what is left of it (KB 7.2, 7.6)."""

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import ReadStats, WriteZnodes
from controller.core.errors import ZnodeError
from controller.core.znodes import Entry
from tests.controller.core.cluster import DAEMON, Cluster, by_rule, reads, writes, writes_state
from tests.controller.core.reassignment.reassigning import (
    T0,
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

UNKNOWN = ("nobody", 0)
T1 = ("t", 1)


def test_CI_29_a_controller_that_was_replaced_begins_no_reassignment() -> None:
    cluster = cluster_of(3, 1)
    put_request_quietly(cluster, {T0: [1]})
    cluster.seize_role(9)
    seen = cluster.seen()
    cluster.run()
    assert not cluster.is_active
    assert seen.broker_requests() == []
    assert request(cluster) == {T0: (1,)}
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1] v 0 ce 1"


def test_CI_29_a_controller_that_is_replaced_meanwhile_stops_where_it_is() -> None:
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


def test_no_target_of_the_znode_is_judged() -> None:
    """KB 7.2 step 3: dead brokers are waited for, duplicates are made distinct."""
    cluster = cluster_of(3, 1, 2)
    put_request(cluster, {T0: [3, 99, 3]})
    assert assignment(cluster) == "3,99,1,2 adding 3,99 removing 1,2"


def test_entries_that_fail_are_dropped_and_the_others_go_on() -> None:
    """KB 7.9.6."""
    cluster = cluster_of(3, 1, 2)
    seen = cluster.seen()
    put_request(cluster, {UNKNOWN: [1], T0: [3], T1: [2]})
    assert request(cluster) == {T0: (3,)}
    assert seen.notices() == [
        ("reassignment_refused", "nobody-0"),
        ("reassignment_refused", "t-1"),
    ]
    assert assignment(cluster) == "3,1,2 adding 3 removing 1,2"


def test_a_request_of_which_nothing_is_left_goes_and_the_next_one_is_seen() -> None:
    """KB 7.6.1."""
    cluster = cluster_of(3, 1, 2)
    put_request(cluster, {UNKNOWN: [1]})
    assert request(cluster) is None
    put_request(cluster, {T0: [3]})
    assert assignment(cluster) == "3,1,2 adding 3 removing 1,2"


def test_the_daemon_is_no_target_of_the_znode() -> None:
    cluster = cluster_of(3, 1, 2)
    seen = cluster.seen()
    put_request(cluster, {T0: [1, DAEMON]})
    assert request(cluster) is None
    assert assignment(cluster) == "1,2"
    assert seen.texts() == [
        "its entry is dropped: Broker 1000 is the controller, which holds no replicas."
    ]


@pytest.mark.parametrize("rules", ["refold", "kafka"])
def test_the_daemon_is_no_target_under_any_rules(rules: str) -> None:
    cluster = cluster_of(3, 1, 2, rules=rules)
    assert reassign(cluster, DAEMON) == codes.INVALID_REPLICA_ASSIGNMENT
    put_request(cluster, {T0: [DAEMON]})
    assert assignment(cluster) == "1,2"


def test_entries_go_one_by_one_as_their_partitions_are_done() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1], 1: [1]})
    put_request(cluster, {T0: [2], T1: [3]})
    catch_up(cluster, 3, name=T1)
    assert request(cluster) == {T0: (2,)}
    catch_up(cluster, 2)
    assert request(cluster) is None


def test_an_entry_with_another_list_stays_and_is_begun_then() -> None:
    """KB 7.6.3: it was written while the last steps of another target were taken."""
    cluster = cluster_of(3, 1)
    reassign(cluster, 2)
    cluster.once(
        by_rule(WriteZnodes, "remove 1 from ISR"), lambda: put_request_quietly(cluster, {T0: [3]})
    )
    catch_up(cluster, 2)
    assert request(cluster) == {T0: (3,)}
    assert assignment(cluster) == "3,2 adding 3 removing 2"


def test_the_api_wins_over_an_earlier_request_of_the_znode() -> None:
    """KB 7.8.5; other entries go on."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1], 1: [1]})
    put_request(cluster, {T0: [2], T1: [3]})
    assert reassign(cluster, 3) == codes.NONE
    assert request(cluster) == {T1: (3,)}
    assert assignment(cluster) == "3,1 adding 3 removing 1"
    assert assignment(cluster, T1) == "3,1 adding 3 removing 1"


def test_a_refused_request_of_the_api_leaves_the_znodes_as_it_is() -> None:
    cluster = cluster_of(3, 1)
    put_request(cluster, {T0: [2]})
    seen = cluster.seen()
    assert reassign(cluster, 99) == codes.INVALID_REPLICA_ASSIGNMENT
    assert request(cluster) == {T0: (2,)}
    assert seen.written() == []


@pytest.mark.parametrize("rules", ["refold", "kafka"])
def test_after_its_end_the_next_request_is_watched_for(rules: str) -> None:
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
def test_after_a_deletion_by_hand_the_next_end_looks_for_the_next_request(rules: str) -> None:
    """KB 7.6.1: looking for entries to take out sets the watch that the deletion has used up, on
    servers whose watches fire once."""
    cluster = cluster_of(3, 1, rules=rules)
    put_request(cluster, {T0: [2]})
    cluster.remove(znodes.REASSIGN_PARTITIONS)
    seen = cluster.seen()
    catch_up(cluster, 2)
    assert ReadStats((znodes.REASSIGN_PARTITIONS,), watch=True) in seen.commands
    put_request(cluster, {T0: [3]})
    assert assignment(cluster) == "3,2 adding 3 removing 2"


def test_cancelling_takes_the_entry_out() -> None:
    cluster = cluster_of(3, 1)
    put_request(cluster, {T0: [2]})
    assert cancel(cluster) == codes.NONE
    assert request(cluster) is None
    assert assignment(cluster) == "1"


def test_the_znode_wins_over_an_earlier_request_of_the_api() -> None:
    cluster = cluster_of(3, 1)
    reassign(cluster, 2)
    put_request(cluster, {T0: [3]})
    assert assignment(cluster) == "3,1 adding 3 removing 1"
    catch_up(cluster, 3)
    assert assignment(cluster) == "3"
    assert request(cluster) is None


def test_a_request_that_vanishes_before_it_is_read_is_nothing() -> None:
    cluster = cluster_of(3, 1)
    path = znodes.REASSIGN_PARTITIONS
    put_request_quietly(cluster, {T0: [2]})
    looks = iter([False, True])
    cluster.once(
        lambda issued: reads(path)(issued) and next(looks), lambda: cluster.remove_quietly(path)
    )
    cluster.run()
    assert assignment(cluster) == "1"
    put_request(cluster, {T0: [2]})
    assert assignment(cluster) == "2,1 adding 2 removing 1"


# What others do meanwhile -----------------------------------------------------------------------


@pytest.mark.parametrize(("rules", "left"), [("refold", None), ("kafka", {T1: (3,)})])
def test_a_request_that_is_withdrawn_meanwhile(
    rules: str, left: dict[tuple[str, int], tuple[int, ...]] | None
) -> None:
    """Kafka makes the znode anew with what was left of it (KB 7.6.1)."""
    cluster = Cluster(1, 2, 3, rules=rules).start()
    cluster.create_topic("t", {0: [1], 1: [1]})
    put_request(cluster, {T0: [2], T1: [3]})
    path = znodes.REASSIGN_PARTITIONS

    cluster.once(writes(znodes.REASSIGN_PARTITIONS), lambda: cluster.remove_quietly(path))
    catch_up(cluster, 2)
    assert request(cluster) == left


def test_an_entry_that_is_written_meanwhile_is_kept_and_handled() -> None:
    """Race R22: two writers of the request."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1], 1: [1]})
    put_request(cluster, {T0: [2]})
    path = znodes.REASSIGN_PARTITIONS

    both = request_json({T0: [2], T1: [3]})
    cluster.once(writes(znodes.REASSIGN_PARTITIONS), lambda: cluster.put_quietly(path, both))
    catch_up(cluster, 2)
    assert request(cluster) == {T1: (3,)}
    assert assignment(cluster, T1) == "3,1 adding 3 removing 1"
    assert cluster.state("t", 0) == "leader 2 e 3 isr [2] v 4 ce 1", "done once"


def test_a_refused_entry_that_is_rewritten_meanwhile_is_handled() -> None:
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


# Its content ------------------------------------------------------------------------------------


def test_SU_43_the_request_as_kafka_writes_it() -> None:
    """Keys in the order of Kafka's case classes (KB 1.2 item 6)."""
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
def test_SU_43_a_request_that_cannot_be_read(data: bytes | None) -> None:
    with pytest.raises(ZnodeError, match=znodes.REASSIGN_PARTITIONS):
        znodes.read_reassignments(data)
