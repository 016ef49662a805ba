"""The drop set: the replicas of a replaced reassignment that are removed at once (KB 14.6)."""

from collections.abc import Callable

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import (
    BrokerRequest,
    Command,
    Issued,
    LeaderAndIsrRequest,
    ReadZnodes,
    StopReplicaRequest,
    WriteZnodes,
)
from controller.core.operations import Delete, SetData
from controller.core.procedures.reassignment.leader_epochs import RAISE
from controller.core.replica_assignment import changed_assignment, replicas_to_drop
from controller.core.values import ANY_VERSION, NO_LEADER
from tests.controller.core.cluster import Cluster, by_rule
from tests.controller.core.procedures.reassignment.dropping import stopped
from tests.controller.core.procedures.reassignment.interrupting import (
    files,
    interruptible,
    request,
    submit,
    two_partitions,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    as_text,
    ask,
    ask_for_isr,
    assignment,
    catch_up,
    elect_preferred,
    reassign,
)
from tests.controller.core.unreliable import Delivery

STATE = znodes.state_path(*T0)


def dropped(
    assigned: list[int],
    leader: int,
    isr: list[int],
    *,
    top: int,
    target: list[int],
    originals: list[int],
) -> list[int]:
    """The drop set as a list."""
    return list(
        replicas_to_drop(tuple(assigned), leader, tuple(isr), top, tuple(target), tuple(originals))
    )


def test_example_of_kip_236_drops_3_and_never_2() -> None:
    """[1,2] to [2,3] to [2,4], 3 not in sync: existing [1,2,3], top 2."""
    assigned = [2, 3, 1]
    assert dropped(assigned, 1, [1, 2], top=2, target=[2, 4], originals=[1, 2]) == [3]
    changed = changed_assignment((2, 3, 1), (3,), (2, 4), (1, 2))
    assert as_text(changed) == "2,4,1 adding 4 removing 1"


def test_only_intermediate_replicas_of_a_long_change_are_dropped() -> None:
    """[1,2,3] to [4,5,6] to [4,5,7]. Read literally, the rule would also drop 4 and 5."""
    assigned = [4, 5, 6, 1, 2, 3]
    assert dropped(assigned, 1, [1, 2, 3, 4], top=3, target=[4, 5, 7], originals=[1, 2, 3]) == [6]


def test_intermediate_in_sync_among_the_first_is_kept() -> None:
    assigned = [3, 1, 2]
    assert dropped(assigned, 3, [3, 1, 2], top=2, target=[4], originals=[1, 2]) == []
    assert dropped(assigned, 1, [1, 3], top=2, target=[4], originals=[1, 2]) == []
    assert dropped(assigned, 1, [1, 2, 3], top=2, target=[4], originals=[1, 2]) == [3]


def test_missing_leader_is_not_a_member() -> None:
    assigned = [3, 1]
    assert dropped(assigned, NO_LEADER, [3], top=1, target=[4], originals=[1]) == []
    assert dropped(assigned, NO_LEADER, [1], top=1, target=[4], originals=[1]) == [3]


@pytest.mark.parametrize("leader", [1, NO_LEADER])
def test_single_replica_is_never_dropped(leader: int) -> None:
    assert dropped([1], leader, [1], top=1, target=[2], originals=[1]) == []


def test_kept_intermediate_is_removed_at_completion() -> None:
    changed = changed_assignment((3, 1, 2), (), (4,), (1, 2))
    assert as_text(changed) == "4,3,1,2 adding 4,3 removing 3,1,2"
    assert changed.target == (4,)
    assert changed.origin == (1, 2)


# In a cluster -----------------------------------------------------------------------------------


def test_example_of_kip_236_deletes_the_dropped_replica_at_once() -> None:
    cluster = interruptible(4, 1, 2)
    request(cluster, {T0: [2, 3]})
    assert files(cluster) == [1, 2, 3]
    seen = cluster.seen()
    request(cluster, {T0: [2, 4]})
    assert files(cluster) == [1, 2, 4]
    assert assignment(cluster) == "2,4,1 adding 4 removing 1"
    assert seen.texts_of("replicas_dropped") == [
        "replicas 3 are removed: the new target does not need them"
    ]
    assert [one for one in seen.requests(3) if one.startswith("StopReplica")] == [
        "StopReplica v4; t-0 e 1",
        "StopReplica v4; t-0 e 1 delete",
    ]
    catch_up(cluster, 4)
    assert assignment(cluster) == "2,4"
    assert files(cluster) == [2, 4]


@pytest.mark.parametrize("version", ["2.6", "2.7"])
def test_leader_that_writes_the_isr_cannot_add_a_replica_that_is_dropped(version: str) -> None:
    """Before 2.7 it could do so between the controller's look at the ISR and the deletion. Found by
    refold explore."""
    cluster = interruptible(4, 1, 2, inter_broker_protocol_version=version)
    request(cluster, {T0: [2, 3]})
    before = cluster.leadership("t", 0)
    seen = cluster.seen()
    request(cluster, {T0: [2, 4]})
    assert files(cluster) == [1, 2, 4]
    sent = seen.broker_requests()
    deleted = next(at for at, one in enumerate(sent) if one.broker == 3 and is_deletion(one))
    sent_to_leader = [
        (each.leadership.leader_epoch > before.leader_epoch, 3 in each.assignment.replicas)
        for one in sent[:deleted]
        if isinstance(one, LeaderAndIsrRequest) and one.broker == before.leader
        for each in one.partitions
    ]
    assert ((True, False) in sent_to_leader) is (version == "2.6")


def unreadable(cluster: Cluster) -> None:
    cluster.put(STATE, b"{")


def deleted(cluster: Cluster) -> None:
    cluster.ask(Delete(STATE, ANY_VERSION))


@pytest.mark.parametrize(
    ("kind", "damage", "why"),
    [
        (ReadZnodes, unreadable, "the leader epoch of t-0 cannot be raised"),
        (WriteZnodes, deleted, f"{STATE} cannot be written (ZooKeeper code -101)"),
    ],
)
def test_replica_is_kept_if_the_leader_cannot_get_a_new_epoch(
    kind: type[Command], damage: Callable[[Cluster], None], why: str
) -> None:
    """The state is damaged only while its leader epoch is to be raised."""
    cluster = interruptible(4, 1, 2, inter_broker_protocol_version="2.6")
    request(cluster, {T0: [2, 3]})
    before, content = assignment(cluster), cluster.data(STATE)
    assert content is not None

    def damage_for_a_moment(issued: Issued) -> None:
        if by_rule(kind, RAISE)(issued):
            damage(cluster)
        elif cluster.data(STATE) in (None, b"{"):
            cluster.put(STATE, content)

    cluster.before = damage_for_a_moment
    seen = cluster.seen()
    request(cluster, {T0: [2, 4]})
    assert assignment(cluster) == before
    assert files(cluster) == [1, 2, 3]
    assert seen.leader_and_isr(1) == []
    [text] = seen.texts_of("reassignment_failed")
    assert why in text


def is_deletion(request: BrokerRequest) -> bool:
    return isinstance(request, StopReplicaRequest) and any(one.delete for one in request.partitions)


def test_long_example_through_reassign_partitions_drops_the_same_replicas() -> None:
    cluster = interruptible(7, 1, 2, 3)
    submit(cluster, {T0: [4, 5, 6]})
    catch_up(cluster, 4)
    submit(cluster, {T0: [4, 5, 7]})
    assert assignment(cluster) == "4,5,7,1,2,3 adding 4,5,7 removing 1,2,3"
    assert files(cluster) == [1, 2, 3, 4, 5, 7]


def test_first_target_drops_nothing() -> None:
    cluster = interruptible(4, 1, 2)
    ask_for_isr(cluster, 1)
    seen = cluster.seen()
    request(cluster, {T0: [3]})
    assert seen.texts_of("replicas_dropped") == []
    assert files(cluster) == [1, 2, 3]


def test_target_that_needs_each_replica_drops_nothing() -> None:
    cluster = interruptible(4, 1, 2)
    request(cluster, {T0: [2, 3]})
    seen = cluster.seen()
    request(cluster, {T0: [2, 3, 4]})
    assert assignment(cluster) == "2,3,4,1 adding 3,4 removing 1"
    assert seen.texts_of("replicas_dropped") == []
    assert files(cluster) == [1, 2, 3, 4]


def test_leading_intermediate_is_kept_until_another_replica_leads() -> None:
    cluster = interruptible(4, 1, 2)
    request(cluster, {T0: [3, 4]})
    catch_up(cluster, 3)
    for broker in (1, 2):
        cluster.stop_broker(broker)
    assert cluster.leadership("t", 0).leader == 3
    request(cluster, {T0: [4]})
    assert cluster.leadership("t", 0).leader == 3
    assert assignment(cluster) == "4,3,1,2 adding 4,3 removing 3,1,2"
    catch_up(cluster, 4)
    assert assignment(cluster) == "4"
    assert cluster.leadership("t", 0).leader == 4
    assert 3 not in files(cluster)


def test_kept_intermediate_starts_with_its_broker() -> None:
    """Its broker was down from the beginning, so that it was sent nothing. Found by refold
    explore."""
    cluster = interruptible(4, 1, 2)
    cluster.stop_broker(4)
    cluster.stop_broker(2)
    request(cluster, {T0: [4, 3]})
    request(cluster, {T0: [1, 2]})
    assert assignment(cluster) == "1,2,4 adding 4 removing 4"
    cluster.start_broker(4)
    assert 4 in files(cluster)


def test_dropped_replica_does_not_return_to_the_isr() -> None:
    cluster = interruptible(4, 1, 2)
    request(cluster, {T0: [3, 4]})
    catch_up(cluster, 3)
    request(cluster, {T0: [4]})
    assert cluster.leadership("t", 0).isr == (1, 2)
    assert ask_for_isr(cluster, 1, 2, 3) != 0


def test_deposed_controller_does_not_request_the_deletion_of_a_dropped_replica() -> None:
    """Broker 4 is not in sync: no state is written before its replica is deleted. The next
    controller continues with the earlier target, which includes broker 4. Found by refold
    explore."""
    cluster = interruptible(4, 1)
    reassign(cluster, 4, 3)

    is_create = by_rule(WriteZnodes, "replica deletions")

    def lose_the_role(issued: Issued) -> Delivery:
        if not is_create(issued):
            return Delivery.ANSWERED
        cluster.delivery = lambda issued: Delivery.ANSWERED
        return Delivery.SESSION_OVER

    cluster.delivery = lose_the_role
    seen = cluster.seen()
    ask(cluster, (T0, [2, 3]))
    assert assignment(cluster) == "4,3,1 adding 4,3 removing 1"
    assert stopped(seen, 4) == []
    assert files(cluster) == [1, 3, 4]


def test_second_partition_of_the_topic_is_written_with_the_assignment_before_the_drop() -> None:
    """The request begins t-0 and replaces the target of t-1, one write each. If the controller
    fails after the first write, the next one finds t-1 as it was."""
    cluster = two_partitions((2,), (1, 2, 3))
    request(cluster, {T1: [2, 4, 3, 1]})
    seen = cluster.seen()
    request(cluster, {T0: [4, 1, 2], T1: [3, 1, 2]})
    written = [
        as_text(znodes.read_topic("t", one.data).assignments[1])
        for one in seen.writes()
        if isinstance(one, SetData) and one.path == znodes.topic_path("t")
    ]
    assert written[:2] == ["2,4,3,1 adding 4", "3,1,2"]
    assert assignment(cluster, T1) == "3,1,2"


# Partitions without a leader ----------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2.6", "3.9"])
def test_replica_of_a_partition_that_never_had_a_leader_is_dropped(version: str) -> None:
    """The first leader is elected when the broker of the originals registers."""
    cluster = interruptible(4, 9, inter_broker_protocol_version=version)
    reassign(cluster, 3)
    reassign(cluster, 4)
    assert assignment(cluster) == "4,9 adding 4 removing 9"
    cluster.start_broker(9)
    assert cluster.state("t", 0) == "leader 4 e 0 isr [4,9] v 0 ce 1"


def test_below_ibp_2_7_a_leader_that_replaces_a_dropped_one_gets_one_new_epoch() -> None:
    """The leader gets another new epoch for the new target."""
    cluster = interruptible(5, 1, inter_broker_protocol_version="2.6")
    reassign(cluster, 3, 5)
    cluster.set_isr("t", 0, [1, 3])
    cluster.announce_isr(T0)
    assert elect_preferred(cluster) == codes.NONE
    assert cluster.state("t", 0) == "leader 3 e 2 isr [1,3] v 3 ce 1"
    seen = cluster.seen()
    reassign(cluster, 4)
    sent = [each for one in seen.leader_and_isr(1) for each in one.partitions]
    assert list(dict.fromkeys(one.leadership.leader_epoch for one in sent)) == [3, 4]
    assert assignment(cluster) == "4,1 adding 4 removing 1"


def test_unclean_leader_is_elected_when_replicas_are_dropped() -> None:
    """Unclean elections are allowed after the leader died. The new leader stays when another broker
    dies."""
    cluster = interruptible(4, 1, 2)
    ask_for_isr(cluster, 1)
    reassign(cluster, 3)
    cluster.stop_broker(1)
    assert cluster.leadership("t", 0).leader == NO_LEADER
    allowed = b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}'
    cluster.put_quietly(znodes.topic_config_path("t"), allowed)
    reassign(cluster, 4)
    state = cluster.state("t", 0)
    assert cluster.leadership("t", 0).leader == 2
    cluster.stop_broker(3)
    assert cluster.state("t", 0) == state
