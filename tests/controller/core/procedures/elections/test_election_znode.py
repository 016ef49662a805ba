"""/admin/preferred_replica_election (KB 3.9, 6.2 step 13): CI-16 to CI-18, CI-28."""

import pytest

from controller.core import znodes
from controller.core.commands import ReadStats, ReadZnodes, WriteZnodes
from controller.core.operations import Create, Delete
from controller.core.values import ANY_VERSION
from tests.controller.core.cluster import Cluster, Seen, by_rule, reads, writes_state
from tests.controller.core.endpoint import controlled_shutdown
from tests.controller.core.procedures.elections.electing import (
    election_json,
    is_requested,
    put_election,
    put_election_quietly,
    restart,
)
from tests.controller.core.procedures.reassignment.reassigning import ask
from tests.controller.core.procedures.topics.deleting import mark
from tests.controller.core.unreliable import Delivery

PATH = znodes.PREFERRED_ELECTION
T0, T1 = ("t", 0), ("t", 1)
MOVED = "leader 2 e 2 isr [1,2] v 3 ce 1"
DELETE = Delete(PATH, ANY_VERSION)


def led_by_another(**settings: str) -> Cluster:
    """t-0 [2,1], led by 1 since broker 2 was restarted."""
    cluster = Cluster(1, 2, 3, **settings).start()
    cluster.create_topic("t", {0: [2, 1]})
    restart(cluster, 2, T0)
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1,2] v 2 ce 1"
    return cluster


def is_watched_again(seen: Seen) -> bool:
    """Whether the znode is watched again after its deletion."""
    commands = seen.commands
    deleted = max(
        place
        for place, one in enumerate(commands)
        if isinstance(one, WriteZnodes) and DELETE in one.operations
    )
    return any(isinstance(one, ReadStats) and PATH in one.paths for one in commands[deleted:])


# While the daemon is controller -----------------------------------------------------------------


def test_CI_16_preferred_replica_is_elected() -> None:
    cluster = led_by_another()
    put_election(cluster, T0)
    assert cluster.state("t", 0) == MOVED
    assert not is_requested(cluster)


def test_CI_17_requests_are_carried_out_one_after_the_other() -> None:
    cluster = led_by_another()
    put_election(cluster, T0)
    restart(cluster, 2, T0)
    assert cluster.leadership("t", 0).leader_epoch == 3
    put_election(cluster, T0)
    assert cluster.state("t", 0) == "leader 2 e 4 isr [1,2] v 6 ce 1"
    assert not is_requested(cluster)


def test_CI_18_dead_preferred_replica_changes_nothing() -> None:
    cluster = led_by_another()
    cluster.stop_broker(2)
    before = cluster.state("t", 0)
    seen = cluster.seen()
    put_election(cluster, T0)
    assert not is_requested(cluster)
    assert cluster.state("t", 0) == before
    assert ("no_leader_elected", "t-0") in seen.notices()


def test_preferred_replica_in_controlled_shutdown_changes_nothing() -> None:
    cluster = led_by_another()
    controlled_shutdown(cluster, 2)
    before = cluster.state("t", 0)
    put_election(cluster, T0)
    assert not is_requested(cluster)
    assert cluster.state("t", 0) == before


def test_request_is_deleted_after_the_elections_and_the_znode_is_watched_again() -> None:
    cluster = led_by_another()
    seen = cluster.seen()
    put_election(cluster, T0)
    assert seen.written() == [znodes.state_path("t", 0), PATH]
    assert seen.writes()[-1] == DELETE
    assert is_watched_again(seen)
    assert seen.kinds(1) == seen.kinds(2) == ["LeaderAndIsr", "UpdateMetadata"]
    assert seen.kinds(3) == ["UpdateMetadata"]


def test_partitions_that_need_no_election_get_none() -> None:
    """A second leader epoch would make clients refresh their metadata without need."""
    cluster = led_by_another()
    put_election(cluster, T0)
    seen = cluster.seen()
    put_election(cluster, T0, T0)
    assert seen.writes() == [DELETE]
    assert seen.requested() == {}
    assert seen.notices() == []


def test_partitions_that_cannot_be_elected_are_reported_and_the_others_elected() -> None:
    cluster = led_by_another()
    cluster.create_topic("d", {0: [3]})
    cluster.stop_broker(3)
    mark(cluster, "d")
    seen = cluster.seen()
    put_election(cluster, ("missing", 0), ("t", 7), ("d", 0), T0)
    assert cluster.state("t", 0) == MOVED
    assert not is_requested(cluster)
    assert seen.notices() == [
        ("election_refused", "missing-0"),
        ("election_refused", "t-7"),
        ("election_refused", "d-0"),
    ]
    assert seen.texts() == [
        "no preferred election: The partition does not exist.",
        "no preferred election: The partition does not exist.",
        "no preferred election: The topic is being deleted",
    ]


BAD = [b"", b"{", b"\xff", b"7", b'{"partitions":null}', b'{"partitions":[{"topic":"t"}]}']


@pytest.mark.parametrize("data", BAD)
def test_unreadable_request_is_reported_and_deleted(data: bytes) -> None:
    cluster = led_by_another()
    seen = cluster.seen()
    cluster.put(PATH, data)
    assert seen.notices() == [("unreadable_znode", PATH)]
    assert not is_requested(cluster)
    put_election(cluster, T0)
    assert cluster.state("t", 0) == MOVED


@pytest.mark.parametrize("data", BAD)
def test_stock_controller_fails_on_json_that_is_no_request(data: bytes) -> None:
    """Kafka treats other content as an empty request. The daemon deletes both."""
    cluster = Cluster(1, 2, 3, rules="kafka", is_broker=True).start()
    seen = cluster.seen()
    cluster.put(PATH, data)
    assert is_requested(cluster) is (data not in (b"{", b"\xff"))
    assert (("unreadable_znode", PATH) in seen.notices()) is not is_requested(cluster)


def test_request_deleted_before_the_controller_checks_it_is_no_error() -> None:
    cluster = led_by_another()
    put_election_quietly(cluster, T0)
    cluster.remove_quietly(PATH)
    seen = cluster.seen()
    cluster.run()
    assert seen.writes() == []
    put_election(cluster, T0)
    assert cluster.state("t", 0) == MOVED


def test_request_deleted_before_the_controller_reads_it_is_no_error() -> None:
    cluster = led_by_another()
    read = by_rule(ReadZnodes, "preferred replica election")
    cluster.once(read, lambda: cluster.remove_quietly(PATH))
    seen = cluster.seen()
    put_election(cluster, T0)
    assert seen.writes() == [Delete(PATH, ANY_VERSION)]
    put_election(cluster, T0)
    assert cluster.state("t", 0) == MOVED


def test_request_rewritten_during_the_elections_is_deleted() -> None:
    cluster = led_by_another()
    cluster.once(
        writes_state("t", 0), lambda: cluster.put_quietly(PATH, election_json(("other", 0)))
    )
    seen = cluster.seen()
    put_election(cluster, T0)
    assert not is_requested(cluster)
    assert seen.notices() == []


def test_request_that_cannot_be_deleted_is_carried_out_once() -> None:
    """The znode has a child. Kafka would read the request again without an end."""
    cluster = led_by_another()
    put_election_quietly(cluster, T0)
    cluster.ask(Create(f"{PATH}/below"))
    seen = cluster.seen()
    cluster.run()
    assert cluster.state("t", 0) == MOVED
    assert seen.notices() == [("request_stays", PATH)]
    assert seen.writes().count(DELETE) == 1
    cluster.remove_quietly(PATH)
    cluster.run()
    restart(cluster, 2, T0)
    put_election(cluster, T0)
    assert cluster.leadership("t", 0).leader == 2


@pytest.mark.parametrize("delivery", [Delivery.REQUEST_LOST, Delivery.REPLY_LOST])
def test_lost_connection_at_the_deletion_loses_nothing(delivery: Delivery) -> None:
    cluster = led_by_another()
    cluster.lose(
        lambda issued: (
            isinstance(issued.command, WriteZnodes) and DELETE in issued.command.operations
        ),
        delivery,
    )
    seen = cluster.seen()
    put_election(cluster, T0)
    assert cluster.state("t", 0) == MOVED
    assert not is_requested(cluster)
    assert is_watched_again(seen)


# Changes of the controller ----------------------------------------------------------------------


@pytest.mark.parametrize("replicas", [[1], [2, 1]])
def test_CI_28_replaced_controller_leaves_the_request_to_the_next(
    replicas: list[int],
) -> None:
    """Even if no election is needed, because the deletion is fenced."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: replicas})
    ask(cluster, (T0, replicas[::-1]))
    before = cluster.state("t", 0)
    put_election_quietly(cluster, T0)
    cluster.seize_role(2)
    seen = cluster.seen()
    cluster.run()
    assert not cluster.is_active
    assert is_requested(cluster)
    assert cluster.state("t", 0) == before
    assert seen.requested() == {}
    assert seen.channels() == ["close channel to 1", "close channel to 2"]


def test_new_controller_continues_with_a_request() -> None:
    cluster = led_by_another()
    put_election_quietly(cluster, ("missing", 0), T0)
    seen = cluster.seen()
    cluster.expire()
    assert cluster.state("t", 0) == "leader 2 e 2 isr [1,2] v 3 ce 2"
    assert not is_requested(cluster)
    assert is_watched_again(seen)
    assert seen.notices() == [("election_refused", "missing-0")]
    assert seen.texts_of("failover_done")


def test_new_controller_processes_reassignments_first() -> None:
    cluster = led_by_another()
    put_election_quietly(cluster, T0)
    seen = cluster.seen()
    cluster.expire()
    read = [
        path
        for one in seen.commands
        if isinstance(one, ReadZnodes | ReadStats)
        for path in one.paths
        if path in (PATH, znodes.REASSIGN_PARTITIONS)
    ]
    assert read[:2] == [PATH, znodes.REASSIGN_PARTITIONS], "both are watched from the start"
    assert read[2:4] == [znodes.REASSIGN_PARTITIONS, PATH]


def test_new_controller_deletes_a_request_without_anything_left_to_elect() -> None:
    """The failover has already elected the preferred replica in place of a dead leader."""
    cluster = led_by_another()
    put_election_quietly(cluster, T0)
    cluster.unregister(1)
    cluster.expire()
    assert cluster.state("t", 0) == "leader 2 e 3 isr [2] v 4 ce 2"
    assert not is_requested(cluster)


@pytest.mark.parametrize("data", BAD)
def test_new_controller_deletes_an_unreadable_request(data: bytes) -> None:
    cluster = led_by_another()
    cluster.put_quietly(PATH, data)
    seen = cluster.seen()
    cluster.expire()
    assert seen.notices() == [("unreadable_znode", PATH)]
    assert not is_requested(cluster)
    assert cluster.is_active


def test_request_deleted_during_a_failover_leaves_the_watch_for_the_next_one() -> None:
    """On servers before 3.6 its deletion uses up the watch that the failover has set."""
    cluster = led_by_another()
    put_election_quietly(cluster, T0)
    cluster.once(reads(znodes.BROKER_IDS), lambda: cluster.remove_quietly(PATH))
    seen = cluster.seen()
    cluster.expire()
    assert seen.commands[-1] == ReadStats((PATH,), True)
    put_election(cluster, T0)
    assert cluster.leadership("t", 0).leader == 2


def test_standby_leaves_the_request_alone() -> None:
    cluster = Cluster(1)
    cluster.take_role(1)
    cluster.connect()
    seen = cluster.seen()
    put_election(cluster, T0)
    assert seen.commands == []
    assert is_requested(cluster)
