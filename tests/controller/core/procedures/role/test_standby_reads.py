"""A standby that cannot watch or read, and its later reads (docs/standby.md)."""

from collections.abc import Callable

import pytest

from controller.core import znodes
from controller.core.commands import (
    Issued,
    Notice,
    ReadChildren,
    ReadZnodes,
    WatchSubtree,
    ZooKeeperCommand,
)
from controller.core.events import ChildrenRead, WatchFired, ZnodesWritten
from controller.core.operations import NO_AUTH, UNIMPLEMENTED, Create
from controller.core.standby import FOLLOW_TIMER
from controller.core.state import UNKNOWN_ZXID
from replay.world.outcomes import ZooKeeperOutcome, carry_out
from replay.world.zookeeper import ZooKeeper
from tests.controller.core.cluster import DAEMON, Cluster, Seen, reads
from tests.controller.core.procedures.role.standby_pair import StandbyPair, content, reads_of
from tests.controller.core.unreliable import Delivery


class LimitedStandby(Cluster):
    """A standby whose ZooKeeper cannot watch subtrees, or denies a list of children."""

    def __init__(self, zookeeper: ZooKeeper, watch_error: int = 0, denied: str = "") -> None:
        super().__init__(zookeeper=zookeeper, standby=True)
        self._watch_error = watch_error
        self.denied = denied

    def ask_zookeeper(self, issued: Issued, command: ZooKeeperCommand) -> list[ZooKeeperOutcome]:
        if self._watch_error and isinstance(command, WatchSubtree):
            return [ZnodesWritten(issued.id, 0, [self._watch_error], [-1])]
        if isinstance(command, ReadChildren) and command.path == self.denied:
            return [ChildrenRead(issued.id, NO_AUTH, [])]
        return super().ask_zookeeper(issued, command)


class ResignedStandby(Cluster):
    """A standby that was controller in the same session: before the first reply with the log
    directory events, an earlier watch on them fires."""

    has_fired = False

    def ask_zookeeper(self, issued: Issued, command: ZooKeeperCommand) -> list[ZooKeeperOutcome]:
        if not self.has_fired and command == ReadChildren(znodes.LOG_DIR_EVENTS, True):
            self.has_fired = True
            self.deliver(WatchFired(znodes.LOG_DIR_EVENTS, "children", UNKNOWN_ZXID), "watches")
        return super().ask_zookeeper(issued, command)


class TwoReplyStandby(Cluster):
    """A standby in the cluster of a pair. Its ZooKeeper sends the znodes of the first read that
    contains broker 1 in two replies, and a restart of this broker between them."""

    def __init__(self, pair: StandbyPair) -> None:
        super().__init__(zookeeper=pair.active.zookeeper, standby=True)
        self.broker_sessions = pair.active.broker_sessions
        self.has_restarted = False

    def ask_zookeeper(self, issued: Issued, command: ZooKeeperCommand) -> list[ZooKeeperOutcome]:
        if self.has_restarted or not reads(znodes.broker_path(1))(issued):
            return super().ask_zookeeper(issued, command)
        self.has_restarted = True
        assert isinstance(command, ReadZnodes)
        page = command.paths.index(znodes.broker_path(1)) + 1
        replies = carry_out(
            self.zookeeper, self.session, issued.id, command, self.now_ms, page=page
        )
        assert len(replies) == 2
        self.deliver(replies[0], "zookeeper")
        self.zookeeper.end_session(self.broker_sessions[1])
        self.register(1)
        return replies[1:]


def follow_again(cluster: Cluster) -> Seen:
    """The timer fires once more. Returns what the standby does."""
    seen = cluster.seen()
    cluster.fire(FOLLOW_TIMER)
    return seen


def notices_of(cluster: Cluster, code: str) -> list[str]:
    """The levels of the notices with a code, since the start."""
    notices = [one.command for one in cluster.commands() if isinstance(one.command, Notice)]
    return [one.level for one in notices if one.code == code]


def test_standby_reports_the_topics_and_partitions_that_it_knows() -> None:
    """The topic `auto` names the daemon, so that the take-over will read its partitions."""
    pair = StandbyPair()
    pair.active.change_topic_quietly("auto", {0: [DAEMON, 1]})
    standby = Cluster(zookeeper=pair.active.zookeeper, standby=True)
    seen = standby.seen()
    standby.start()
    [text] = seen.texts_of("standby_ready")
    assert text == "the standby knows 2 topics with 2 partitions, and follows their changes"


def test_state_of_a_partition_that_the_topic_does_not_have_is_no_obstacle() -> None:
    pair = StandbyPair()
    pair.active.put_with_parents(znodes.state_path("t", 7), b"?")
    pair.follow()
    assert notices_of(pair.standby, "procedure_failed") == []
    seen = pair.take_over()
    assert not [one for one in reads_of(seen) if one.startswith("/brokers")]


@pytest.mark.parametrize(("error", "level"), [(UNIMPLEMENTED, "warning"), (NO_AUTH, "error")])
def test_standby_that_cannot_watch_says_so_once_and_reads_all_at_its_take_over(
    error: int, level: str
) -> None:
    pair = StandbyPair()
    limited = pair.standby = LimitedStandby(pair.active.zookeeper, watch_error=error)
    limited.start()
    assert notices_of(limited, "standby_reads_all") == [level]
    assert follow_again(limited).commands == []
    cold, before = pair.cold_failover()
    seen = pair.take_over()
    assert limited.is_active
    assert seen.requested() == before.requested()
    assert content(limited.zookeeper) == content(cold.zookeeper)


def test_standby_that_may_not_read_a_list_reports_it_once_and_does_not_follow() -> None:
    pair = StandbyPair()
    limited = pair.standby = LimitedStandby(pair.active.zookeeper, denied=znodes.TOPICS)
    limited.start()
    assert notices_of(limited, "procedure_failed") == ["error"]
    assert notices_of(limited, "standby_ready") == []
    assert follow_again(limited).commands == []
    limited.denied = ""
    cold, before = pair.cold_failover()
    assert pair.take_over().requested() == before.requested()
    assert content(limited.zookeeper) == content(cold.zookeeper)


@pytest.mark.parametrize(
    "path", [znodes.TOPICS, znodes.FEATURE, znodes.topic_path("t"), znodes.state_path("t", 0)]
)
def test_standby_that_is_interrupted_while_it_reads_goes_on_afterwards(path: str) -> None:
    """Another broker takes the role meanwhile."""
    pair = StandbyPair()
    standby = pair.standby = Cluster(zookeeper=pair.active.zookeeper, standby=True)
    standby.once(reads(path), lambda: pair.active.seize_role(9))
    standby.start()
    assert not standby.is_active
    assert notices_of(standby, "standby_ready") == ["info"]
    assert follow_again(standby).commands == []


@pytest.mark.parametrize(
    "which",
    [
        lambda issued: isinstance(issued.command, WatchSubtree),
        reads(znodes.TOPICS),
        reads(znodes.FEATURE),
        reads(znodes.topic_path("t")),
        reads(znodes.state_path("t", 0)),
    ],
)
def test_standby_that_loses_its_connection_while_it_reads_begins_again(
    which: Callable[[Issued], bool],
) -> None:
    pair = StandbyPair()
    standby = pair.standby = Cluster(zookeeper=pair.active.zookeeper, standby=True)
    standby.lose(which, Delivery.REPLY_LOST)
    standby.start()
    assert notices_of(standby, "standby_ready") == ["info"]
    pair.active.set_isr("t", 0, [1])
    pair.follow()
    seen = pair.take_over()
    assert not [one for one in reads_of(seen) if one.startswith("/brokers")]
    assert standby.partition("t", 0).leadership == standby.leadership("t", 0)


def test_broker_that_restarts_while_a_standby_reads_many_znodes_has_its_new_epoch() -> None:
    """The reply with its registration has arrived, a later one has not."""
    pair = StandbyPair()
    standby = pair.standby = TwoReplyStandby(pair)
    standby.start()
    assert standby.has_restarted
    cold, before = pair.cold_failover()
    seen = pair.take_over()
    assert seen.requested() == before.requested()
    assert content(standby.zookeeper) == content(cold.zookeeper)
    assert {one.broker_epoch for one in seen.leader_and_isr(1)} == {standby.broker_epoch(1)}


def test_standby_is_ready_when_it_has_read_again_what_changed_while_it_read() -> None:
    standby = TwoReplyStandby(StandbyPair())
    seen = standby.seen()
    standby.start()
    assert reads_of(seen).count(znodes.broker_path(1)) == 2
    assert notices_of(standby, "standby_ready") == ["info"]


def test_list_that_changes_before_the_reply_of_its_first_read_is_read_twice() -> None:
    """Logs contain the second read."""
    pair = StandbyPair()
    standby = ResignedStandby(zookeeper=pair.active.zookeeper, standby=True)
    seen = standby.seen()
    standby.start()
    assert reads_of(seen).count(f"{znodes.LOG_DIR_EVENTS}/") == 2


def test_topic_that_changes_together_with_the_list_of_topics_is_read_again() -> None:
    pair = StandbyPair()
    pair.active.change_topic_quietly("t", {0: [1, 2], 1: [2, 3], 2: [3]})
    pair.active.change_topic_quietly("new", {0: [2]})
    pair.follow()
    pair.take_over()
    assert pair.standby.state("t", 2) == "leader 3 e 0 isr [3] v 0 ce 2"
    assert pair.standby.state("new", 0) == "leader 2 e 0 isr [2] v 0 ce 2"


def test_child_of_the_brokers_that_is_no_broker_id_is_no_obstacle() -> None:
    pair = StandbyPair()
    pair.active.ask(Create(f"{znodes.BROKER_IDS}/seed", b""))
    pair.follow()
    assert notices_of(pair.standby, "procedure_failed") == []
    seen = pair.take_over()
    assert not [one for one in reads_of(seen) if one.startswith(znodes.TOPICS)]


def test_broker_that_restarts_without_a_controller_leads_no_partition_of_a_standby() -> None:
    """The states are known, and older than the registration (RESTARTS_SEEN_AT_FAILOVER). They are
    written in order, although the standby has read topic t before s."""
    pair = StandbyPair()
    pair.active.create_topic("s", {0: [1, 2]})
    pair.follow()
    pair.active.zookeeper.end_session(pair.active.session)
    pair.active.unregister(1)
    pair.active.register(1)
    cold, before = pair.cold_failover()
    seen = pair.take_over()
    assert seen.requested() == before.requested()
    states = [znodes.state_path(topic, 0) for topic in ("s", "t")]
    for each in (seen, before):
        assert [one for one in each.written() if one.startswith(znodes.TOPICS)] == states
    assert pair.standby.leadership("t", 0).leader == cold.leadership("t", 0).leader == 2


def test_standby_whose_controller_dies_while_it_reads_the_last_state_is_never_ready() -> None:
    """The standby takes over at once."""
    pair = StandbyPair(topics={"t": {0: [1, 2]}})
    standby = Cluster(zookeeper=pair.active.zookeeper, standby=True)
    pair.active.zookeeper.end_session(pair.standby.session)
    is_last = reads(znodes.state_path("t", 0))
    standby.once(is_last, lambda: pair.active.zookeeper.end_session(pair.active.session))
    standby.start()
    assert standby.is_active
    assert notices_of(standby, "standby_ready") == []
