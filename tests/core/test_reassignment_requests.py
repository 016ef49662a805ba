"""What is asked for and what it is answered: the API, the znode, lists (KB 7.2 to 7.6, 11.6)."""

from collections.abc import Callable, Sequence

import pytest

from controller.core import error_codes as codes
from controller.core import request_znodes, znodes
from controller.core.commands import (
    AnswerAlterPartitionReassignments,
    AnswerControlledShutdown,
    AnswerElectLeaders,
    AnswerListPartitionReassignments,
    PartitionAnswer,
    ReadStats,
    WriteZnodes,
)
from controller.core.errors import ZnodeError
from controller.core.events import (
    AlterPartitionReassignmentsReceived,
    ApiRequest,
    ControlledShutdownReceived,
    ElectLeadersReceived,
    ListPartitionReassignmentsReceived,
    ReassignmentTarget,
)
from replay.world.simulation import Fate
from tests.core.cluster import DAEMON, Cluster, by_rule, reads, writes, writes_state
from tests.core.endpoint import answers, call, controlled_shutdown
from tests.core.reassigning import (
    T0,
    ask,
    assignment,
    cancel,
    catch_up,
    cluster_of,
    listed,
    put_request,
    put_request_quietly,
    reassign,
    reassigning,
    request,
    request_json,
)

UNKNOWN = ("nobody", 0)
T1 = ("t", 1)


# The API ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "target", "error", "message"),
    [
        (T0, [], codes.INVALID_REPLICA_ASSIGNMENT, "The replica list is empty."),
        (T0, [-1, -1], codes.INVALID_REPLICA_ASSIGNMENT, "A replica is named twice: [-1, -1]."),
        (T0, [99, -2], codes.INVALID_REPLICA_ASSIGNMENT, "A broker id is negative: [99, -2]."),
        (
            T0,
            [99, 3],
            codes.INVALID_REPLICA_ASSIGNMENT,
            "These brokers are not alive: [99]; alive are [1, 2, 3].",
        ),
        (
            UNKNOWN,
            [99],
            codes.INVALID_REPLICA_ASSIGNMENT,
            "These brokers are not alive: [99]; alive are [1, 2, 3].",
        ),
        (UNKNOWN, [], codes.INVALID_REPLICA_ASSIGNMENT, "The replica list is empty."),
        (UNKNOWN, [1], codes.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."),
        (T1, [1], codes.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."),
        (T0, None, codes.NO_REASSIGNMENT_IN_PROGRESS, ""),
        (UNKNOWN, None, codes.NO_REASSIGNMENT_IN_PROGRESS, ""),
    ],
)
def test_targets_are_judged_in_kafkas_order(
    name: tuple[str, int], target: Sequence[int] | None, error: int, message: str
) -> None:
    """KB 7.3 steps 2 and 3: the list itself, then who lives, then whether it exists."""
    cluster = cluster_of(3, 1, 2)
    seen = cluster.seen()
    answer = ask(cluster, (name, target))
    assert answer.partitions == (PartitionAnswer(*name, error, message),)
    assert seen.written() == []
    assert assignment(cluster) == "1,2"


def test_a_broker_that_shuts_down_is_no_target() -> None:
    cluster = cluster_of(3, 1, 2)
    controlled_shutdown(cluster, 3)
    assert reassign(cluster, 3, 1) == codes.INVALID_REPLICA_ASSIGNMENT
    assert reassign(cluster, 2, 1) == codes.NONE


def test_replicas_of_before_need_not_live() -> None:
    cluster = cluster_of(3, 1, 2)
    cluster.stop_broker(2)
    assert reassign(cluster, 2, 3) == codes.NONE
    assert assignment(cluster) == "2,3,1 adding 3 removing 1"


def test_the_daemon_is_no_target() -> None:
    cluster = cluster_of(3, 1, 2)
    answer = ask(cluster, (T0, [1, DAEMON]))
    [one] = answer.partitions
    assert one.error == codes.INVALID_REPLICA_ASSIGNMENT
    assert one.message == "Broker 1000 is the controller, which holds no replicas."
    assert assignment(cluster) == "1,2"


def test_each_partition_is_answered_for_itself_in_the_order_of_the_request() -> None:
    cluster = cluster_of(3, 1, 2)
    answer = ask(cluster, (UNKNOWN, [1]), (T0, [1, 3]), (T1, None))
    assert [(one.topic, one.partition, one.error) for one in answer.partitions] == [
        ("nobody", 0, codes.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 0, codes.NONE),
        ("t", 1, codes.NO_REASSIGNMENT_IN_PROGRESS),
    ]
    assert assignment(cluster) == "1,3,2 adding 3 removing 2"


@pytest.mark.parametrize(
    ("targets", "error", "after"),
    [
        ([[99], [1, 3]], codes.NONE, "1,3,2 adding 3 removing 2"),
        ([[1, 3], [99]], codes.INVALID_REPLICA_ASSIGNMENT, "1,2"),
        ([[1, 3], [3, 2]], codes.NONE, "3,2,1 adding 3 removing 1"),
    ],
)
def test_of_a_partition_that_is_named_twice_the_last_target_counts(
    targets: list[list[int]], error: int, after: str
) -> None:
    cluster = cluster_of(3, 1, 2)
    answer = ask(cluster, *((T0, target) for target in targets))
    assert [one.error for one in answer.partitions] == [error]
    assert assignment(cluster) == after


def test_a_standby_is_no_controller() -> None:
    cluster = cluster_of(3, 1, 2)
    cluster.seize_role(9)
    cluster.run()
    answer = ask(cluster, (T0, [3]))
    assert (answer.error, answer.partitions) == (codes.NOT_CONTROLLER, ())
    asked = ListPartitionReassignmentsReceived(77, 0, None)
    assert call(cluster, asked).error == codes.NOT_CONTROLLER


def test_a_partition_that_fails_does_not_hold_up_the_others() -> None:
    """KB 7.4: steps already done stay done."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2], 1: [2, 3]})
    cluster.remove_quietly(znodes.state_path("t", 0))
    seen = cluster.seen()
    answer = ask(cluster, (T0, [3]), (T1, [1]))
    assert [one.error for one in answer.partitions] == [codes.UNKNOWN_SERVER_ERROR, codes.NONE]
    assert assignment(cluster) == "3,1,2 adding 3 removing 1,2"
    assert assignment(cluster, T1) == "1,2,3 adding 1 removing 2,3"
    assert [code for code, _ in seen.notices()] == [
        "leader_epoch_not_raised",
        "reassignment_failed",
    ]


def test_a_topic_that_was_deleted_by_hand_is_an_error_of_its_partition() -> None:
    cluster = cluster_of(3, 1, 2)
    cluster.once(
        writes(znodes.topic_path("t")), lambda: cluster.remove_quietly(znodes.topic_path("t"))
    )
    assert reassign(cluster, 3) == codes.UNKNOWN_SERVER_ERROR
    assert reassigning(cluster) == []


def test_a_state_that_a_later_controller_wrote_fails_the_reassignment() -> None:
    cluster = cluster_of(3, 1, 2)
    state = b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":9,"isr":[1,2]}'
    cluster.put(znodes.state_path("t", 0), state)
    assert reassign(cluster, 3) == codes.UNKNOWN_SERVER_ERROR


def test_a_state_that_the_leader_wrote_meanwhile_is_read_again() -> None:
    """KB 7.7, A1: a version that does not fit goes round."""
    cluster = cluster_of(3, 1, 2)
    cluster.once(writes_state("t", 0), lambda: cluster.set_isr("t", 0, [1]))
    assert reassign(cluster, 3, 1) == codes.NONE
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1] v 2 ce 1"


# Lists ------------------------------------------------------------------------------------------


def test_lists_name_what_is_under_way_only() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("u", {0: [1], 1: [1], 2: [2]})
    cluster.create_topic("t", {0: [1, 2]})
    ask(cluster, (("u", 1), [3]), (("u", 0), [2]), (T0, [2, 1]))
    both = {("u", 0): "2,1 adding 2 removing 1", ("u", 1): "3,1 adding 3 removing 1"}
    assert listed(cluster) == both
    assert list(listed(cluster)) == [("u", 0), ("u", 1)]
    assert listed(cluster, ("u", 2), ("u", 1), UNKNOWN, ("u", 1)) == {("u", 1): both["u", 1]}
    assert listed(cluster, T0) == {}


# When the role ends -----------------------------------------------------------------------------


WAITING: list[tuple[Callable[[int], ApiRequest], object]] = [
    (
        lambda number: ElectLeadersReceived(number, 2, "preferred", [T0, T1]),
        AnswerElectLeaders(
            1,
            codes.NOT_CONTROLLER,
            (
                PartitionAnswer(*T0, codes.NOT_CONTROLLER),
                PartitionAnswer(*T1, codes.NOT_CONTROLLER),
            ),
        ),
    ),
    (
        lambda number: ControlledShutdownReceived(number, 3, 1, 1),
        AnswerControlledShutdown(2, codes.STALE_CONTROLLER_EPOCH),
    ),
    (
        lambda number: AlterPartitionReassignmentsReceived(
            number, 0, [ReassignmentTarget(*T0, (2,))]
        ),
        AnswerAlterPartitionReassignments(3, codes.NOT_CONTROLLER),
    ),
    (
        lambda number: ListPartitionReassignmentsReceived(number, 0, None),
        AnswerListPartitionReassignments(4, codes.NOT_CONTROLLER),
    ),
]


@pytest.mark.parametrize("end", ["asked to end", "session over"])
def test_CI_38_requests_that_wait_when_the_role_ends_are_answered(end: str) -> None:
    cluster = cluster_of(3, 1, 2)

    def wait() -> None:
        for number, (make, _) in enumerate(WAITING, 1):
            cluster.happen_next(make(number), "api:1")
        if end == "asked to end":
            cluster.ask_to_end()

    cluster.once(writes_state("t", 0), wait)
    if end == "session over":
        cluster.lose(writes_state("t", 0), Fate.SESSION_OVER)
    cluster.unregister(1)
    cluster.run()
    assert answers(cluster) == [answer for _, answer in WAITING]


def test_a_fenced_request_is_answered() -> None:
    """Admin tools look for another controller then."""
    cluster = cluster_of(3, 1, 2)
    cluster.once(writes(znodes.topic_path("t")), lambda: cluster.seize_role(9))
    answer = ask(cluster, (T0, [3]))
    assert (answer.error, answer.partitions) == (codes.NOT_CONTROLLER, ())
    assert not cluster.is_active


# The znode --------------------------------------------------------------------------------------


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
    """R22: two writers of the request."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1], 1: [1]})
    put_request(cluster, {T0: [2]})
    path = znodes.REASSIGN_PARTITIONS

    both = request_json({T0: [2], T1: [3]})
    cluster.once(writes(znodes.REASSIGN_PARTITIONS), lambda: cluster.put_quietly(path, both))
    catch_up(cluster, 2)
    assert request(cluster) == {T1: (3,)}
    assert assignment(cluster, T1) == "3,1 adding 3 removing 1"


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
    assert request_znodes.write_reassignments(entries) == text
    assert request_znodes.read_reassignments(text) == entries


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
        request_znodes.read_reassignments(data)
