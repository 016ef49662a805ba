"""Reassignment requests by the API and their responses (KB 7.3, 7.4, 11.6)."""

from collections.abc import Callable, Sequence

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests import ApiRequest
from controller.core.api_requests.controlled_shutdown import (
    ControlledShutdownReceived,
    ControlledShutdownResponse,
)
from controller.core.api_requests.elections import ElectLeadersReceived, ElectLeadersResponse
from controller.core.api_requests.partition_result import PartitionResult
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsReceived,
    ListPartitionReassignmentsResponse,
    ReassignmentTarget,
)
from tests.controller.core.cluster import DAEMON, Cluster, writes, writes_state
from tests.controller.core.endpoint import answers, call, controlled_shutdown
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    ask,
    assignment,
    cluster_of,
    listed,
    put_request,
    reassign,
    reassigning,
)
from tests.controller.core.procedures.topics.deleting import mark
from tests.controller.core.unreliable import Delivery

UNKNOWN = ("missing", 0)
T1, T4 = ("t", 1), ("t", 4)
_EMPTY = "Empty replica list specified in partition reassignment."


# The API ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "target", "error", "message"),
    [
        (T0, [], codes.INVALID_REPLICA_ASSIGNMENT, _EMPTY),
        (
            T0,
            [-1, -1],
            codes.INVALID_REPLICA_ASSIGNMENT,
            "Duplicate replica ids in partition reassignment replica list: ArrayBuffer(-1, -1)",
        ),
        (
            T0,
            [99, -2],
            codes.INVALID_REPLICA_ASSIGNMENT,
            "Invalid broker id in replica list: ArrayBuffer(99, -2)",
        ),
        (
            T0,
            [99, 1, 3],
            codes.INVALID_REPLICA_ASSIGNMENT,
            "Replica assignment has brokers that are not alive. Replica list: ArrayBuffer(99, 3), "
            "live broker list: Set(1, 2, 3)",
        ),
        (
            UNKNOWN,
            [99],
            codes.INVALID_REPLICA_ASSIGNMENT,
            "Replica assignment has brokers that are not alive. Replica list: ArrayBuffer(99), "
            "live broker list: Set(1, 2, 3)",
        ),
        (UNKNOWN, [], codes.INVALID_REPLICA_ASSIGNMENT, _EMPTY),
        (UNKNOWN, [1], codes.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."),
        (T4, [1], codes.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."),
        (T0, None, codes.NO_REASSIGNMENT_IN_PROGRESS, ""),
        (UNKNOWN, None, codes.NO_REASSIGNMENT_IN_PROGRESS, ""),
    ],
    ids=[
        "empty",
        "negative and twice",
        "negative and dead",
        "dead",
        "unknown topic and dead",
        "unknown topic and empty",
        "unknown topic",
        "unknown partition",
        "nothing to cancel",
        "unknown topic to cancel",
    ],
)
def test_SU_28_targets_are_validated_in_kafkas_order(
    name: tuple[str, int], target: Sequence[int] | None, error: int, message: str
) -> None:
    """KB 7.3 steps 2 and 3: the list, then whether its brokers are alive, then whether the
    partition exists."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {number: [1, 2] for number in range(4)})
    seen = cluster.seen()
    answer = ask(cluster, (name, target))
    assert answer.partitions == (PartitionResult(*name, error, message),)
    assert seen.written() == []
    assert assignment(cluster) == "1,2"


def test_more_than_four_live_brokers_are_printed_as_another_scala_set() -> None:
    for brokers, printed in ((4, "Set(1, 2, 3, 4)"), (5, "HashSet(1, 2, 3, 4, 5)")):
        cluster = cluster_of(brokers, 1, 2)
        announced = ask(cluster, (T0, [99])).partitions[0].message
        assert announced.endswith(f"live broker list: {printed}")


def test_deleted_partitions_are_unknown() -> None:
    """A tool has deleted the znodes of u, and t waits for the deletion of a replica."""
    cluster = Cluster(1, 2, 3).start()
    for topic in ("t", "u"):
        cluster.create_topic(topic, {0: [1, 2]})
    cluster.remove_topic_znodes("u")
    cluster.stop_broker(2)
    mark(cluster, "t")
    seen = cluster.seen()
    answer = ask(cluster, (T0, [1, 3]), (("u", 0), [1, 3]))
    assert [one.error for one in answer.partitions] == [codes.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert seen.written() == []


def test_broker_0_is_accepted_as_a_target() -> None:
    cluster = Cluster(0, 1, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1], 1: [1]})
    assert reassign(cluster, 0) == codes.NONE
    put_request(cluster, {T1: [0]})
    moving = "0,1 adding 0 removing 1"
    assert [assignment(cluster, name) for name in (T0, T1)] == [moving] * 2


def test_broker_in_controlled_shutdown_is_rejected_as_a_target() -> None:
    cluster = cluster_of(3, 1, 2)
    controlled_shutdown(cluster, 3)
    assert reassign(cluster, 3, 1) == codes.INVALID_REPLICA_ASSIGNMENT
    assert reassign(cluster, 2, 1) == codes.NONE


def test_replicas_kept_from_before_may_be_dead() -> None:
    cluster = cluster_of(3, 1, 2)
    cluster.stop_broker(2)
    assert reassign(cluster, 2, 3) == codes.NONE
    assert assignment(cluster) == "2,3,1 adding 3 removing 1"


def test_daemon_is_rejected_as_a_target() -> None:
    cluster = cluster_of(3, 1, 2)
    answer = ask(cluster, (T0, [1, DAEMON]))
    [one] = answer.partitions
    assert one.error == codes.INVALID_REPLICA_ASSIGNMENT
    assert one.message == "Broker 1000 is the controller, which holds no replicas."
    assert assignment(cluster) == "1,2"


def test_each_partition_has_its_own_answer_in_the_order_of_the_request() -> None:
    cluster = cluster_of(3, 1, 2)
    answer = ask(cluster, (UNKNOWN, [1]), (T0, [1, 3]), (T1, None))
    assert [(one.topic, one.partition, one.error) for one in answer.partitions] == [
        ("missing", 0, codes.UNKNOWN_TOPIC_OR_PARTITION),
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
def test_last_target_of_a_partition_named_twice_is_used(
    targets: list[list[int]], error: int, after: str
) -> None:
    cluster = cluster_of(3, 1, 2)
    answer = ask(cluster, *((T0, target) for target in targets))
    assert [one.error for one in answer.partitions] == [error]
    assert assignment(cluster) == after


def test_standby_answers_not_controller() -> None:
    cluster = cluster_of(3, 1, 2)
    cluster.seize_role(9)
    cluster.run()
    answer = ask(cluster, (T0, [3]))
    assert (answer.error, answer.partitions) == (codes.NOT_CONTROLLER, ())
    asked = ListPartitionReassignmentsReceived(77, 0, None)
    assert call(cluster, asked).error == codes.NOT_CONTROLLER


def test_failed_partition_does_not_stop_the_others() -> None:
    """KB 7.4: completed steps are not reverted."""
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


def test_deleted_topic_znode_is_an_error_of_its_partition() -> None:
    cluster = cluster_of(3, 1, 2)
    cluster.once(
        writes(znodes.topic_path("t")), lambda: cluster.remove_quietly(znodes.topic_path("t"))
    )
    assert reassign(cluster, 3) == codes.UNKNOWN_SERVER_ERROR
    assert reassigning(cluster) == []


def test_state_written_by_a_later_controller_fails_the_reassignment() -> None:
    cluster = cluster_of(3, 1, 2)
    state = b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":9,"isr":[1,2]}'
    cluster.put(znodes.state_path("t", 0), state)
    assert reassign(cluster, 3) == codes.UNKNOWN_SERVER_ERROR


def test_state_written_by_the_leader_meanwhile_is_read_again() -> None:
    """KB 7.7, A1: a wrong version is retried."""
    cluster = cluster_of(3, 1, 2)
    cluster.once(writes_state("t", 0), lambda: cluster.set_isr("t", 0, [1]))
    assert reassign(cluster, 3, 1) == codes.NONE
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1] v 2 ce 1"


# Lists ------------------------------------------------------------------------------------------


def test_SU_29_listing_contains_only_reassignments_under_way() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("u", {0: [1], 1: [1], 2: [2]})
    cluster.create_topic("t", {0: [1, 2]})
    ask(cluster, (("u", 1), [3]))
    ask(cluster, (("u", 0), [2]), (T0, [2, 1]))
    both = {("u", 0): "2,1 adding 2 removing 1", ("u", 1): "3,1 adding 3 removing 1"}
    assert listed(cluster) == both
    assert list(listed(cluster)) == [("u", 0), ("u", 1)]
    assert listed(cluster, ("u", 2), ("u", 1), UNKNOWN, ("u", 1)) == {("u", 1): both["u", 1]}
    assert listed(cluster, T0) == {}


# The end of the role ----------------------------------------------------------------------------


WAITING: list[tuple[Callable[[int], ApiRequest], object]] = [
    (
        lambda number: ElectLeadersReceived(number, 2, "preferred", [T0, T1]),
        ElectLeadersResponse(
            1,
            codes.NOT_CONTROLLER,
            (
                PartitionResult(*T0, codes.NOT_CONTROLLER),
                PartitionResult(*T1, codes.NOT_CONTROLLER),
            ),
        ),
    ),
    (
        lambda number: ControlledShutdownReceived(number, 3, 1, 1),
        ControlledShutdownResponse(2, codes.STALE_CONTROLLER_EPOCH),
    ),
    (
        lambda number: AlterPartitionReassignmentsReceived(
            number, 0, [ReassignmentTarget(*T0, (2,))]
        ),
        AlterPartitionReassignmentsResponse(3, codes.NOT_CONTROLLER),
    ),
    (
        lambda number: ListPartitionReassignmentsReceived(number, 0, None),
        ListPartitionReassignmentsResponse(4, codes.NOT_CONTROLLER),
    ),
]


@pytest.mark.parametrize("end", ["asked to end", "session over"])
def test_CI_38_queued_requests_are_answered_when_the_role_ends(end: str) -> None:
    cluster = cluster_of(3, 1, 2)

    def wait() -> None:
        for number, (make, _) in enumerate(WAITING, 1):
            cluster.happen_next(make(number), "api:1")
        if end == "asked to end":
            cluster.shut_down_quietly()

    cluster.once(writes_state("t", 0), wait)
    if end == "session over":
        cluster.lose(writes_state("t", 0), Delivery.SESSION_OVER)
    cluster.unregister(1)
    cluster.run()
    assert answers(cluster) == [answer for _, answer in WAITING]


def test_fenced_request_is_answered_not_controller() -> None:
    """Admin tools then look for another controller."""
    cluster = cluster_of(3, 1, 2)
    cluster.once(writes(znodes.topic_path("t")), lambda: cluster.seize_role(9))
    answer = ask(cluster, (T0, [3]))
    assert (answer.error, answer.partitions) == (codes.NOT_CONTROLLER, ())
    assert not cluster.is_active
