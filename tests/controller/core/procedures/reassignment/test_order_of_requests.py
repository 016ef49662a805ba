"""Requests by several clients at once, and requests that others delete (KB 14.5.2)."""

from controller.core.commands import ReadChildren
from controller.core.operations import Create, CreateSequential
from controller.core.znodes import (
    REASSIGN_PARTITIONS,
    REASSIGNMENT_REQUESTS,
    Entry,
    request_path,
    write_entries,
    write_request,
)
from tests.controller.core.cluster import reads
from tests.controller.core.procedures.reassignment.interrupting import (
    entries,
    request,
    request_quietly,
    requests,
    submit,
    two_partitions,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    assert_no_failures,
    assignment,
)
from tests.controller.core.procedures.reassignment.test_refused_writes import makes_request

COMPLETE = write_entries({T0: Entry((3,), (1,))})
"""An entry to which the controller adds nothing, so that it does not read the entry again."""


def test_complete_entry_whose_request_another_client_deleted_is_requested_again() -> None:
    cluster = two_partitions()
    cluster.once(
        reads(REASSIGNMENT_REQUESTS),
        lambda: [cluster.remove_quietly(request_path(one)) for one in requests(cluster)],
    )
    seen = cluster.seen()
    cluster.put(REASSIGN_PARTITIONS, COMPLETE)
    assert assignment(cluster) == "3,1 adding 3 removing 1"
    assert len([one for one in seen.writes() if isinstance(one, CreateSequential)]) == 2


def test_request_is_noticed_after_a_client_deleted_the_parent_of_all_requests() -> None:
    cluster = two_partitions()
    seen = cluster.seen()
    cluster.remove(REASSIGNMENT_REQUESTS)
    listings = [one for one in seen.commands if isinstance(one, ReadChildren)]
    assert listings[-1] == ReadChildren(REASSIGNMENT_REQUESTS, watch=True)
    request(cluster, {T0: [3]})
    assert assignment(cluster) == "3,1 adding 3 removing 1"


def test_request_without_a_number_is_carried_out_after_all_others() -> None:
    cluster = two_partitions()
    cluster.ask(Create(request_path("mine"), write_request({T0: (4,), T1: (4,)})))
    request_quietly(cluster, {T0: [3]})
    request(cluster, {T1: [3]})
    assert assignment(cluster) == "4,1 adding 4 removing 1"
    assert assignment(cluster, T1) == "4,2 adding 4 removing 2"
    assert requests(cluster) == []
    assert_no_failures(cluster)


def test_complete_entry_that_an_earlier_request_makes_impossible_is_removed() -> None:
    cluster = two_partitions()
    cluster.once(makes_request, lambda: request_quietly(cluster, {T0: [4]}))
    seen = cluster.seen()
    cluster.put(REASSIGN_PARTITIONS, COMPLETE)
    assert seen.notices() == [("reassignment_refused", "t-0")]
    assert (assignment(cluster), entries(cluster)) == ("4,1 adding 4 removing 1", None)


def test_refused_request_for_the_target_of_an_entry_does_not_remove_the_entry() -> None:
    cluster = two_partitions()
    submit(cluster, {T0: [3]})
    seen = cluster.seen()
    request(cluster, {T0: [3]})
    assert seen.notices() == [("reassignment_refused", "t-0")]
    assert entries(cluster) == {T0: Entry((3,), (1,))}
