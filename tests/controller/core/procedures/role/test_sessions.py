"""Expired sessions, lost connections and shutdowns at any step (KB 13)."""

from collections.abc import Callable

import pytest

from controller.core import znodes
from controller.core.commands import (
    BrokerRequest,
    CloseChannel,
    Issued,
    LeaderAndIsrRequest,
    OpenChannel,
    Stop,
    StopReplicaRequest,
    UpdateMetadataRequest,
    WriteAtomically,
    WriteZnodes,
)
from controller.core.events import (
    SessionDisconnected,
    SessionExpired,
    ShutdownRequested,
    ZnodesWritten,
)
from controller.core.operations import OK
from tests.controller.core.cluster import Cluster, by_rule, reads, writes_state
from tests.controller.core.unreliable import Delivery

Which = Callable[[Issued], bool]

ELECTION = by_rule(WriteAtomically, "controller election")
FAILOVER_STEPS = {
    "election": ELECTION,
    "feature": reads(znodes.FEATURE),
    "notifications": reads(znodes.ISR_CHANGES),
    "brokers": reads(znodes.BROKER_IDS),
    "topics": reads(znodes.topic_path("t")),
    "states": reads(znodes.state_path("t", 0)),
    "isr removal": lambda issued: issued.reason.rule.startswith("remove "),
    "first leader": by_rule(WriteZnodes, "create first leader"),
}
BROKER_CHANGE_STEPS = {
    "brokers": reads(znodes.BROKER_IDS),
    "registrations": reads(znodes.broker_path(2)),
    "state": reads(znodes.state_path("t", 0)),
    "new leader": writes_state("t", 0),
}
OVER = [Delivery.SESSION_OVER, Delivery.SESSION_OVER_AFTER]
LOST = [Delivery.REQUEST_LOST, Delivery.REPLY_LOST]
REQUESTS = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


def found_with_a_dead_replica() -> Cluster:
    """An existing cluster for a failover: a partition with a dead leader, and a new topic."""
    before = Cluster(1, 2).start()
    before.create_topic("t", {0: [1, 2]})
    before.shut_down()
    before.unregister(1)
    before.change_topic_quietly("u", {0: [2]})
    return Cluster(zookeeper=before.zookeeper)


def assert_nothing_of_an_old_term(cluster: Cluster) -> None:
    """After the end of a session no command carries an earlier term."""
    ended = 0
    for recorded, issued in cluster.history:
        if isinstance(recorded.event, SessionExpired):
            ended = max([ended, recorded.term])
            late = [one for one in issued if not isinstance(one.command, CloseChannel)]
            ours = [one for one in late if isinstance(one.command, REQUESTS | WriteZnodes)]
            assert ours == []
            continue
        sent = [one for one in issued if isinstance(one.command, REQUESTS | WriteZnodes)]
        assert all(one.term > ended for one in sent)


def sent_epochs(cluster: Cluster) -> list[int]:
    requests: list[BrokerRequest] = [
        one.command for one in cluster.commands() if isinstance(one.command, REQUESTS)
    ]
    return [one.controller_epoch for one in requests]


# The end of a session -------------------------------------------------------------------------


@pytest.mark.parametrize("delivery", OVER)
@pytest.mark.parametrize("step", FAILOVER_STEPS)
def test_session_that_ends_in_a_failover_is_followed_by_another_failover(
    step: str, delivery: Delivery
) -> None:
    cluster = found_with_a_dead_replica()
    cluster.lose(FAILOVER_STEPS[step], delivery)
    cluster.start()
    assert_nothing_of_an_old_term(cluster)
    assert cluster.is_active
    assert cluster.leadership("t", 0).leader == 2
    assert cluster.leadership("u", 0).leader == 2
    assert sent_epochs(cluster) == sorted(sent_epochs(cluster))


@pytest.mark.parametrize("delivery", OVER)
@pytest.mark.parametrize("step", BROKER_CHANGE_STEPS)
def test_session_that_ends_in_a_broker_change_is_followed_by_a_failover(
    step: str, delivery: Delivery
) -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.lose(BROKER_CHANGE_STEPS[step], delivery)
    seen = cluster.seen()
    cluster.stop_broker(1)
    assert_nothing_of_an_old_term(cluster)
    assert cluster.epoch() == 2
    assert cluster.leadership("t", 0).leader == 2
    closed = [one.broker for one in seen.commands if isinstance(one, CloseChannel)]
    opened = [one.broker for one in seen.commands if isinstance(one, OpenChannel)]
    assert sorted(closed) == [1, 2, 3]
    assert opened == [2, 3]


def test_outcomes_of_an_ended_term_are_ignored() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.lose(writes_state("t", 0), Delivery.SESSION_OVER)
    cluster.stop_broker(1)
    late = next(
        issued.id
        for issued in cluster.commands()
        if writes_state("t", 0)(issued) and issued.reason.rule.startswith("offline")
    )
    state = cluster.state("t", 0)
    seen = cluster.seen()
    cluster.happen(ZnodesWritten(late, 0, [OK], [1]), "zookeeper")
    assert seen.commands == []
    assert cluster.state("t", 0) == state


def test_events_queued_in_an_ended_term_are_discarded() -> None:
    """KB 3.1.2: Expire clears the queue. The failover reads everything."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.once(writes_state("t", 0), lambda: cluster.change_topic_quietly("u", {0: [2]}))
    cluster.lose(writes_state("t", 0), Delivery.SESSION_OVER)
    seen = cluster.seen()
    cluster.stop_broker(1)
    created = [path for path in seen.written() if path == znodes.state_path("u", 0)]
    assert created == [znodes.state_path("u", 0)]
    assert cluster.state("u", 0) == "leader 2 e 0 isr [2] v 0 ce 2"


def test_broker_elected_after_the_session_ended_keeps_the_role() -> None:
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    cluster.zookeeper.end_session(cluster.session)
    cluster.take_role(1)
    cluster.happen(SessionExpired(cluster.session), "session")
    cluster.connect()
    assert (cluster.is_active, cluster.controller()) == (False, 1)
    assert seen.channels() == ["close channel to 1", "close channel to 2"]
    assert seen.requested() == {}


# Lost connections -----------------------------------------------------------------------------


@pytest.mark.parametrize("delivery", LOST)
@pytest.mark.parametrize("step", [step for step in FAILOVER_STEPS if step != "election"])
def test_lost_connection_in_a_failover_does_not_change_the_outcome(
    step: str, delivery: Delivery
) -> None:
    whole, broken = found_with_a_dead_replica(), found_with_a_dead_replica()
    broken.lose(FAILOVER_STEPS[step], delivery)
    wanted, seen = whole.seen(), broken.seen()
    whole.start()
    broken.start()
    assert broken.epoch() == whole.epoch() == 2
    assert seen.requested() == wanted.requested()
    for topic in ("t", "u"):
        assert broken.state(topic, 0) == whole.state(topic, 0)


@pytest.mark.parametrize("delivery", LOST)
@pytest.mark.parametrize("step", BROKER_CHANGE_STEPS)
def test_lost_connection_in_a_broker_change_does_not_change_the_outcome(
    step: str, delivery: Delivery
) -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.lose(BROKER_CHANGE_STEPS[step], delivery)
    seen = cluster.seen()
    cluster.stop_broker(1)
    assert cluster.state("t", 0) == "leader 2 e 1 isr [2] v 1 ce 1"
    assert seen.channels() == ["close channel to 1"]
    assert seen.kinds(2) == ["LeaderAndIsr", "UpdateMetadata"] * 2


def test_disconnected_controller_stays_active() -> None:
    """KB 13.1: a lost connection alone changes nothing."""
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    cluster.happen(SessionDisconnected(cluster.session, "reset"), "session")
    assert cluster.is_active
    assert seen.commands == []


def test_read_waits_for_the_connection() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.happen(SessionDisconnected(cluster.session, "reset"), "session")
    seen = cluster.seen()
    cluster.stop_broker(1)
    assert seen.commands == []
    cluster.reconnect()
    assert cluster.state("t", 0) == "leader 2 e 1 isr [2] v 1 ce 1"


def test_session_that_ends_while_disconnected_is_followed_by_a_failover() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.happen(SessionDisconnected(cluster.session, "reset"), "session")
    cluster.stop_broker(1)
    cluster.expire()
    assert_nothing_of_an_old_term(cluster)
    assert cluster.epoch() == 2
    assert cluster.state("t", 0) == "leader 2 e 2 isr [2] v 2 ce 2"


# Shutdown -------------------------------------------------------------------------------------


def test_active_daemon_hands_the_role_back() -> None:
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    cluster.shut_down()
    assert cluster.controller() is None
    assert seen.written() == [znodes.CONTROLLER]
    assert seen.channels() == ["close channel to 1", "close channel to 2"]
    assert [one for one in seen.commands if isinstance(one, Stop)] == [Stop("")]
    assert seen.commands[-1] == Stop("")


def test_standby_stops_without_a_change_of_the_controller() -> None:
    cluster = Cluster(1, 2)
    cluster.take_role(2)
    cluster.start()
    seen = cluster.seen()
    cluster.shut_down()
    assert seen.commands == [Stop("")]
    assert cluster.controller() == 2


def test_disconnected_daemon_hands_back_when_it_is_connected() -> None:
    cluster = Cluster(1, 2).start()
    cluster.happen(SessionDisconnected(cluster.session, "reset"), "session")
    cluster.shut_down()
    assert not cluster.is_stopped
    cluster.reconnect()
    assert cluster.is_stopped
    assert cluster.controller() is None


def test_disconnected_daemon_stops_when_its_session_ends() -> None:
    cluster = Cluster(1, 2).start()
    cluster.happen(SessionDisconnected(cluster.session, "reset"), "session")
    cluster.shut_down()
    cluster.expire()
    assert cluster.is_stopped
    assert cluster.controller() is None


def test_disconnected_standby_stops_at_once() -> None:
    cluster = Cluster(1, 2)
    cluster.take_role(2)
    cluster.start()
    cluster.happen(SessionDisconnected(cluster.session, "reset"), "session")
    cluster.shut_down()
    assert cluster.is_stopped


def test_procedure_completes_before_the_role_is_handed_back() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.once(writes_state("t", 0), lambda: cluster.shut_down_quietly())
    cluster.stop_broker(1)
    assert cluster.state("t", 0) == "leader 2 e 1 isr [2] v 1 ce 1"
    assert cluster.is_stopped
    assert cluster.controller() is None


def test_CI_37_queued_events_are_discarded_at_shutdown() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2]})

    def more_happens() -> None:
        cluster.change_topic_quietly("u", {0: [2]})
        cluster.unregister(3)
        cluster.shut_down_quietly()

    cluster.once(writes_state("t", 0), more_happens)
    seen = cluster.seen()
    cluster.stop_broker(1)
    assert cluster.is_stopped
    assert cluster.state("u", 0) is None
    assert seen.channels() == ["close channel to 1", "close channel to 2", "close channel to 3"]
    assert seen.commands[-1] == Stop("")


def test_second_shutdown_request_is_ignored() -> None:
    cluster = Cluster(1).start()
    cluster.once(lambda issued: isinstance(issued.command, WriteZnodes), cluster.shut_down_quietly)
    cluster.shut_down()
    assert cluster.is_stopped
    assert [one.command for one in cluster.commands()].count(Stop("")) == 1


def test_role_taken_meanwhile_is_not_resigned_at_shutdown() -> None:
    cluster = Cluster(1, 2).start()
    cluster.seize_role(2)
    cluster.happen(ShutdownRequested("SIGTERM"), "signals")
    assert cluster.is_stopped
    assert cluster.controller() == 2
