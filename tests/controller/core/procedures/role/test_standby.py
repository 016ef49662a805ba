"""Hot standby: a take-over by a daemon that has followed the cluster (docs/standby.md)."""

from collections.abc import Callable

import pytest

from controller.core import znodes
from controller.core.commands import Notice, WatchSubtree, WriteAtomically
from controller.core.snapshot import load_snapshot, take_snapshot
from controller.core.standby import FOLLOW_TIMER
from replay.explore.generators.scenarios import BEFORE_2_7
from tests.controller.core.cluster import DAEMON, Assignments, Cluster, by_rule, writes_state
from tests.controller.core.procedures.reassignment.interrupting import request_quietly
from tests.controller.core.procedures.role.standby_pair import StandbyPair, content, reads_of
from tests.controller.core.replaying import assert_replays, encoded

ELECTION = by_rule(WriteAtomically, "controller election")
STATE = znodes.state_path("t", 0)
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def test_take_over_with_everything_current_reads_no_topic_and_no_state() -> None:
    pair = StandbyPair()
    cold, before = pair.cold_failover()
    seen = pair.take_over()
    assert pair.standby.is_active
    assert not [one for one in reads_of(seen) if one.startswith("/brokers")]
    assert seen.requested() == before.requested()
    assert content(pair.standby.zookeeper) == content(cold.zookeeper)
    assert_replays(pair.standby)


def test_take_over_reads_nothing_before_its_multi() -> None:
    pair = StandbyPair()
    seen = pair.take_over()
    first = next(place for place, (_, issued) in enumerate(seen.history) if issued)
    [multi, *_] = [one.command for one in seen.history[first][1]]
    assert isinstance(multi, WriteAtomically)


def test_take_over_with_a_changed_state_reads_only_that_state() -> None:
    pair = StandbyPair()
    pair.active.set_isr("t", 0, [1])
    seen = pair.take_over()
    assert [one for one in reads_of(seen) if one.startswith("/brokers")] == [STATE]
    assert pair.standby.state("t", 0) == "leader 1 e 0 isr [1] v 1 ce 1"
    assert "t-0 leader 1 e 0 isr [1] v 1 ce 1" in " ".join(seen.requests(2))
    assert_replays(pair.standby)


def test_take_over_logs_how_much_the_standby_knows() -> None:
    """The standby has not read the topic v yet."""
    pair = StandbyPair(topics={"t": {0: [1, 2], 1: [2, 3]}, "u": {0: [1]}})
    pair.active.create_topic("v", {0: [1]})
    assert pair.take_over().texts_of("standby_used") == [
        "take-over as a standby: 2 of 3 topics are known; 1 partition state will be read"
    ]


def test_change_during_the_take_over_multi_is_read() -> None:
    """The event of the change comes before the reply."""
    pair = StandbyPair()
    pair.standby.once(ELECTION, lambda: pair.active.set_isr("t", 0, [1]))
    seen = pair.take_over()
    assert STATE in reads_of(seen)
    assert pair.standby.partition("t", 0).leadership == pair.standby.leadership("t", 0)


def test_partition_that_moves_during_the_take_over_can_be_elected_afterwards() -> None:
    pair = StandbyPair(kip_236_enable=True, inter_broker_protocol_version=BEFORE_2_7)
    pair.follow()
    path = request_quietly(pair.active, {("t", 0): [3, 2, 1]})
    pair.take_over()
    assert path not in pair.standby.zookeeper.dump()
    pair.active.unregister(1)
    pair.standby.run()
    assert pair.standby.partition("t", 0).leader == 2
    assert_replays(pair.standby)


def test_followed_change_is_not_read_again() -> None:
    pair = StandbyPair()
    pair.active.set_isr("t", 0, [1])
    pair.follow()
    seen = pair.take_over()
    assert STATE not in reads_of(seen)
    assert pair.standby.partition("t", 0).leadership == pair.standby.leadership("t", 0)


def test_take_over_with_a_changed_topic_reads_the_topic_and_its_states() -> None:
    pair = StandbyPair(topics={"s": {0: [1]}, "t": {0: [1, 2]}})
    pair.active.change_topic_quietly("t", {0: [1, 2], 1: [3]})
    cold, before = pair.cold_failover()
    seen = pair.take_over()
    read = reads_of(seen)
    assert znodes.topic_path("t") in read
    assert znodes.state_path("s", 0) not in read
    assert seen.requested() == before.requested()
    assert content(pair.standby.zookeeper) == content(cold.zookeeper)
    assert pair.standby.state("t", 1) == cold.state("t", 1)


def test_topic_created_unseen_is_taken_over() -> None:
    pair = StandbyPair()
    pair.active.change_topic_quietly("new", {0: [2]})
    pair.take_over()
    assert pair.standby.state("new", 0) == "leader 2 e 0 isr [2] v 0 ce 2"


def test_topic_deleted_unseen_is_forgotten() -> None:
    pair = StandbyPair(topics={"s": {0: [1]}, "t": {0: [1, 2]}})
    pair.active.remove_quietly(znodes.topic_path("t"))
    seen = pair.take_over()
    assert pair.standby.fold.controller.context.known_topics() == ["s"]
    assert "t-0" not in " ".join(seen.requests(1))


def test_topic_recreated_unseen_has_its_new_id_and_states() -> None:
    pair = StandbyPair()
    before = pair.active.topic("t").topic_id
    pair.active.remove_quietly(znodes.topic_path("t"))
    pair.active.change_topic_quietly("t", {0: [3]})
    pair.take_over()
    topic = pair.standby.topic("t")
    assert topic.topic_id not in (None, before)
    assert pair.standby.fold.controller.context.topics["t"].id == topic.topic_id
    assert pair.standby.state("t", 0) == "leader 3 e 0 isr [3] v 0 ce 2"


def test_broker_that_died_unseen_loses_its_leaders() -> None:
    pair = StandbyPair()
    pair.active.unregister(1)
    cold, before = pair.cold_failover()
    seen = pair.take_over()
    assert pair.standby.leadership("t", 0).leader == 2
    assert seen.requested() == before.requested()
    assert content(pair.standby.zookeeper) == content(cold.zookeeper)


def test_standby_follows_the_term_of_a_stock_broker_in_between() -> None:
    pair = StandbyPair()
    pair.active.zookeeper.end_session(pair.active.session)
    stock = pair.active.take_role(2)
    pair.standby.run()
    assert not pair.standby.is_active
    pair.active.set_isr("t", 1, [2])
    pair.follow()
    seen = pair.standby.seen()
    pair.standby.leave_role(stock)
    assert (pair.standby.is_active, pair.standby.epoch()) == (True, 3)
    assert not [one for one in reads_of(seen) if one.startswith("/brokers")]
    assert pair.standby.partition("t", 1).leadership == pair.standby.leadership("t", 1)


def test_epoch_that_was_raised_unseen_is_read_before_the_next_attempt() -> None:
    """A stock broker was controller and died while the standby's multi was under way."""
    pair = StandbyPair()

    def stock_term() -> None:
        pair.active.zookeeper.end_session(pair.active.take_role(2))

    pair.standby.once(ELECTION, stock_term)
    pair.take_over()
    assert (pair.standby.is_active, pair.standby.epoch()) == (True, 3)


def test_standby_that_lost_its_connection_reads_everything_again() -> None:
    """ZooKeeper does not report changes below a recursive watch that a lost connection missed."""
    pair = StandbyPair()
    session = pair.standby.session
    pair.standby.zookeeper.disconnect(session)
    pair.active.set_isr("t", 0, [1])
    seen = pair.standby.seen()
    pair.standby.lose_connection()
    assert STATE in reads_of(seen)
    pair.take_over()
    assert pair.standby.partition("t", 0).leadership == pair.standby.leadership("t", 0)


def test_session_that_ended_begins_with_nothing() -> None:
    pair = StandbyPair()
    seen = pair.standby.seen()
    pair.standby.expire()
    assert STATE in reads_of(seen)
    pair.take_over()
    assert pair.standby.is_active
    assert_replays(pair.standby)


def test_former_controller_follows_again() -> None:
    pair = StandbyPair()
    pair.take_over()
    stock = pair.standby.seize_role(2)
    pair.standby.run()
    assert not pair.standby.is_active
    seen = pair.standby.seen()
    pair.standby.leave_role(stock)
    assert pair.standby.is_active
    assert not [one for one in reads_of(seen) if one.startswith("/brokers")]


def test_active_daemon_no_longer_watches_the_states() -> None:
    pair = StandbyPair()
    seen = pair.take_over()
    assert WatchSubtree(znodes.BROKERS, ends=True) in seen.commands
    seen = pair.standby.seen()
    pair.standby.set_isr("t", 0, [1])
    pair.standby.run()
    assert not seen.history


@pytest.mark.parametrize("fields", [{}, {"topic_id": TOPIC_ID}])
@pytest.mark.parametrize("partitions", [{0: [DAEMON, 1]}, {0: [1], 1: [DAEMON, 1]}])
def test_topic_that_names_the_daemon_is_repaired_by_the_take_over(
    partitions: Assignments, fields: dict[str, str]
) -> None:
    pair = StandbyPair()
    pair.active.change_topic_quietly("auto", partitions, **fields)
    pair.follow()
    cold, before = pair.cold_failover()
    seen = pair.take_over()
    assert seen.requested() == before.requested()
    assert content(pair.standby.zookeeper) == content(cold.zookeeper)
    assert DAEMON not in pair.standby.topic("auto").assignments[len(partitions) - 1].replicas


def test_partition_without_replicas_is_reported_by_the_take_over() -> None:
    pair = StandbyPair()
    pair.active.change_topic_quietly("u", {0: [], 1: [2]}, topic_id=TOPIC_ID)
    pair.follow()
    seen = pair.take_over()
    assert seen.notices() == [("no_replicas", znodes.topic_path("u"))]


@pytest.mark.parametrize("has_restart", [False, True])
def test_isr_that_names_the_daemon_is_repaired_by_the_take_over(has_restart: bool) -> None:
    """A restart of the leader before the ISR was written is no reason for another leader."""
    pair = StandbyPair()
    if has_restart:
        pair.active.unregister(1)
        pair.active.register(1)
    pair.active.set_isr("t", 0, [1, DAEMON, 2])
    pair.follow()
    cold, before = pair.cold_failover()
    seen = pair.take_over()
    assert seen.requested() == before.requested()
    assert seen.notices() == before.notices() == [("own_id_repaired", STATE)]
    assert content(pair.standby.zookeeper) == content(cold.zookeeper)
    assert pair.standby.state("t", 0) == "leader 1 e 1 isr [1,2] v 2 ce 2"


def test_standby_whose_take_over_fails_reads_everything_at_the_next_one() -> None:
    """Another controller takes the role before the standby has ended the failover."""
    pair = StandbyPair(topics={"s": {0: [1, 3]}, "t": {0: [2, 1]}})
    pair.active.unregister(2)
    stock: list[int] = []
    pair.standby.once(writes_state("t", 0), lambda: stock.append(pair.active.seize_role(9)))
    pair.take_over()
    assert not pair.standby.is_active
    pair.active.set_isr("s", 0, [1])
    pair.standby.leave_role(stock[0])
    assert pair.standby.is_active
    assert pair.standby.partition("s", 0).leadership == pair.standby.leadership("s", 0)


def test_state_that_cannot_be_read_is_reported_by_the_take_over() -> None:
    """The standby knows all others."""
    pair = StandbyPair()
    pair.active.put_quietly(STATE, b"?")
    pair.follow()
    seen = pair.take_over()
    assert ("unreadable_znode", STATE) in seen.notices()
    assert {one for one in reads_of(seen) if one.startswith("/brokers")} == {STATE}


def test_state_that_cannot_be_read_and_changes_unseen_is_reported_as_by_a_cold_failover() -> None:
    pair = StandbyPair()
    pair.active.put_quietly(STATE, b"?")
    pair.follow()
    pair.active.put_quietly(STATE, b"!")
    _, before = pair.cold_failover()
    seen = pair.take_over()
    assert seen.notices() == before.notices()


def test_events_are_read_together_after_a_while() -> None:
    pair = StandbyPair()
    pair.active.set_isr("t", 0, [1])
    pair.active.set_isr("t", 1, [2])
    seen = pair.standby.seen()
    pair.standby.run()
    assert not reads_of(seen)
    pair.standby.fire(FOLLOW_TIMER)
    assert reads_of(seen) == [STATE, znodes.state_path("t", 1)]


def test_second_standby_takes_over_from_the_first() -> None:
    pair = StandbyPair()
    second = StandbyPair.another_daemon(pair)
    pair.take_over()
    second.run()
    assert (pair.standby.is_active, second.is_active) == (True, False)
    pair.standby.set_isr("t", 0, [1])
    second.run()
    pair.standby.zookeeper.end_session(pair.standby.session)
    second.run()
    assert (second.is_active, second.epoch()) == (True, 3)
    assert second.partition("t", 0).leadership == second.leadership("t", 0)


@pytest.mark.parametrize("standby", [False, True])
def test_without_the_setting_nothing_is_followed(standby: bool) -> None:
    pair = StandbyPair()
    waiting = StandbyPair.another_daemon(pair, standby=standby)
    codes = [
        one.command.code
        for one in waiting.commands()
        if isinstance(one.command, Notice) and one.command.code.startswith("standby")
    ]
    assert codes == (["standby_ready"] if standby else [])


def change_a_state(pair: StandbyPair) -> None:
    pair.active.set_isr("t", 0, [1])


def add_a_partition(pair: StandbyPair) -> None:
    pair.active.change_topic_quietly("t", {0: [1, 2], 1: [2, 3], 2: [3]})


@pytest.mark.parametrize("change", [change_a_state, add_a_partition, None])
def test_take_over_after_a_snapshot_is_the_same(
    change: Callable[[StandbyPair], None] | None,
) -> None:
    pair = StandbyPair()
    pair.active.put_quietly(znodes.state_path("t", 1), b"?")
    pair.follow()
    if change is not None:
        change(pair)
        pair.standby.run()
    data = take_snapshot(pair.standby.fold)
    fold = load_snapshot(data, pair.standby.fold.controller.configuration)
    assert take_snapshot(fold) == data
    seen = pair.take_over()
    for recorded, issued in seen.history:
        commands = [one for part in fold.apply(recorded) for one in part]
        assert list(map(encoded, commands)) == list(map(encoded, issued)), recorded


def test_take_over_by_a_standby_counts_only_when_it_starts() -> None:
    """A suspended daemon must not take the role back from the standby that succeeded it."""
    pair = StandbyPair()
    first = Cluster(zookeeper=pair.active.zookeeper, standby=True, take_over=True).start()
    pair.active.run()
    assert (first.is_active, pair.active.is_active) == (True, False)
    first.zookeeper.end_session(first.session)
    pair.standby.run()
    assert pair.standby.is_active
    first.expire()
    assert (first.is_active, pair.standby.is_active) == (False, True)
