"""Log directories that fail (KB 3.11, 12.4.2)."""

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import LeaderAndIsrRequest
from replay.cluster_view.from_context import partition_of
from replay.world.requests import GetChildren
from tests.controller.core.cluster import Cluster
from tests.controller.core.endpoint import controlled_shutdown
from tests.controller.core.procedures.reassignment.interrupting import (
    cancel_all,
    interruptible,
    submit,
)
from tests.controller.core.procedures.reassignment.reassigning import T0, ask_for_isr, assignment
from tests.controller.core.procedures.znode_changes.log_dir_failures import (
    announce,
    failed_directory,
    storage_errors,
)


def test_failed_directory_moves_its_leaders_and_leaves_the_isr() -> None:
    for protocol in ("2.6", "3.9"):
        cluster = Cluster(1, 2, inter_broker_protocol_version=protocol).start()
        cluster.create_topic("t", {0: [1, 2], 1: [1, 2], 2: [2, 1]})
        storage_errors(cluster, 1, ("t", 0), ("t", 2))
        seen = cluster.seen()
        announce(cluster, b'{"version":1,"broker":1,"event":1}')
        assert cluster.state("t", 0) == "leader 2 e 1 isr [2] v 1 ce 1"
        assert cluster.state("t", 1) == "leader 1 e 0 isr [1,2] v 0 ce 1"
        assert cluster.state("t", 2) == "leader 2 e 1 isr [2] v 1 ce 1"
        assert cluster.ask(GetChildren(znodes.LOG_DIR_EVENTS)).children == ()
        assert seen.texts_of("replicas_in_failed_log_dir")
        metadata = [one for one in seen.broker_requests() if hasattr(one, "live_brokers")]
        offline = {one.partition: one.offline_replicas for one in metadata[-1].partitions}
        assert offline.get(0, (1,)) == (1,)


def test_broker_with_the_failed_directory_is_not_sent_the_next_leaders() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2, 3]})
    storage_errors(cluster, 1, ("t", 0))
    seen = cluster.seen()
    announce(cluster, b'{"version":1,"broker":1,"event":1}')
    assert cluster.leadership("t", 0).leader == 2
    assert [one.partitions[0].leadership.leader for one in seen.leader_and_isr(1)] == [1]
    controlled_shutdown(cluster, 2)
    assert cluster.leadership("t", 0).leader == 3
    assert [one.partitions[0].leadership.leader for one in seen.leader_and_isr(1)] == [1]


def test_repaired_directory_counts_after_a_restart() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    storage_errors(cluster, 1, ("t", 0))
    announce(cluster, b'{"version":1,"broker":1,"event":1}')
    assert cluster.fold.controller.context.offline_dirs
    storage_errors(cluster, 1)
    cluster.bounce(1)
    assert cluster.fold.controller.context.offline_dirs == {}


def test_replica_without_an_error_in_a_later_answer_is_online() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    storage_errors(cluster, 1, ("t", 0))
    announce(cluster, b'{"version":1,"broker":1,"event":1}')
    storage_errors(cluster, 1)
    before = cluster.state("t", 0)
    announce(cluster, b'{"version":1,"broker":1,"event":1}')
    assert cluster.fold.controller.context.offline_dirs == {}
    assert cluster.state("t", 0) == before


def test_replicas_of_a_dead_broker_are_not_shown_in_a_failed_directory() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    storage_errors(cluster, 1, ("t", 0))
    announce(cluster, b'{"version":1,"broker":1,"event":1}')
    cluster.stop_broker(1)
    shown = partition_of(cluster.fold.controller.context, "t", 0)
    assert shown is not None
    assert (sorted(shown.offline_replicas), sorted(shown.in_failed_dirs)) == ([1], [])


def test_replica_with_another_error_in_a_later_answer_stays_offline() -> None:
    cluster = Cluster(1, 2, inter_broker_protocol_version="2.6").start()
    cluster.create_topic("t", {0: [1, 2]})
    storage_errors(cluster, 1, ("t", 0))
    announce(cluster, b'{"version":1,"broker":1,"event":1}')
    cluster.broker_errors = lambda request: (
        [("t", 0, codes.STALE_CONTROLLER_EPOCH)] if isinstance(request, LeaderAndIsrRequest) else []
    )
    announce(cluster, b'{"version":1,"broker":1,"event":1}')
    seen = cluster.seen()
    cluster.start_broker(3)
    [update] = [one for one in seen.requests(3) if "t-0" in one]
    assert update.endswith("offline [1]")


@pytest.mark.parametrize("unknown", ["deleted", bytes(16).hex()])
@pytest.mark.parametrize("code", [codes.KAFKA_STORAGE_ERROR, codes.STALE_CONTROLLER_EPOCH])
def test_error_of_an_unknown_topic_does_not_hide_a_failed_directory(
    unknown: str, code: int
) -> None:
    """A topic may have been deleted before the response arrives."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.is_slow = lambda request: isinstance(request, LeaderAndIsrRequest)
    announce(cluster, b'{"version":1,"broker":1,"event":1}')
    cluster.happen(failed_directory(cluster, ("t", 0), (unknown, 0, code)), "broker:1")
    assert cluster.leadership("t", 0).leader == 2


def test_waiting_rollback_continues_when_the_directory_of_an_original_is_repaired() -> None:
    cluster = interruptible(3, 1)
    submit(cluster, {T0: [2, 3]})
    assert ask_for_isr(cluster, 1, 2) == codes.NONE
    storage_errors(cluster, 1, T0)
    announce(cluster, b'{"version":1,"broker":1,"event":1}')
    cancel_all(cluster)
    assert ask_for_isr(cluster, 2, 1) == codes.NONE
    assert assignment(cluster) == "2,3,1 adding 2,3 removing 1"
    storage_errors(cluster, 1)
    announce(cluster, b'{"version":1,"broker":1,"event":1}')
    assert assignment(cluster) == "1"
    assert cluster.leadership("t", 0).leader == 1


def test_unreadable_notification_is_reported_and_deleted() -> None:
    cluster = Cluster(1).start()
    seen = cluster.seen()
    announce(cluster, b"nonsense")
    assert [code for code, _ in seen.notices()] == ["unreadable_znode"]
    assert cluster.ask(GetChildren(znodes.LOG_DIR_EVENTS)).children == ()


def test_notifications_older_than_the_failover_are_deleted_unread() -> None:
    cluster = Cluster(1)
    announce(cluster, b'{"version":1,"broker":1,"event":1}')
    seen = cluster.seen()
    cluster.start()
    assert cluster.ask(GetChildren(znodes.LOG_DIR_EVENTS)).children == ()
    assert seen.notices() == []
