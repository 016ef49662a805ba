"""An entry that a client rewrites while the controller removes it is not lost."""

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import Issued, Notice, ReadStats, SyncZnodes
from controller.core.operations import CreateSequential, Delete
from controller.core.znodes import REASSIGN_PARTITIONS_EXTRA
from tests.controller.core.cluster import Cluster, topic_json
from tests.controller.core.procedures.reassignment.interrupting import (
    cancel_all,
    cancel_briefly,
    entries,
    entries_json,
    remove_cancel,
    submit,
    submit_extra,
    submit_quietly,
    two_partitions,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    ask,
    assignment,
    reassign,
)
from tests.controller.core.procedures.topics.deleting import mark
from tests.controller.core.unreliable import Delivery


def on_two(*, kip_236_enable: bool = True) -> Cluster:
    """Brokers 1 to 4, and t-0 on [1,2]."""
    cluster = Cluster(1, 2, 3, 4, kip_236_enable=kip_236_enable).start()
    cluster.create_topic("t", {0: [1, 2]})
    return cluster


def test_entry_that_a_client_rewrites_while_a_cancellation_drops_it_begins() -> None:
    cluster = two_partitions((1, 2), (1, 2), Cluster)

    def cancel_and_rewrite() -> None:
        cancel_briefly(cluster)
        cluster.once(_logs_drop, lambda: submit_quietly(cluster, {T0: [4]}))

    cluster.once(
        _requests,
        cancel_and_rewrite,
    )
    submit(cluster, {T0: [3, 4]})
    assert assignment(cluster) == "4,1,2 adding 4 removing 1,2"


@pytest.mark.parametrize("step", [1, 6])
def test_entry_that_a_client_rewrites_during_a_rollback_waits_and_then_begins(step: int) -> None:
    cluster = on_two()
    submit(cluster, {T0: [3, 4]})
    begins = f"step {step} of 7"
    cluster.once(lambda one: _text(one).startswith(begins), lambda: rewrite(cluster))
    cancel_all(cluster)
    assert assignment(cluster) == "1,2"
    assert list(entries(cluster) or {}) == [T0]
    remove_cancel(cluster)
    assert assignment(cluster) == "4,1,2 adding 4 removing 1,2"


def test_entry_that_a_client_rewrites_when_a_rollback_removes_it_waits_and_then_begins() -> None:
    cluster = on_two()
    submit(cluster, {T0: [3, 4]})
    cluster.once(_removes_entries, lambda: rewrite(cluster))
    cancel_all(cluster)
    remove_cancel(cluster)
    assert assignment(cluster) == "4,1,2 adding 4 removing 1,2"


def test_entry_that_a_client_writes_during_a_rollback_by_an_admin_tool_begins() -> None:
    cluster = on_two()
    assert reassign(cluster, 3, 4) == codes.NONE
    cluster.once(lambda one: _text(one).startswith("step 6 of 7"), lambda: rewrite(cluster))
    ask(cluster, (T0, None))
    assert assignment(cluster) == "4,1,2 adding 4 removing 1,2"


def test_new_target_in_an_entry_before_the_cancellation_is_dropped_and_logged() -> None:
    cluster = on_two()
    submit(cluster, {T0: [3, 4]})
    seen = cluster.seen()
    rewrite(cluster)
    cancel_all(cluster)
    assert assignment(cluster) == "1,2"
    [dropped] = seen.texts_of("reassignment_cancelled")
    assert dropped.startswith("the entry with replicas 4 is removed from")
    remove_cancel(cluster)
    assert assignment(cluster) == "1,2"
    assert entries(cluster) is None


def test_entry_whose_place_an_extra_entry_takes_is_logged() -> None:
    cluster = on_two()
    seen = cluster.seen()
    cluster.put_quietly(REASSIGN_PARTITIONS_EXTRA, entries_json({T0: [3]}))
    rewrite(cluster)
    cluster.run()
    assert assignment(cluster) == "3,1,2 adding 3 removing 1,2"
    [dropped] = seen.texts_of("reassignment_cancelled")
    assert dropped.startswith("the entry with replicas 4 is removed from")
    assert "an entry of /admin/reassign_partitions_extra with replicas 3 takes its place" in dropped


@pytest.mark.parametrize("step", [1, 6])
def test_entry_that_a_client_rewrites_during_a_rollback_by_an_extra_entry_is_logged(
    step: int,
) -> None:
    cluster = on_two()
    submit(cluster, {T0: [3, 4]})
    seen = cluster.seen()
    begins = f"step {step} of 7"
    cluster.once(lambda one: _text(one).startswith(begins), lambda: rewrite(cluster))
    submit_extra(cluster, {T0: [3]})
    assert assignment(cluster) == "3,1,2 adding 3 removing 1,2"
    dropped = seen.texts_of("reassignment_cancelled") + seen.texts_of("reassignment_rolled_back")
    assert any("with replicas 4 is removed" in one or "to 4," in one for one in dropped), dropped
    assert seen.texts_of("rollback")[-1] == (
        "step 6 of 7, cancelled by an entry of /admin/reassign_partitions_extra with replicas 3: "
        "not under way: the entry and the record are removed"
    )


@pytest.mark.parametrize("kip_236_enable", [False, True])
def test_entry_whose_place_an_admin_tool_takes_is_logged(kip_236_enable: bool) -> None:
    cluster = on_two(kip_236_enable=kip_236_enable)
    seen = cluster.seen()
    cluster.once(_looks_for_entries, lambda: rewrite(cluster))
    assert reassign(cluster, 3, 4) == codes.NONE
    assert assignment(cluster) == "3,4,1,2 adding 3,4 removing 1,2"
    assert entries(cluster) is None
    [dropped] = seen.texts_of("reassignment_cancelled")
    assert dropped.startswith("the entry with replicas 4 is removed from")


def test_entry_that_is_removed_at_the_second_attempt_is_logged_once() -> None:
    """A client writes the same entry again between the read and the removal."""
    cluster = on_two()
    seen = cluster.seen()

    def rewrite_twice() -> None:
        rewrite(cluster)
        cluster.once(_removes_entries, lambda: rewrite(cluster))

    cluster.once(_looks_for_entries, rewrite_twice)
    assert reassign(cluster, 3, 4) == codes.NONE
    assert entries(cluster) is None
    assert len(seen.texts_of("reassignment_cancelled")) == 1


def test_entry_that_a_client_rewrites_when_an_admin_tool_takes_its_place_begins() -> None:
    """Without KIP-236 the newest request counts, whatever its route."""
    cluster = on_two(kip_236_enable=False)
    submit(cluster, {T0: [3, 4]})
    cluster.once(_removes_entries, lambda: rewrite(cluster))
    assert reassign(cluster, 3) == codes.NONE
    assert assignment(cluster) == "4,1,2 adding 4 removing 1,2"


def test_entry_that_a_client_rewrites_when_an_admin_tool_takes_its_place_is_refused() -> None:
    cluster = on_two()
    seen = cluster.seen()

    def write_and_rewrite() -> None:
        submit_quietly(cluster, {T0: [3, 4]})
        cluster.once(_removes_entries, lambda: rewrite(cluster))

    cluster.once(_looks_for_entries, write_and_rewrite)
    assert reassign(cluster, 3) == codes.NONE
    assert assignment(cluster) == "3,1,2 adding 3 removing 1,2"
    [refused] = seen.texts_of("reassignment_refused")
    assert refused.startswith("the entry with replicas 4 is removed from")
    assert entries(cluster) is None


def test_entry_that_a_client_rewrites_while_its_topic_is_deleted_is_refused() -> None:
    cluster = on_two()
    submit(cluster, {T0: [3, 4]})
    seen = cluster.seen()
    cluster.once(_removes_entries, lambda: rewrite(cluster))
    mark(cluster, "t")
    [refused] = seen.texts_of("reassignment_refused")
    assert refused.startswith("the entry with replicas 4 is removed from")
    assert entries(cluster) is None


def test_entry_for_a_topic_that_is_created_again_begins() -> None:
    cluster = on_two()
    submit(cluster, {T0: [3, 4]})

    def create_again() -> None:
        cluster.put_quietly(znodes.topic_path("t"), topic_json({0: [1, 2]}))
        rewrite(cluster)

    cluster.once(_removes_entries, create_again)
    cluster.remove_quietly(znodes.topic_path("t"))
    cluster.run()
    assert assignment(cluster) == "4,1,2 adding 4 removing 1,2"


@pytest.mark.parametrize("lost", [Delivery.REPLY_LOST, Delivery.REQUEST_LOST])
def test_entry_that_a_client_writes_after_a_deletion_without_a_reply_begins(
    lost: Delivery,
) -> None:
    """The new znode has the version of the deleted one."""
    cluster = on_two()
    cluster.lose(_removes_entries, lost)
    settles = lambda issued: isinstance(issued.command, SyncZnodes)  # noqa: E731
    cluster.once(settles, lambda: rewrite(cluster))
    submit_quietly(cluster, {T0: [3, 4]})
    cancel_all(cluster)
    remove_cancel(cluster)
    assert assignment(cluster) == "4,1,2 adding 4 removing 1,2"


def rewrite(cluster: Cluster) -> None:
    """A client writes [4] into the entry of t-0. The controller does not react yet."""
    submit_quietly(cluster, {T0: [4]})


def _logs_drop(issued: Issued) -> bool:
    command = issued.command
    return isinstance(command, Notice) and command.code == "reassignment_cancelled"


def _text(issued: Issued) -> str:
    return issued.command.text if isinstance(issued.command, Notice) else ""


def _looks_for_entries(issued: Issued) -> bool:
    command = issued.command
    return isinstance(command, ReadStats) and znodes.REASSIGN_PARTITIONS in command.paths


def _removes_entries(issued: Issued) -> bool:
    operations = getattr(issued.command, "operations", ())
    return any(
        isinstance(one, Delete) and one.path == znodes.REASSIGN_PARTITIONS for one in operations
    )


def _requests(issued: Issued) -> bool:
    operations = getattr(issued.command, "operations", ())
    return any(isinstance(one, CreateSequential) for one in operations)
