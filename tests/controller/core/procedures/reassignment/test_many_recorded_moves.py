"""A failover with many reassignments that have records handles urgent events early."""

from collections.abc import Callable

import pytest

from controller.core import pauses
from controller.core.api_requests.controlled_shutdown import ControlledShutdownResponse
from controller.core.commands import UpdateMetadataRequest
from controller.core.znodes import reassignment_path
from tests.controller.core.cluster import Cluster, writes_state
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    assert_nothing_is_left,
    cancel_quietly,
    records,
    submit,
)
from tests.controller.core.procedures.reassignment.many_moves import (
    ALL,
    COUNT,
    LAST,
    PART,
    READS_RECORDS,
    broker_1_dies,
    broker_1_shuts_down,
    leader_asks_for_isr,
    set_isrs,
    shuts_down,
    steps,
    with_25_partitions,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    Name,
    assert_no_failures,
    assignment,
)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 10 partitions, so that the tests are fast."""
    monkeypatch.setattr(pauses, "TOGETHER_MAX", PART)


# long-work-interrupted --------------------------------------------------------------------------


def begin_here(cluster: Cluster, count: int = COUNT) -> None:
    """The daemon begins moves of the first partitions of t to [3,4], which have records then."""
    submit(cluster, {name: [3, 4] for name in ALL[:count]})
    assert len(records(cluster)) == count


@pytest.mark.parametrize(
    ("happen", "handled"),
    [(broker_1_dies, "u-0"), (leader_asks_for_isr, "answer"), (broker_1_shuts_down, "answer")],
)
@pytest.mark.parametrize(("count", "waits"), [(COUNT, False), (PART, True)])
def test_urgent_event_is_handled_before_the_entries_of_many_recorded_moves_are_read(
    happen: Callable[[Cluster], None], handled: str, count: int, waits: bool
) -> None:
    cluster = with_25_partitions()
    begin_here(cluster, count)
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        cluster.once(READS_RECORDS, lambda: happen(cluster))
    found = steps(seen)
    assert (found.index("entries") < found.index(handled)) is waits
    assert_no_failures(cluster)


def test_urgent_event_waits_until_recorded_moves_without_a_leader_have_one() -> None:
    cluster = with_25_partitions()
    begin_here(cluster)
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        cluster.unregister(1)
        cluster.once(READS_RECORDS, lambda: shuts_down(cluster, 2))
    found = steps(seen)
    assert found.index("t-24") < found.index("answer")
    assert_no_failures(cluster)


def test_urgent_event_waits_until_another_replica_leads_in_place_of_a_restarted_leader() -> None:
    cluster = with_25_partitions()
    begin_here(cluster)
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        cluster.bounce(1)
        cluster.once(READS_RECORDS, lambda: shuts_down(cluster, 2))
    issued = [one for _, commands in seen.history for one in commands]
    elects = [writes_state(*LAST)(one) for one in issued]
    answers = [isinstance(one.command, ControlledShutdownResponse) for one in issued]
    assert elects.index(True) < answers.index(True)
    assert_no_failures(cluster)


def test_brokers_are_informed_before_the_records_of_moves_without_a_leader_are_read() -> None:
    cluster = with_25_partitions()
    begin_here(cluster)
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        cluster.unregister(1)
    issued = [one for _, commands in seen.history for one in commands]
    informs = [
        isinstance(one.command, UpdateMetadataRequest) and bool(one.command.partitions)
        for one in issued
    ]
    reads = [READS_RECORDS(one) for one in issued]
    assert informs.index(True) < reads.index(True)
    assert reads.count(True) == 1
    assert {cluster.leadership(*name).leader for name in ALL} == {2}


def test_records_are_read_once_if_the_leaders_have_died_and_the_followers_have_restarted() -> None:
    cluster = with_25_partitions()
    begin_here(cluster)
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        cluster.unregister(1)
        cluster.bounce(2)
    issued = [one for _, commands in seen.history for one in commands]
    assert [READS_RECORDS(one) for one in issued].count(True) == 1
    assert {cluster.leadership(*name).leader for name in ALL} == {2}


@pytest.mark.parametrize("unrecorded", [[], [LAST]])
def test_election_while_the_records_are_read_prefers_the_originals_of_cancelled_moves(
    unrecorded: list[Name],
) -> None:
    """Leader 1 dies when the records are read. Target 4 and original 2 are in sync."""
    cluster = with_25_partitions()
    begin_here(cluster)
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        for name in unrecorded:
            cluster.remove_quietly(reassignment_path(*name))
        cancel_quietly(cluster)
        set_isrs(cluster, 1, 4, 2)
        cluster.once(READS_RECORDS, lambda: cluster.unregister(1))
    found = steps(seen)
    assert (found.index("entries") < found.index("t-24")) is bool(unrecorded)
    assert {cluster.leadership(*name).leader for name in ALL} == {2}
    assert {assignment(cluster, name) for name in ALL} == {"1,2"}
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)
