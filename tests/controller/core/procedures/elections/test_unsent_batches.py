"""A state machine of Kafka keeps its unsent requests when it is fenced during a change (KB
12.2.1)."""

from collections.abc import Callable

import pytest

from controller.core import znodes
from controller.core.commands import Issued, WriteZnodes
from controller.core.election import OFFLINE
from controller.core.procedures.elections.unsent_batches import PARTITIONS, REPLICAS
from controller.core.snapshot import load_snapshot, take_snapshot
from controller.core.state_machines import ReplicaState
from tests.controller.core.cluster import Cluster, by_rule

both_rules = pytest.mark.parametrize("rules", ["refold", "kafka"])
STOCK = 9


def fence(cluster: Cluster, which: Callable[[Issued], bool]) -> list[int]:
    """Another broker takes the role just before the command. Returns a list for its session."""
    sessions: list[int] = []
    cluster.once(which, lambda: sessions.append(cluster.seize_role(STOCK)))
    return sessions


def fenced_while_replicas_go_offline(rules: str) -> tuple[Cluster, int]:
    """t-0 is on [1,2] and t-1 on [1,3]. Broker 2 dies."""
    cluster = Cluster(1, 2, 3, rules=rules).start()
    cluster.create_topic("t", {0: [1, 2], 1: [1, 3]})
    sessions = fence(cluster, by_rule(WriteZnodes, "remove 2 from ISR"))
    cluster.stop_broker(2)
    assert not cluster.is_active
    return cluster, sessions[0]


# `batch-begins-empty` -----------------------------------------------------------------------


@both_rules
@pytest.mark.deviates("batch-begins-empty")
def test_replicas_change_state_again_after_the_role_returns(rules: str) -> None:
    """By Kafka's rule dead brokers stay in ISRs from then on."""
    cluster, session = fenced_while_replicas_go_offline(rules)
    seen = cluster.seen()
    cluster.leave_role(session)
    assert cluster.is_active
    cluster.stop_broker(3)
    isrs = [cluster.leadership("t", number).isr for number in (0, 1)]
    assert isrs == ([(1,), (1,)] if rules == "refold" else [(1, 2), (1, 3)])
    cluster.start_broker(4)
    unsent = [subject for code, subject in seen.notices() if code == "batch_not_empty"]
    assert unsent == ([REPLICAS] * 3 if rules == "kafka" else [])


@both_rules
def test_replicas_of_a_started_broker_come_online_after_the_role_returns(rules: str) -> None:
    """By Kafka's rule they stay as the failover found them."""
    cluster, session = fenced_while_replicas_go_offline(rules)
    cluster.leave_role(session)
    cluster.start_broker(2)
    expected = ReplicaState.ONLINE if rules == "refold" else ReplicaState.DELETION_INELIGIBLE
    assert cluster.partition("t", 0).replica_states[2] is expected


@both_rules
@pytest.mark.deviates("batch-begins-empty")
def test_partitions_change_state_again_after_the_role_returns(rules: str) -> None:
    """The first leader of one partition is created, the election of the other is fenced."""
    cluster = Cluster(1, 2, rules=rules).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.change_topic_quietly("new", {0: [2]})
    cluster.unregister(1)
    sessions = fence(cluster, by_rule(WriteZnodes, OFFLINE.name))
    cluster.expire()
    assert cluster.state("new", 0) == "leader 2 e 0 isr [2] v 0 ce 2"
    assert not cluster.is_active
    seen = cluster.seen()
    cluster.leave_role(sessions[0])
    assert cluster.is_active
    assert cluster.leadership("t", 0).leader == (2 if rules == "refold" else -1)
    assert seen.notices().count(("batch_not_empty", PARTITIONS)) == (rules == "kafka")


@both_rules
def test_fenced_change_without_unsent_requests_has_no_effect_later(rules: str) -> None:
    cluster = Cluster(1, 2, rules=rules).start()
    sessions = fence(cluster, by_rule(WriteZnodes, "create first leader"))
    cluster.create_topic("t", {0: [1, 2]})
    assert not cluster.is_active
    cluster.leave_role(sessions[0])
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1,2] v 0 ce 3"


# Scope --------------------------------------------------------------------------------------------


def test_only_the_fenced_state_machine_fails() -> None:
    """New topics get their leaders."""
    cluster, session = fenced_while_replicas_go_offline("kafka")
    cluster.leave_role(session)
    assert list(cluster.fold.controller.unsent) == [REPLICAS]


def test_restarted_process_has_no_unsent_requests() -> None:
    cluster, session = fenced_while_replicas_go_offline("kafka")
    cluster.zookeeper.end_session(session)
    again = Cluster(zookeeper=cluster.zookeeper, rules="kafka").start()
    assert again.is_active
    assert again.leadership("t", 0).isr == (1,)


def test_unsent_requests_are_in_the_snapshot() -> None:
    cluster, session = fenced_while_replicas_go_offline("kafka")
    cluster.fold = load_snapshot(take_snapshot(cluster.fold), cluster.fold.controller.configuration)
    cluster.leave_role(session)
    assert cluster.leadership("t", 0).isr == (1, 2)


def test_unsent_requests_are_never_sent() -> None:
    cluster, session = fenced_while_replicas_go_offline("kafka")
    seen = cluster.seen()
    cluster.leave_role(session)
    written = [path for path in seen.written() if path.startswith(znodes.TOPICS)]
    assert written == []
