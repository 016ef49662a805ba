"""The session ends, breaks, or the daemon shall end: at the worst of times (KB 13)."""

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
from replay.world.simulation import Fate
from tests.controller.core.cluster import Cluster, by_rule, reads, writes_state

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
OVER = [Fate.SESSION_OVER, Fate.SESSION_OVER_AFTER]
LOST = [Fate.REQUEST_LOST, Fate.REPLY_LOST]
REQUESTS = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


def found_with_a_dead_replica() -> Cluster:
    """A cluster that the daemon finds: a partition with a dead leader, and a new topic."""
    before = Cluster(1, 2).start()
    before.create_topic("t", {0: [1, 2]})
    before.shut_down()
    before.unregister(1)
    before.change_topic_quietly("u", {0: [2]})
    return Cluster(zookeeper=before.zookeeper)


def assert_nothing_of_an_old_term(cluster: Cluster) -> None:
    """After the end of a session no command carries a term that began before it."""
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


@pytest.mark.parametrize("fate", OVER)
@pytest.mark.parametrize("step", FAILOVER_STEPS)
def test_a_session_that_ends_in_a_failover(step: str, fate: Fate) -> None:
    cluster = found_with_a_dead_replica()
    cluster.lose(FAILOVER_STEPS[step], fate)
    cluster.start()
    assert_nothing_of_an_old_term(cluster)
    assert cluster.is_active
    assert cluster.leadership("t", 0).leader == 2
    assert cluster.leadership("u", 0).leader == 2
    assert sent_epochs(cluster) == sorted(sent_epochs(cluster))


@pytest.mark.parametrize("fate", OVER)
@pytest.mark.parametrize("step", BROKER_CHANGE_STEPS)
def test_a_session_that_ends_while_a_broker_change_is_handled(step: str, fate: Fate) -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.lose(BROKER_CHANGE_STEPS[step], fate)
    seen = cluster.seen()
    cluster.stop_broker(1)
    assert_nothing_of_an_old_term(cluster)
    assert cluster.epoch() == 2
    assert cluster.leadership("t", 0).leader == 2
    closed = [one.broker for one in seen.commands if isinstance(one, CloseChannel)]
    opened = [one.broker for one in seen.commands if isinstance(one, OpenChannel)]
    assert sorted(closed) == [1, 2, 3]
    assert opened == [2, 3]


def test_outcomes_of_a_term_that_is_over_are_dropped() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.lose(writes_state("t", 0), Fate.SESSION_OVER)
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


def test_what_was_queued_in_an_old_term_is_forgotten() -> None:
    """KB 3.1.2: Expire clears the queue; the failover looks at everything anyway."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.once(writes_state("t", 0), lambda: cluster.change_topic_quietly("u", {0: [2]}))
    cluster.lose(writes_state("t", 0), Fate.SESSION_OVER)
    seen = cluster.seen()
    cluster.stop_broker(1)
    created = [path for path in seen.written() if path == znodes.state_path("u", 0)]
    assert created == [znodes.state_path("u", 0)]
    assert cluster.state("u", 0) == "leader 2 e 0 isr [2] v 0 ce 2"


def test_a_session_that_ends_while_another_broker_is_quicker() -> None:
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    cluster.zookeeper.end_session(cluster.session)
    cluster.take_role(1)
    cluster.happen(SessionExpired(cluster.session), "session")
    cluster.connect()
    assert (cluster.is_active, cluster.controller()) == (False, 1)
    assert seen.channels() == ["close channel to 1", "close channel to 2"]
    assert seen.requested() == {}


# A connection that breaks ---------------------------------------------------------------------


@pytest.mark.parametrize("fate", LOST)
@pytest.mark.parametrize("step", [step for step in FAILOVER_STEPS if step != "election"])
def test_a_connection_that_breaks_in_a_failover_changes_nothing(step: str, fate: Fate) -> None:
    whole, broken = found_with_a_dead_replica(), found_with_a_dead_replica()
    broken.lose(FAILOVER_STEPS[step], fate)
    wanted, seen = whole.seen(), broken.seen()
    whole.start()
    broken.start()
    assert broken.epoch() == whole.epoch() == 2
    assert seen.requested() == wanted.requested()
    for topic in ("t", "u"):
        assert broken.state(topic, 0) == whole.state(topic, 0)


@pytest.mark.parametrize("fate", LOST)
@pytest.mark.parametrize("step", BROKER_CHANGE_STEPS)
def test_a_connection_that_breaks_in_a_broker_change_changes_nothing(step: str, fate: Fate) -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.lose(BROKER_CHANGE_STEPS[step], fate)
    seen = cluster.seen()
    cluster.stop_broker(1)
    assert cluster.state("t", 0) == "leader 2 e 1 isr [2] v 1 ce 1"
    assert seen.channels() == ["close channel to 1"]
    assert seen.kinds(2) == ["LeaderAndIsr", "UpdateMetadata"] * 2


def test_a_disconnected_controller_stays_active() -> None:
    """KB 13.1: disconnection alone changes nothing."""
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    cluster.happen(SessionDisconnected(cluster.session, "reset"), "session")
    assert cluster.is_active
    assert seen.commands == []


def test_a_read_waits_for_the_connection() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.happen(SessionDisconnected(cluster.session, "reset"), "session")
    seen = cluster.seen()
    cluster.stop_broker(1)
    assert seen.commands == []
    cluster.reconnect()
    assert cluster.state("t", 0) == "leader 2 e 1 isr [2] v 1 ce 1"


def test_a_session_that_ends_while_disconnected() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.happen(SessionDisconnected(cluster.session, "reset"), "session")
    cluster.stop_broker(1)
    cluster.expire()
    assert_nothing_of_an_old_term(cluster)
    assert cluster.epoch() == 2
    assert cluster.state("t", 0) == "leader 2 e 2 isr [2] v 2 ce 2"


# The end of the daemon ------------------------------------------------------------------------


def test_an_active_daemon_hands_the_role_back() -> None:
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    cluster.shut_down()
    assert cluster.controller() is None
    assert seen.written() == [znodes.CONTROLLER]
    assert seen.channels() == ["close channel to 1", "close channel to 2"]
    assert [one for one in seen.commands if isinstance(one, Stop)] == [Stop("")]
    assert seen.commands[-1] == Stop("")


def test_a_standby_ends_and_leaves_the_controller_alone() -> None:
    cluster = Cluster(1, 2)
    cluster.take_role(2)
    cluster.start()
    seen = cluster.seen()
    cluster.shut_down()
    assert seen.commands == [Stop("")]
    assert cluster.controller() == 2


def test_a_disconnected_daemon_hands_back_when_the_connection_stands() -> None:
    cluster = Cluster(1, 2).start()
    cluster.happen(SessionDisconnected(cluster.session, "reset"), "session")
    cluster.shut_down()
    assert not cluster.is_stopped
    cluster.reconnect()
    assert cluster.is_stopped
    assert cluster.controller() is None


def test_a_disconnected_daemon_whose_session_ends_stops() -> None:
    cluster = Cluster(1, 2).start()
    cluster.happen(SessionDisconnected(cluster.session, "reset"), "session")
    cluster.shut_down()
    cluster.expire()
    assert cluster.is_stopped
    assert cluster.controller() is None


def test_a_standby_that_is_disconnected_stops_at_once() -> None:
    cluster = Cluster(1, 2)
    cluster.take_role(2)
    cluster.start()
    cluster.happen(SessionDisconnected(cluster.session, "reset"), "session")
    cluster.shut_down()
    assert cluster.is_stopped


def test_a_procedure_is_finished_before_the_role_is_handed_back() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.once(writes_state("t", 0), lambda: cluster.shut_down_quietly())
    cluster.stop_broker(1)
    assert cluster.state("t", 0) == "leader 2 e 1 isr [2] v 1 ce 1"
    assert cluster.is_stopped
    assert cluster.controller() is None


def test_CI_37_what_is_queued_when_the_daemon_ends_is_not_begun() -> None:
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


def test_handing_back_is_asked_for_twice() -> None:
    cluster = Cluster(1).start()
    cluster.once(lambda issued: isinstance(issued.command, WriteZnodes), cluster.shut_down_quietly)
    cluster.shut_down()
    assert cluster.is_stopped
    assert [one.command for one in cluster.commands()].count(Stop("")) == 1


def test_a_role_that_somebody_took_is_not_taken_away_at_the_end() -> None:
    cluster = Cluster(1, 2).start()
    cluster.seize_role(2)
    cluster.happen(ShutdownRequested("SIGTERM"), "signals")
    assert cluster.is_stopped
    assert cluster.controller() == 2
