"""Requests that no log has are inferred from the writes that they caused."""

import pytest

from controller.core import znodes
from controller.core.api_requests.alter_partition import ProposedState
from controller.core.api_requests.reassignments import ReassignmentTarget
from replay.agreement.logs.index import BrokerLogIndex
from replay.stock_clusters.imported_log.events import (
    RequestInferred,
)
from replay.stock_clusters.zookeeper_log.transactions import (
    SetData,
)
from tests.replay.agreement.sample_log import Log
from tests.replay.agreement.view import (
    STATE,
    TOPIC,
)


def proposed(number: int) -> ProposedState:
    return ProposedState("t", number, 0, (1,), 0, 0)


def infer_writes(log: Log, *writes: tuple[int, int, int]) -> list[RequestInferred]:
    """Writes of the partitions 0, 1 and so on, by cxid, session and time."""
    return [
        log.infer(
            SetData(STATE, b"{}", 1),
            cxid=cxid,
            session=session,
            time_ms=time_ms,
            alter_partition=[proposed(number)],
        )
        for number, (cxid, session, time_ms) in enumerate(writes)
    ]


def test_writes_of_one_alter_partition_are_joined_by_their_cxids() -> None:
    log = Log()
    first, second, gap, other = infer_writes(log, (5, 7, 1), (6, 7, 2), (8, 7, 3), (9, 8, 3))
    index = log.index()
    assert index.inferred.whole_request(first).alter_partition == [proposed(0), proposed(1)]
    assert index.inferred.whole_request(second).alter_partition == []
    assert index.inferred.whole_request(gap).alter_partition == [proposed(2)]
    assert index.inferred.whole_request(other).alter_partition == [proposed(3)]


def test_writes_of_one_alter_partition_between_which_a_znode_is_read_have_one_time() -> None:
    log = Log()
    first, second = infer_writes(log, (139, 7, 51_981), (141, 7, 51_981))
    index = log.index()
    assert index.inferred.whole_request(first).alter_partition == [proposed(0), proposed(1)]
    assert index.inferred.whole_request(second).alter_partition == []


def test_reassignment_between_state_writes_ends_an_alter_partition() -> None:
    log = Log()
    one = log.infer(SetData(STATE, b"{}", 1), cxid=5, alter_partition=[proposed(0)])
    target = ReassignmentTarget("t", 0, (2,))
    moved = log.infer(SetData(TOPIC, b"{}", 1), cxid=6, reassignments=[target])
    last = log.infer(SetData(STATE, b"{}", 1), cxid=7, alter_partition=[proposed(1)])
    index = log.index()
    assert index.inferred.whole_request(one) == one
    assert index.inferred.whole_request(moved) == moved
    assert index.inferred.whole_request(last) == last


def moved(log: Log, number: int) -> RequestInferred:
    """A write that begins the reassignment of a partition, and one that raises its leader epoch."""
    target = ReassignmentTarget("t", number, (2,))
    found = log.infer(SetData(TOPIC, b"{}", 1), cxid=6, reassignments=[target])
    log.decide(SetData(znodes.state_path("t", number), b"{}", 2))
    return found


def requested_partitions(index: BrokerLogIndex, *found: RequestInferred) -> list[list[int]]:
    """The requested partitions, by the first write of each request."""
    return [
        [each.partition for each in index.inferred.whole_request(one).reassignments]
        for one in found
    ]


def test_reassignments_in_the_order_of_kafkas_map_are_one_request() -> None:
    log = Log()
    found = [moved(log, number) for number in (2, 1, 0)]
    assert requested_partitions(log.index(), *found) == [[2, 1, 0], [], []]


def test_reassignments_in_another_order_are_several_requests() -> None:
    log = Log()
    found = [moved(log, number) for number in (0, 2, 1)]
    assert requested_partitions(log.index(), *found) == [[0], [2, 1], []]


def test_reassignments_with_another_write_between_are_several_requests() -> None:
    log = Log()
    one = moved(log, 2)
    log.decide(SetData(znodes.state_path("t", 7), b"{}", 2))
    other = moved(log, 1)
    assert requested_partitions(log.index(), one, other) == [[2], [1]]


@pytest.mark.parametrize(("is_done", "expected"), [(True, [[2, 1], []]), (False, [[2], [1]])])
def test_write_of_the_znode_after_a_finished_reassignment_does_not_split_a_request(
    is_done: bool, expected: list[list[int]]
) -> None:
    """Otherwise the znode is written because a new request begins."""
    log = Log()
    one = moved(log, 2)
    if is_done:
        log.decide(SetData(TOPIC, b"{}", 3))
    log.decide(SetData(znodes.REASSIGN_PARTITIONS, b"{}", 1))
    other = moved(log, 1)
    assert requested_partitions(log.index(), one, other) == expected


def test_request_is_preceded_by_its_write_of_the_reassignment_znode() -> None:
    """Earlier writes of the znode belong to another request."""
    log = Log()
    first = log.decide(SetData(znodes.REASSIGN_PARTITIONS, b"{}", 1))
    second = log.decide(SetData(znodes.REASSIGN_PARTITIONS, b"{}", 2))
    target = ReassignmentTarget("t", 0, (1, 2))
    log.infer(SetData(TOPIC, b"{}", 1), cxid=6, reassignments=[target])
    index = log.index()
    assert index.inferred.take_next_reassignment(7, first) is None
    found = index.inferred.take_next_reassignment(7, second)
    assert found is not None
    assert found.request.reassignments == [target]
    assert found.before == []


@pytest.mark.parametrize(("repeated", "before"), [(2, [("t", 2)]), (0, None)])
def test_partitions_that_keep_their_replicas_come_before_others_of_a_request(
    repeated: int, before: list[tuple[str, int]] | None
) -> None:
    """In the order of Kafka's map, 2 comes before 1, and 1 before 0."""
    log = Log()
    znode = log.decide(SetData(znodes.REASSIGN_PARTITIONS, b"{}", 1))
    log.decide(SetData(znodes.state_path("t", repeated), b"{}", 2))
    moved(log, 1)
    found = log.index().inferred.take_next_reassignment(7, znode)
    assert (None if found is None else found.before) == before
