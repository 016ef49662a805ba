"""Reassignment requests to a simulated controller, and their results.

Most scenarios move t-0. An assignment is compared as text: `4,5,1,2 adding 4,5 removing 1,2`.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests.elections import ElectLeadersReceived, ElectLeadersResponse
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsReceived,
    ListPartitionReassignmentsResponse,
    ReassignmentTarget,
)
from controller.core.commands import Notice
from controller.core.values import Assignment, LeaderAndIsr
from tests.controller.core.cluster import Cluster
from tests.controller.core.endpoint import alter_partition, call, next_request, proposal

T0, T1 = ("t", 0), ("t", 1)
Name = tuple[str, int]


def cluster_of(brokers: int, *replicas: int, **settings: Any) -> Cluster:
    """Brokers 1 to `brokers`, and t-0 on `replicas`."""
    cluster = Cluster(*range(1, brokers + 1), **settings).start()
    cluster.create_topic("t", {0: replicas})
    return cluster


def leader_is_lost() -> Cluster:
    """Three brokers, of which t-0 loses its leader and only broker in sync."""
    cluster = cluster_of(3, 1, 2, 3)
    ask_for_isr(cluster, 1)
    cluster.stop_broker(1)
    return cluster


# Requests ---------------------------------------------------------------------------------------


def ask(
    cluster: Cluster, *targets: tuple[Name, Sequence[int] | None]
) -> AlterPartitionReassignmentsResponse:
    """Send AlterPartitionReassignments and return the response."""
    named = [
        ReassignmentTarget(*name, None if replicas is None else tuple(replicas))
        for name, replicas in targets
    ]
    request = AlterPartitionReassignmentsReceived(next_request(cluster), 0, named)
    answer = call(cluster, request)
    assert isinstance(answer, AlterPartitionReassignmentsResponse)
    return answer


def reassign(cluster: Cluster, *replicas: int) -> int:
    """Reassign t-0 and return the error code."""
    return _only_error(ask(cluster, (T0, replicas)))


def cancel(cluster: Cluster) -> int:
    """Cancel the reassignment of t-0 and return the error code."""
    return _only_error(ask(cluster, (T0, None)))


def _only_error(answer: AlterPartitionReassignmentsResponse) -> int:
    assert answer.error == codes.NONE
    [one] = answer.partitions
    return one.error


def listed(cluster: Cluster, *names: Name) -> dict[Name, str]:
    """Send ListPartitionReassignments, without names for all partitions. Returns the listed
    reassignments."""
    request = ListPartitionReassignmentsReceived(next_request(cluster), 0, list(names) or None)
    answer = call(cluster, request)
    assert isinstance(answer, ListPartitionReassignmentsResponse)
    assert answer.error == codes.NONE
    return {(one.topic, one.partition): as_text(one.assignment) for one in answer.partitions}


def elect_preferred(cluster: Cluster, name: Name = T0) -> int:
    """Request the preferred leader of a partition and return the error code."""
    request = ElectLeadersReceived(next_request(cluster), 2, "preferred", [name])
    answer = call(cluster, request)
    assert isinstance(answer, ElectLeadersResponse)
    [one] = answer.partitions
    return one.error


def request_json(entries: dict[Name, Sequence[int]]) -> bytes:
    """The content of /admin/reassign_partitions as a tool writes it."""
    partitions = [
        {"topic": topic, "partition": number, "replicas": list(replicas)}
        for (topic, number), replicas in entries.items()
    ]
    return msgspec.json.encode({"version": 1, "partitions": partitions})


def put_request(cluster: Cluster, entries: dict[Name, Sequence[int]]) -> None:
    """A tool writes /admin/reassign_partitions."""
    cluster.put(znodes.REASSIGN_PARTITIONS, request_json(entries))


def put_request_quietly(cluster: Cluster, entries: dict[Name, Sequence[int]]) -> None:
    """As `put_request`, but the controller does not react yet."""
    cluster.put_quietly(znodes.REASSIGN_PARTITIONS, request_json(entries))


# Requests of leaders ----------------------------------------------------------------------------


def ask_for_isr(cluster: Cluster, *isr: int, name: Name = T0) -> int:
    """The leader requests an ISR by AlterPartition, by topic id if the topic has one. Returns the
    partition's error code."""
    topic, number = name
    by_id = cluster.topic(topic).topic_id is not None
    wanted = proposal(cluster, topic, number, by_id=by_id, isr=isr)
    leader = cluster.leadership(topic, number).leader
    answer = alter_partition(cluster, leader, wanted, version=3 if by_id else 0)
    assert answer.error == codes.NONE
    [one] = answer.partitions
    return one.error


def catch_up(cluster: Cluster, *brokers: int, name: Name = T0) -> None:
    """Brokers catch up one by one: the leader adds each to the ISR."""
    for broker in brokers:
        isr = cluster.leadership(*name).isr
        assert ask_for_isr(cluster, *isr, broker, name=name) == codes.NONE


# State of the cluster ---------------------------------------------------------------------------


def as_text(assignment: Assignment) -> str:
    """An assignment as text."""
    words = ",".join(map(str, assignment.replicas))
    for word, replicas in (("adding", assignment.adding), ("removing", assignment.removing)):
        if replicas:
            words += f" {word} {','.join(map(str, replicas))}"
    return words


def assignment(cluster: Cluster, name: Name = T0) -> str:
    """A partition's assignment in ZooKeeper, which must equal the one that the controller knows."""
    topic, number = name
    stored: Assignment = cluster.topic(topic).assignments[number]
    if cluster.is_active:
        assert stored == cluster.partition(topic, number).assignment
    return as_text(stored)


def request(cluster: Cluster) -> dict[Name, tuple[int, ...]] | None:
    """The content of /admin/reassign_partitions; None if it does not exist."""
    data = cluster.data(znodes.REASSIGN_PARTITIONS)
    return None if data is None else znodes.read_reassignments(data)


def reassigning(cluster: Cluster) -> list[Name]:
    """The partitions that the controller is reassigning."""
    return sorted(one.key for one in cluster.fold.controller.context.reassigning)


def assert_no_failures(cluster: Cluster) -> None:
    """No procedure has failed since the cluster was started."""
    failures = ("procedure_failed", "failover_failed", "reassignment_failed", "request_failed")
    notices = [one.command for one in cluster.commands() if isinstance(one.command, Notice)]
    assert [one for one in notices if one.code in failures] == []


# The example of KB 7.10 -------------------------------------------------------------------------

EXAMPLE = ("daehokimm-topic", 0)


def example(**settings: Any) -> Cluster:
    """The example before its reassignment: [1,2,3] of six brokers, leader epoch 5, version 7."""
    cluster = Cluster(*range(1, 7), **settings)
    topic, number = EXAMPLE
    cluster.change_topic_quietly(topic, {number: [1, 2, 3]})
    state = znodes.write_state(LeaderAndIsr(1, 5, (1, 2, 3), 0, 1))
    for path in (znodes.partitions_path(topic), znodes.partition_path(topic, number)):
        cluster.put_quietly(path, b"")
    for _ in range(8):
        cluster.put_quietly(znodes.state_path(topic, number), state)
    return cluster.start()


def play_example(cluster: Cluster) -> None:
    """Reassign to [4,5,6] through the znode. The leader adds 6, 4 and 5 to the ISR, in the order
    of Scala's set."""
    put_request(cluster, {EXAMPLE: [4, 5, 6]})
    for isr in ((1, 2, 3, 6), (1, 6, 2, 3, 4), (5, 1, 6, 2, 3, 4)):
        assert ask_for_isr(cluster, *isr, name=EXAMPLE) == codes.NONE
