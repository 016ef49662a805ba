"""Whether an entry is older than a cancellation, if both change while the controller reads (KB
14.2)."""

from collections.abc import Callable

import pytest

from controller.core.commands import Issued, ReadStats, ReadZnodes
from controller.core.operations import Create, CreateSequential, Delete, SetData
from controller.core.values import ANY_VERSION
from controller.core.znodes import (
    CANCEL_CONTENT,
    REASSIGN_CANCEL,
    REASSIGN_PARTITIONS,
    REASSIGNMENT_REQUESTS,
    Entry,
    reassignment_path,
    request_path,
    write_entries,
)
from replay.world.requests import Multi, WriteInMulti
from tests.controller.core.cluster import Cluster, reads, writes
from tests.controller.core.procedures.reassignment.interrupting import (
    OldServerCluster,
    OtherControllersTerm,
    Targets,
    cancel_all,
    cancel_briefly,
    cancel_quietly,
    entries,
    entries_json,
    put_isr_quietly,
    remove_cancel,
    remove_cancel_quietly,
    requests,
    submit,
    submit_extra,
    submit_quietly,
    two_partitions,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    assert_no_failures,
    assignment,
    catch_up,
)


def reads_stat(issued: Issued) -> bool:
    """Whether this command looks whether /admin/reassign_partitions exists."""
    return isinstance(issued.command, ReadStats) and reads(REASSIGN_PARTITIONS)(issued)


def reads_data(issued: Issued) -> bool:
    """Whether this command reads /admin/reassign_partitions."""
    return isinstance(issued.command, ReadZnodes) and reads(REASSIGN_PARTITIONS)(issued)


def test_entry_written_after_a_removed_cancellation_starts_if_there_was_none_before() -> None:
    """The controller reads the entry before it handles the cancellation, of which the server does
    not report the transaction."""
    cluster = two_partitions(kind=OldServerCluster)
    cluster.once(
        reads_stat,
        lambda: (cancel_briefly(cluster), submit_quietly(cluster, {T0: [3]})),
    )
    submit_extra(cluster, {T1: [4]})
    assert assignment(cluster) == "3,1 adding 3 removing 1"
    assert assignment(cluster, T1) == "4,2 adding 4 removing 2"
    assert_no_failures(cluster)


def test_entry_that_was_deleted_while_it_was_read_is_a_new_one_when_it_is_written_again() -> None:
    """The entry is younger than a cancellation that was created in the meantime."""
    cluster = two_partitions()
    cancel_all(cluster)
    submit(cluster, {T0: [3]})

    def cancel_and_write_again() -> None:
        remove_cancel_quietly(cluster)
        cancel_quietly(cluster)
        submit_quietly(cluster, {T0: [3]})

    def delete() -> None:
        cluster.remove_quietly(REASSIGN_PARTITIONS)
        cluster.once(reads_stat, cancel_and_write_again)

    cluster.once(reads_data, delete)
    submit(cluster, {T0: [3]})
    assert entries(cluster) == {T0: Entry((3,))}
    remove_cancel(cluster)
    assert assignment(cluster) == "3,1 adding 3 removing 1"


def test_entry_rewritten_while_its_request_waits_gets_one_request() -> None:
    cluster = two_partitions()
    cluster.once(makes_request, lambda: submit_quietly(cluster, {T0: [4]}))
    seen = cluster.seen()
    submit(cluster, {T0: [3]})
    made = [one for one in seen.writes() if isinstance(one, CreateSequential)]
    assert (len(made), requests(cluster)) == (2, [])
    assert assignment(cluster) == "4,1 adding 4 removing 1"


def makes_request(issued: Issued) -> bool:
    """Whether this command makes a request of an entry."""
    operations = getattr(issued.command, "operations", ())
    return any(isinstance(one, CreateSequential) for one in operations)


@pytest.mark.parametrize("is_brief", [False, True])
def test_same_entry_written_again_right_after_the_rollback_is_younger_than_it(
    is_brief: bool,
) -> None:
    """The controller has removed the entry, and has not read the znode since."""
    cluster = two_partitions()
    submit(cluster, {T0: [3]})

    def write_again() -> None:
        if is_brief:
            remove_cancel_quietly(cluster)
        submit_quietly(cluster, {T0: [3]})

    cluster.once(writes(reassignment_path(*T0)), write_again)
    seen = cluster.seen()
    cancel_all(cluster)
    assert not [one for one in seen.texts_of("reassignment_cancelled") if "does not begin" in one]
    if not is_brief:
        assert entries(cluster) == {T0: Entry((3,))}
        remove_cancel(cluster)
    assert assignment(cluster) == "3,1 adding 3 removing 1"
    assert_no_failures(cluster)


def while_removing(cluster: Cluster, targets: Targets, then: Callable[[], None]) -> None:
    """A client writes entries before the controller reads them to remove one, and `then` happens
    before it writes what is left."""

    def write_entries() -> None:
        submit_quietly(cluster, targets)
        cluster.once(writes(REASSIGN_PARTITIONS), then)

    cluster.once(reads_stat, write_entries)


def test_entry_stays_older_than_a_cancellation_if_the_controller_writes_the_znode() -> None:
    """A reassignment completes, and the controller has not looked at the other entry yet. When it
    removes the entry of the first one, it writes the znode after the cancellation."""
    cluster = two_partitions()
    submit(cluster, {T0: [3]})
    while_removing(cluster, {T0: [3], T1: [4]}, lambda: cancel_quietly(cluster))
    seen = cluster.seen()
    catch_up(cluster, 3)
    assert assignment(cluster) == "3"
    assert [one for one in seen.texts_of("reassignment_cancelled") if "does not begin" in one]
    remove_cancel(cluster)
    assert entries(cluster) is None
    assert assignment(cluster, T1) == "2"
    assert_no_failures(cluster)


def test_entry_with_another_target_stays_older_than_a_cancellation_as_well() -> None:
    """The new target replaces one whose move is under way and is rolled back by the
    cancellation."""
    cluster = two_partitions()
    submit(cluster, {T0: [3], T1: [4]})
    while_removing(cluster, {T0: [3], T1: [1]}, lambda: cancel_quietly(cluster))
    catch_up(cluster, 3)
    remove_cancel(cluster)
    assert entries(cluster) is None
    assert assignment(cluster, T1) == "2"
    assert_no_failures(cluster)


def test_entry_that_was_deleted_before_the_controllers_write_is_a_new_one() -> None:
    """The same entry is written again after the cancellation, so it begins when that has ended."""
    cluster = two_partitions()
    submit(cluster, {T0: [3]})

    def cancel_and_write_again() -> None:
        cancel_quietly(cluster)
        submit_quietly(cluster, {T1: [4]})

    def delete() -> None:
        cluster.remove_quietly(REASSIGN_PARTITIONS)
        cluster.once(writes(reassignment_path(*T0)), cancel_and_write_again)

    while_removing(cluster, {T0: [3], T1: [4]}, delete)
    catch_up(cluster, 3)
    assert entries(cluster) == {T1: Entry((4,))}
    remove_cancel(cluster)
    assert assignment(cluster, T1) == "4,2 adding 4 removing 2"
    assert_no_failures(cluster)


def test_entry_whose_only_request_was_deleted_while_an_older_one_waited_is_requested_again() -> (
    None
):
    """The entry is rewritten before the request of its first target is handled. A client deletes
    the request of its second target. The controller has no originals to add."""
    cluster = two_partitions()
    first, second = (write_entries({T0: Entry((one,), (1,))}) for one in (3, 4))

    def rewrite() -> None:
        cluster.put_quietly(REASSIGN_PARTITIONS, second)
        cluster.once(reads(REASSIGNMENT_REQUESTS), delete_last)

    def delete_last() -> None:
        _, last = sorted(requests(cluster))
        cluster.remove_quietly(request_path(last))

    cluster.once(makes_request, rewrite)
    cluster.put(REASSIGN_PARTITIONS, first)
    assert requests(cluster) == []
    assert assignment(cluster) == "4,1 adding 4 removing 1"


# Entries and cancellations in one transaction ----------------------------------------------------

CANCELS = Create(REASSIGN_CANCEL, CANCEL_CONTENT)


class Client:
    """A client that writes several znodes in one multi. The controller does not react yet."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._session = cluster.zookeeper.create_session()

    def write(self, *operations: WriteInMulti) -> None:
        reply = self._cluster.zookeeper.apply(
            self._session, Multi(operations), self._cluster.now_ms
        )
        assert not any(one.error for one in reply.results)


def test_entry_that_is_written_in_the_transaction_of_a_cancellation_waits() -> None:
    cluster = two_partitions()
    client = Client(cluster)
    client.write(CANCELS, Create(REASSIGN_PARTITIONS, entries_json({T0: [3]})))
    cluster.run()
    assert entries(cluster) == {T0: Entry((3,))}
    remove_cancel(cluster)
    assert assignment(cluster) == "3,1 adding 3 removing 1"


def test_targets_lead_first_if_a_move_is_requested_in_the_transaction_of_a_cancellation() -> None:
    """A stock controller began the move. Its leader dies before the take-over."""
    cluster = two_partitions((1, 2))
    client = Client(cluster)
    with OtherControllersTerm(cluster):
        client.write(CANCELS, Create(REASSIGN_PARTITIONS, entries_json({T0: [3, 4]})))
        cluster.change_topic_quietly(
            "t",
            {0: [3, 4, 1, 2], 1: [2]},
            adding_replicas={"0": [3, 4]},
            removing_replicas={"0": [1, 2]},
        )
        put_isr_quietly(cluster, 1, 3, 2)
        cluster.unregister(1)
    assert cluster.leadership("t", 0).leader == 3


def test_entry_that_is_written_in_the_transaction_of_a_removed_cancellation_begins() -> None:
    """The server does not report the transaction, and the controller has read the znode after the
    last transaction before it."""
    cluster = two_partitions(kind=OldServerCluster)
    client = Client(cluster)
    submit(cluster, {T0: [3]})
    first = Entry((3,), (1,))
    cluster.put(REASSIGN_PARTITIONS, write_entries({T0: first}))
    both = write_entries({T0: first, T1: Entry((4,))})
    client.write(CANCELS, SetData(REASSIGN_PARTITIONS, both, ANY_VERSION))
    remove_cancel_quietly(cluster)
    cluster.run()
    assert assignment(cluster) == "1"
    assert assignment(cluster, T1) == "4,2 adding 4 removing 2"


def test_entry_that_is_written_in_the_transaction_that_removes_a_cancellation_begins() -> None:
    """The server does not report the transaction of the cancellation, before which the entries had
    changed."""
    cluster = two_partitions(kind=OldServerCluster)
    client = Client(cluster)
    both = entries_json({T0: [3], T1: [4]})

    def end() -> None:
        removes = Delete(REASSIGN_CANCEL, ANY_VERSION)
        client.write(removes, SetData(REASSIGN_PARTITIONS, both, ANY_VERSION))

    looks = reads(REASSIGN_CANCEL)
    cluster.once(looks, lambda: cluster.once(looks, end))
    client.write(Create(REASSIGN_PARTITIONS, entries_json({T0: [3]})), CANCELS)
    cluster.run()
    assert assignment(cluster) == "1"
    assert assignment(cluster, T1) == "4,2 adding 4 removing 2"
