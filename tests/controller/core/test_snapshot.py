"""A fold that continues from a snapshot decides as one that has folded the whole log."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import pytest

from controller.core import znodes
from controller.core.commands import Issued
from controller.core.configuration import Configuration
from controller.core.events import WatchFired
from controller.core.fold import Fold
from controller.core.procedures.role.controller_election import BACK_OFF_TIMER
from controller.core.snapshot import load_snapshot, take_snapshot
from controller.core.znodes import FORCED_CANCEL_CONTENT, REASSIGN_CANCEL
from tests.controller.core.cluster import DAEMON, Cluster, writes_state
from tests.controller.core.procedures.reassignment.interrupting import (
    cancel_quietly,
    force_all,
    interruptible,
    remove_cancel,
    request,
    submit,
    submit_extra,
)
from tests.controller.core.procedures.reassignment.reassigning import T0, ask, catch_up
from tests.controller.core.procedures.reassignment.test_extra_reassignments import moves
from tests.controller.core.procedures.reassignment.test_undeletable_requests import (
    empties,
    request_with_child,
    two_replicas,
)
from tests.controller.core.slow_sessions import ZooKeeperWithSlowSessions, lose_the_session, owner
from tests.controller.core.unreliable import Delivery


class Scenario(NamedTuple):
    """The events before the snapshot, and after it."""

    before: Callable[[], Cluster]
    after: Callable[[Cluster], None]


def exiting() -> Cluster:
    cluster = Cluster(1).start()
    cluster.shut_down()
    cluster.is_stopped = False
    return cluster


def begin_a_session(cluster: Cluster) -> None:
    cluster.expire()


def backing_off() -> Cluster:
    """The epoch cannot be read: the daemon tries to become controller again after a delay."""
    cluster = Cluster(1)
    cluster.put_quietly(znodes.CONTROLLER_EPOCH, b"?")
    cluster.start()
    cluster.put_quietly(znodes.CONTROLLER_EPOCH, b"1")
    return cluster


def change_unseen(cluster: Cluster) -> None:
    cluster.happen(WatchFired(znodes.CONTROLLER, "created", -1), "watches")
    cluster.fire(BACK_OFF_TIMER)


def waiting_for_own_znode() -> Cluster:
    server = ZooKeeperWithSlowSessions.of_a_cluster()
    cluster = Cluster(1, 2, zookeeper=server, waits_for_own_znode=True, take_over=True).start()
    lose_the_session(cluster)
    return cluster


def broker_is_faster(cluster: Cluster) -> None:
    assert isinstance(cluster.zookeeper, ZooKeeperWithSlowSessions), "the server of this scenario"
    cluster.zookeeper.expire(owner(cluster))
    cluster.take_role(1)
    cluster.run()


def forced() -> Cluster:
    """Forced, but no original is in sync."""
    cluster = interruptible(6, 1, 2, 3)
    submit(cluster, {T0: [4, 5, 6]})
    catch_up(cluster, 5)
    for broker in (1, 2, 3):
        cluster.stop_broker(broker)
    force_all(cluster)
    return cluster


def force_again(cluster: Cluster) -> None:
    cluster.put(REASSIGN_CANCEL, FORCED_CANCEL_CONTENT)
    cluster.start_broker(1)
    catch_up(cluster, 1)


def undeletable_request() -> Cluster:
    cluster = two_replicas()
    cluster.refuses = empties
    request_with_child(cluster, 3)
    cluster.run()
    catch_up(cluster, 3)
    return cluster


def request_again(cluster: Cluster) -> None:
    request(cluster, {T0: [1, 2]})


def waiting_extra_entry() -> Cluster:
    """An entry for t-0 waits until an original is in sync again."""
    cluster = interruptible(4, 1, 2)
    cluster.create_topic("u", {0: [3]})
    submit(cluster, {T0: [3, 4]})
    catch_up(cluster, 3)
    for broker in (1, 2):
        cluster.stop_broker(broker)
    submit_extra(cluster, {T0: [4], ("u", 0): [4]})
    return cluster


def complete_another_move(cluster: Cluster) -> None:
    catch_up(cluster, 4, name=("u", 0))


def moved_entry_that_waits() -> Cluster:
    """A cancellation that is older than the moved entry delays it."""
    cluster = interruptible(4, 1, 2)
    cluster.once(moves, lambda: cancel_quietly(cluster))
    submit_extra(cluster, {T0: [3, 4]})
    return cluster


def assigned_to_the_daemon() -> Cluster:
    """No broker can replace the daemon yet."""
    cluster = Cluster().start()
    cluster.create_topic("t", {0: [DAEMON]})
    return cluster


def start_a_broker(cluster: Cluster) -> None:
    cluster.start_broker(1)


def deleted_while_held() -> Cluster:
    """The topic of a move that waits for the end of a cancellation is deleted."""
    cluster = interruptible(6, 1, 2, 3)

    def end_at_once(issued: Issued) -> Delivery:
        if not writes_state("t", 0)(issued):
            return Delivery.ANSWERED
        cancel_quietly(cluster)
        cluster.delivery = lambda issued: Delivery.ANSWERED
        return Delivery.SESSION_OVER

    cluster.delivery = end_at_once
    ask(cluster, (T0, [4, 5, 6]))
    cluster.put(znodes.delete_topic_path("t"), b"")
    return cluster


SCENARIOS = {
    "the daemon exits": Scenario(exiting, begin_a_session),
    "the daemon backs off": Scenario(backing_off, change_unseen),
    "the daemon waits for its own znode": Scenario(waiting_for_own_znode, broker_is_faster),
    "a forced cancellation waits": Scenario(forced, force_again),
    "a request cannot be deleted": Scenario(undeletable_request, request_again),
    "an extra entry waits": Scenario(waiting_extra_entry, complete_another_move),
    "an extra entry was moved": Scenario(moved_entry_that_waits, remove_cancel),
    "a partition waits for a broker": Scenario(assigned_to_the_daemon, start_a_broker),
    "a topic is deleted while its move waits": Scenario(deleted_while_held, remove_cancel),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_decisions_after_a_snapshot_are_those_of_the_whole_log(name: str) -> None:
    before, after = SCENARIOS[name]
    whole, continued = before(), before()
    data = take_snapshot(continued.fold)
    continued.fold = load_snapshot(data, continued.fold.controller.configuration)
    for cluster in (whole, continued):
        after(cluster)
    assert continued.commands() == whole.commands()


def test_snapshot_of_a_core_without_standbys_and_acls_is_loaded() -> None:
    """A later core loads it, if it has all fields that have no default."""
    cluster = Cluster(1).start()
    fields = msgspec.msgpack.decode(take_snapshot(cluster.fold))
    for later in ("standby", "acls", "acl_changes", "mutation_rates", "mutation_buckets"):
        del fields[later]
    data = msgspec.msgpack.encode(fields)
    cluster.fold = load_snapshot(data, cluster.fold.controller.configuration)
    cluster.create_topic("t", {0: [1]})
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1] v 0 ce 1"


def test_snapshot_of_a_fold_without_events_is_loaded() -> None:
    configuration = Configuration(broker_id=DAEMON)
    data = take_snapshot(Fold(configuration))
    assert take_snapshot(load_snapshot(data, configuration)) == data
