"""Reads and writes whose reply was lost have their true result.

The contract is that of controller/core/events.py: operations in flight end as lost, then the loss
of the connection or the end of the session is reported.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from controller.core import znodes
from controller.core.commands import (
    Command,
    Issued,
    ReadChildren,
    ReadStats,
    ReadZnodes,
    SyncZnodes,
    WriteAtomically,
    WriteZnodes,
    ZooKeeperCommand,
)
from controller.core.operations import Create, Delete, SetData
from controller.core.state_machines import PartitionState
from controller.core.values import ANY_VERSION
from replay.world.outcomes import ZooKeeperOutcome, carry_out
from tests.controller.core.cluster import Cluster
from tests.controller.core.unreliable import Delivery

READS_AND_WRITES = (ReadZnodes, ReadStats, ReadChildren, WriteZnodes, WriteAtomically, SyncZnodes)
LOST = [Delivery.REQUEST_LOST, Delivery.REPLY_LOST]
OVER = [Delivery.SESSION_OVER, Delivery.SESSION_OVER_AFTER]
STATE = znodes.state_path("t", 0)


def writes(operation: type[Create | SetData | Delete], below: str) -> Callable[[Issued], bool]:
    """A predicate that matches a kind of write to znodes below a path."""

    def matches(issued: Issued) -> bool:
        command = issued.command
        return isinstance(command, WriteZnodes) and any(
            isinstance(one, operation) and one.path.startswith(below) for one in command.operations
        )

    return matches


def is_sync(issued: Issued) -> bool:
    return isinstance(issued.command, SyncZnodes)


def running() -> Cluster:
    """The daemon is active; topic t has one partition on 1 and 2, led by 1."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    return cluster


def assert_knows_the_stored_states(cluster: Cluster) -> None:
    """The daemon holds the role, and knows of every partition what ZooKeeper stores.

    The controller epoch may differ: an ISR without a change is known with the daemon's epoch (KB
    5.2.2).
    """
    assert cluster.is_active
    epoch = cluster.epoch()
    for partition in cluster.fold.controller.context.partitions():
        assert partition.leadership is not None
        known = msgspec.structs.replace(partition.leadership, controller_epoch=epoch)
        assert known == msgspec.structs.replace(
            cluster.leadership(*partition.key), controller_epoch=epoch
        )


# Each kind of write ---------------------------------------------------------------------------


@pytest.mark.parametrize("delivery", LOST)
def test_lost_create_is_carried_out_once(delivery: Delivery) -> None:
    cluster = Cluster(1, 2).start()
    cluster.lose(writes(Create, STATE), delivery)
    cluster.create_topic("t", {0: [1, 2]})
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1,2] v 0 ce 1"
    assert cluster.partition("t", 0).state is PartitionState.ONLINE
    assert_knows_the_stored_states(cluster)


@pytest.mark.parametrize("delivery", LOST)
def test_lost_change_is_carried_out_once(delivery: Delivery) -> None:
    cluster = running()
    cluster.lose(writes(SetData, STATE), delivery)
    cluster.stop_broker(1)
    assert cluster.state("t", 0) == "leader 2 e 1 isr [2] v 1 ce 1"
    assert_knows_the_stored_states(cluster)


@pytest.mark.parametrize("delivery", LOST)
def test_lost_delete_is_carried_out(delivery: Delivery) -> None:
    cluster = running()
    cluster.lose(writes(Delete, znodes.ISR_CHANGES), delivery)
    cluster.announce_isr(("t", 0))
    assert not cluster.fold.controller.triggers
    assert cluster.data(f"{znodes.ISR_CHANGES}/isr_change_0000000000") is None


@pytest.mark.parametrize("delivery", LOST)
def test_lost_write_is_repeated_only_after_a_sync_and_a_read(delivery: Delivery) -> None:
    cluster = running()
    seen = cluster.seen()
    cluster.lose(writes(SetData, STATE), delivery)
    cluster.stop_broker(1)
    kinds: list[type[Command]] = [type(one) for one in seen.commands]
    first = kinds.index(WriteZnodes)
    after = kinds[first + 1 : first + 4]
    expected: list[type[Command]] = [SyncZnodes, ReadZnodes, WriteZnodes]
    if delivery is Delivery.REQUEST_LOST:
        assert after == expected
    else:
        assert after[:2] == expected[:2]
        assert kinds.count(WriteZnodes) == 1


@pytest.mark.parametrize("delivery", LOST)
def test_lost_sync_is_repeated(delivery: Delivery) -> None:
    cluster = running()
    seen = cluster.seen()
    deliveries = iter([delivery, delivery])
    which = writes(SetData, STATE)
    cluster.delivery = lambda issued: (
        next(deliveries, Delivery.ANSWERED)
        if which(issued) or is_sync(issued)
        else Delivery.ANSWERED
    )
    cluster.stop_broker(1)
    kinds = [type(one) for one in seen.commands]
    assert kinds.count(SyncZnodes) == 2
    assert kinds[kinds.index(SyncZnodes) + 1] is SyncZnodes, "not read before it is in step"
    assert_knows_the_stored_states(cluster)


# Concurrent writes of other clients -----------------------------------------------------------


@pytest.mark.parametrize("delivery", LOST)
def test_lost_change_is_decided_again_after_a_concurrent_write(delivery: Delivery) -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2, 3]})
    cluster.lose(writes(SetData, STATE), delivery)
    cluster.once(is_sync, lambda: cluster.set_isr("t", 0, [2]))
    cluster.stop_broker(1)
    assert cluster.leadership("t", 0).leader == 2
    assert cluster.leadership("t", 0).isr == (2,)
    assert_knows_the_stored_states(cluster)


def test_lost_create_with_a_concurrent_create_leaves_the_partition_new() -> None:
    cluster = Cluster(1, 2).start()
    cluster.lose(writes(Create, STATE), Delivery.REQUEST_LOST)

    def create() -> None:
        for path in (znodes.partitions_path("t"), znodes.partition_path("t", 0)):
            cluster.ask(Create(path))
        cluster.ask(Create(STATE, b"somebody else's"))

    cluster.once(is_sync, create)
    cluster.create_topic("t", {0: [1, 2]})
    assert cluster.data(STATE) == b"somebody else's"
    assert cluster.partition("t", 0).state is PartitionState.NEW
    assert cluster.partition("t", 0).leadership is None


def test_lost_change_of_a_znode_deleted_meanwhile_is_not_repeated() -> None:
    cluster = running()
    cluster.lose(writes(SetData, STATE), Delivery.REPLY_LOST)
    cluster.once(is_sync, lambda: cluster.ask(Delete(STATE, ANY_VERSION)))
    cluster.stop_broker(1)
    assert cluster.data(STATE) is None
    assert cluster.partition("t", 0).state is PartitionState.OFFLINE


@pytest.mark.parametrize("delivery", LOST)
def test_lost_change_with_another_controller_elected_meanwhile_ends_the_term(
    delivery: Delivery,
) -> None:
    """A lost write is either fenced, or found when the next controller reads the znode."""
    cluster = running()
    cluster.lose(writes(SetData, STATE), delivery)
    cluster.once(is_sync, lambda: cluster.seize_role(2))
    cluster.stop_broker(1)
    assert not cluster.is_active
    assert cluster.controller() == 2
    happened = delivery is Delivery.REPLY_LOST
    assert cluster.leadership("t", 0).leader_epoch == int(happened)


# The end of the session -----------------------------------------------------------------------


@pytest.mark.parametrize("delivery", OVER)
def test_session_ended_during_a_write_ends_the_term_and_the_next_term_completes_the_work(
    delivery: Delivery,
) -> None:
    cluster = running()
    cluster.lose(writes(SetData, STATE), delivery)
    cluster.stop_broker(1)
    assert cluster.epoch() == 2
    assert cluster.leadership("t", 0).leader == 2
    assert_knows_the_stored_states(cluster)


@pytest.mark.parametrize("delivery", OVER)
def test_ended_session_gets_no_more_requests(delivery: Delivery) -> None:
    cluster = running()
    seen = cluster.seen()
    cluster.lose(writes(SetData, STATE), delivery)
    cluster.stop_broker(1)
    terms = [
        issued.term
        for _, commands in seen.history
        for issued in commands
        if isinstance(issued.command, READS_AND_WRITES)
    ]
    assert terms == sorted(terms, key=lambda term: (1, 0, 2).index(term))
    assert SyncZnodes not in map(type, seen.commands)


# A loss at each read and write ----------------------------------------------------------------


def play(delivery_at: Callable[[int, Issued], Delivery]) -> Cluster:
    """A scenario in which `delivery_at` decides by the number of the read or write."""
    cluster = Cluster(1, 2, 3)
    count = 0

    def delivery(issued: Issued) -> Delivery:
        nonlocal count
        count += 1
        return delivery_at(count, issued)

    cluster.delivery = delivery
    cluster.start()
    cluster.create_topic("t", {0: [1, 2], 1: [2, 3]})
    cluster.stop_broker(1)
    cluster.create_topic("t", {0: [1, 2], 1: [2, 3], 2: [3, 2]})
    cluster.start_broker(1)
    cluster.set_isr("t", 0, [2, 1])
    cluster.announce_isr(("t", 0))
    cluster.stop_broker(2)
    return cluster


def reads_and_writes() -> int:
    """The number of reads and writes of the scenario without losses."""
    cluster = play(lambda number, issued: Delivery.ANSWERED)
    return sum(isinstance(one.command, READS_AND_WRITES) for one in cluster.commands())


def content(cluster: Cluster) -> dict[str, Any]:
    """Leader and ISR of each partition."""
    states = [cluster.leadership("t", number) for number in range(3)]
    return {str(number): (one.leader, one.isr) for number, one in enumerate(states)}


@pytest.mark.sampled
@pytest.mark.parametrize("delivery", [*LOST, *OVER])
def test_one_loss_at_any_read_or_write_does_not_change_the_outcome(delivery: Delivery) -> None:
    expected = content(play(lambda number, issued: Delivery.ANSWERED))
    for lost in range(1, reads_and_writes() + 1):
        names: list[str] = []

        def delivery_at(
            number: int, issued: Issued, lost: int = lost, names: list[str] = names
        ) -> Delivery:
            if number == lost:
                names.append(repr(issued.command))
            return delivery if number == lost else Delivery.ANSWERED

        cluster = play(delivery_at)
        assert content(cluster) == expected, names
        assert_knows_the_stored_states(cluster)


# Outcomes in several events -------------------------------------------------------------------


class PagingCluster(Cluster):
    """A cluster whose ZooKeeper reports the outcome of a command in events of two items each."""

    def ask_zookeeper(self, issued: Issued, command: ZooKeeperCommand) -> list[ZooKeeperOutcome]:
        return carry_out(self.zookeeper, self.session, issued.id, command, self.now_ms, page=2)


def test_outcomes_in_several_events_lead_to_the_same_decisions() -> None:
    """The last event of an outcome has one item."""
    decisions = []
    for cluster in (Cluster(1, 2, 3), PagingCluster(1, 2, 3)):
        seen = cluster.seen()
        cluster.start()
        cluster.create_topic("t", {0: [1, 2], 1: [1, 3], 2: [1, 2]})
        cluster.expire()
        cluster.stop_broker(1)
        assert cluster.leadership("t", 2).leader == 2
        decisions.append((seen.written(), seen.requested(), seen.notices()))
    assert decisions[0] == decisions[1]
