"""Whether an entry is older than a cancellation, if both change while the controller reads (KB
14.2)."""

from controller.core.commands import Issued, ReadStats, ReadZnodes
from controller.core.operations import CreateSequential
from controller.core.znodes import REASSIGN_PARTITIONS, Entry
from tests.controller.core.cluster import reads
from tests.controller.core.procedures.reassignment.interrupting import (
    OldServer,
    cancel_all,
    cancel_briefly,
    cancel_quietly,
    entries,
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
    cluster = two_partitions(kind=OldServer)
    cluster.once(
        reads_stat,
        lambda: (cancel_briefly(cluster), submit_quietly(cluster, {T0: [3]})),
    )
    submit_extra(cluster, {T1: [4]})
    assert assignment(cluster) == "3,1 adding 3 removing 1"
    assert assignment(cluster, T1) == "4,2 adding 4 removing 2"
    assert_no_failures(cluster)


def test_entry_that_was_deleted_while_it_was_read_is_a_new_one_when_it_is_written_again() -> None:
    """It is younger than a cancellation that was created meanwhile."""
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
