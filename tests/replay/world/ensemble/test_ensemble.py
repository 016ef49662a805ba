"""The faults of an ensemble."""

import pytest

from controller.core.commands import ReadZnodes, WriteAtomically
from controller.core.events import (
    SessionConnected,
    SessionDisconnected,
    SessionExpired,
    WatchFired,
    ZnodesRead,
)
from controller.core.operations import Create, Delete, SetData
from replay.world.ensemble.protocol import CloseSession, CreateSession
from replay.world.ensemble.sessions import TICK_MS
from replay.world.ensemble.transactions import Transaction
from replay.world.requests import Exists, GetChildren, GetData, Multi, Sync
from replay.world.scheduler import MS
from replay.world.zookeeper import ZooKeeper
from tests.replay.world.small_world import Broker, Daemon, SmallWorld, succeeded


@pytest.fixture
def world() -> SmallWorld:
    return SmallWorld()


def data_of(broker: Broker, path: str) -> bytes | None:
    result = broker.ask(GetData(path))
    return result.data if result else None


# Lag


def test_member_that_lags_by_transactions_reads_an_older_state(world: SmallWorld) -> None:
    late, other = world.broker(1), world.broker(2)
    other.ask(Create("/a", b"0"))
    world.ensemble.lag(1, transactions=2)
    for number in (b"1", b"2", b"3"):
        other.ask(SetData("/a", number, -1))
    assert data_of(late, "/a") == b"1"
    assert data_of(other, "/a") == b"3"
    world.ensemble.lag(1)
    assert data_of(late, "/a") == b"3"


def test_member_that_lags_by_time_reads_an_older_state_for_that_time(world: SmallWorld) -> None:
    late, other = world.broker(1), world.broker(2)
    other.ask(Create("/a", b"0"))
    world.ensemble.lag("broker 1", ms=500)
    other.ask(SetData("/a", b"1", -1))
    assert data_of(late, "/a") == b"0"
    world.wait(500)
    assert data_of(late, "/a") == b"1"


def test_watches_of_a_member_that_lags_fire_late_and_survive_the_lag(world: SmallWorld) -> None:
    late, other = world.broker(1), world.broker(2)
    other.ask(Create("/a"))
    late.ask(GetData("/a", watch=True))
    world.ensemble.lag("broker 1", ms=500)
    late.ask(GetChildren("/a", watch=True))
    late.take()
    other.ask(SetData("/a", b"1", -1))
    assert late.take() == []
    world.wait(500)
    assert late.take() == [("data", "/a")]
    world.ensemble.lag("broker 1")
    other.ask(Create("/a/b"))
    assert late.take() == [("children", "/a")]


def test_write_through_a_member_that_lags_by_time_waits_and_later_reads_see_it(
    world: SmallWorld,
) -> None:
    late, other = world.broker(1), world.broker(2)
    world.ensemble.lag("broker 1", ms=500)
    order: list[str] = []
    late.client.submit(Create("/a", b"1"), lambda reply: order.append("created"))
    late.client.submit(GetData("/a"), lambda reply: order.append(str(reply and reply.result.data)))
    world.wait(400)
    assert order == []
    assert data_of(other, "/a") == b"1"
    world.wait(200)
    assert order == ["created", "b'1'"]


@pytest.mark.parametrize("request_", [Sync("/a"), SetData("/b", b"", -1)])
def test_write_or_sync_ends_a_lag_by_transactions_for_its_client(
    world: SmallWorld, request_: Sync | SetData
) -> None:
    late, other = world.broker(1), world.broker(2)
    other.ask(Create("/a", b"0"))
    other.ask(Create("/b"))
    late.ask(GetData("/a", watch=True))
    world.ensemble.lag("broker 1", transactions=5)
    other.ask(SetData("/a", b"1", -1))
    late.take()
    assert data_of(late, "/a") == b"0"
    late.client.submit(request_, lambda reply: late.happened.append("reply"))
    world.wait(10)
    assert late.take() == [("data", "/a"), "reply"]
    assert data_of(late, "/a") == b"1"


def test_member_with_an_older_zxid_refuses_a_client(world: SmallWorld) -> None:
    broker = world.broker(1)
    broker.take()
    world.ensemble.lag(2, transactions=100)
    broker.ask(Create("/a"))
    world.network.reset("broker 1", "zookeeper")
    world.wait(3_000)
    assert broker.take() == ["lost", "resumed"]
    assert world.ensemble.member_of("broker 1") == 0


def test_session_on_a_member_that_lags_starts_late(world: SmallWorld) -> None:
    world.ensemble.lag(1, ms=300)
    broker = world.broker(1)
    assert broker.take() == []
    world.wait(300)
    assert broker.take() == [("started", 1)]
    result = broker.ask(Create("/mine", b"", True), 400)
    assert succeeded(result)


def test_expired_session_on_a_member_that_lags_is_disconnected_late(world: SmallWorld) -> None:
    late, other = world.broker(1), world.broker(2)
    late.ask(Create("/mine", b"", True))
    late.take()
    world.ensemble.lag("broker 1", ms=400)
    world.ensemble.expire("broker 1")
    world.wait(300)
    assert late.take() == []
    assert succeeded(late.ask(Exists("/mine")))
    assert not succeeded(other.ask(Exists("/mine")))
    world.wait(3_000)
    assert late.take()[:2] == ["lost", "expired"]


def test_daemon_reads_an_old_state_after_another_processs_write(world: SmallWorld) -> None:
    daemon, other = world.daemon(100), world.broker(2)
    other.ask(Create("/a", b"0"))
    world.ensemble.lag("refold 100", ms=1_000)
    other.ask(SetData("/a", b"1", -1))
    (read,) = daemon.carry_out(ReadZnodes(("/a",)))
    assert isinstance(read, ZnodesRead)
    assert read.data == [b"0"]


def test_member_that_caught_up_shares_the_leaders_state(world: SmallWorld) -> None:
    broker = world.broker(1)
    world.ensemble.lag(1, transactions=3)
    broker.ask(Create("/a"))
    world.ensemble.lag(1)
    members = world.ensemble.members
    assert all(one.view is world.ensemble.state for one in members)


# Hanging


def test_member_that_hangs_answers_afterwards_in_order(world: SmallWorld) -> None:
    slow, other = world.broker(1), world.broker(2)
    slow.ask(Create("/a", b"0"))
    slow.ask(GetData("/a", watch=True))
    slow.take()
    world.ensemble.hang(2_000, "broker 1")
    other.ask(SetData("/a", b"1", -1))
    assert slow.ask(GetData("/a"), 1_900) is None
    assert slow.take() == []
    world.wait(200)
    assert slow.take() == [("data", "/a")]
    assert [one and one.result.data for one in slow.replies] == [b"1"]


def test_requests_stay_in_order_when_the_ensemble_hangs_after_a_member(world: SmallWorld) -> None:
    client = world.broker(1)
    client.ask(Create("/a", b"0"))
    world.ensemble.hang(50, "broker 1")
    assert client.ask(SetData("/a", b"1", -1)) is None
    world.ensemble.hang(100)
    client.client.submit(SetData("/a", b"2", -1), client.replies.append)
    world.wait(200)
    assert [one and one.result.stat and one.result.stat.version for one in client.replies] == [1, 2]
    assert world.ensemble.state.find("/a").data == b"2"  # type: ignore[union-attr]


def test_clients_leave_a_member_that_hangs(world: SmallWorld) -> None:
    slow = world.broker(1)
    slow.take()
    world.ensemble.hang(60_000, 1)
    world.wait(18_000)
    assert slow.take() == ["lost", "resumed"]
    assert world.ensemble.member_of("broker 1") == 2
    world.wait(60_000)
    assert succeeded(slow.ask(Create("/a")))
    assert slow.take() == []


def test_hang_of_the_ensemble_expires_silent_sessions(world: SmallWorld) -> None:
    short, long = world.broker(1, timeout_ms=4_000), world.broker(2, timeout_ms=40_000)
    short.ask(Create("/short", b"", True))
    long.ask(Create("/long", b"", True))
    world.ensemble.hang(8_000)
    world.wait(7_900)
    assert (world.exists("/short"), world.exists("/long")) == (True, True)
    world.wait(200)
    assert (world.exists("/short"), world.exists("/long")) == (False, True)
    world.wait(3_000)
    assert "expired" in short.take()
    assert long.take() == [("started", 2)]


# Members and the leader


def test_clients_of_a_killed_member_move_to_others(world: SmallWorld) -> None:
    broker, other = world.broker(1), world.broker(2)
    for each in (broker, other):
        each.take()
    world.ensemble.kill(1)
    world.wait(3_000)
    assert broker.take() == ["lost", "resumed"]
    assert other.take() == []
    world.ensemble.restart(1)
    assert succeeded(broker.ask(Create("/a")))


def test_killed_leader_is_replaced(world: SmallWorld) -> None:
    broker = world.broker(1)
    broker.take()
    assert world.ensemble.leader == 0
    world.ensemble.kill(0)
    assert world.ensemble.leader == 1
    world.wait(5_000)
    assert broker.take() == ["lost", "resumed"]


def test_nothing_is_served_without_a_majority(world: SmallWorld) -> None:
    broker = world.broker(1)
    broker.ask(Create("/mine", b"", True))
    world.ensemble.kill(0)
    world.ensemble.kill(2)
    world.wait(100_000)
    assert broker.take() == [("started", 1), "lost"]
    world.ensemble.restart(2)
    world.wait(5_000)
    assert broker.take() == ["resumed"]
    assert world.exists("/mine")


def test_change_of_the_leader_starts_timeouts_again(world: SmallWorld) -> None:
    broker = world.broker(1)
    broker.ask(Create("/mine", b"", True))
    world.wait(15_000)
    broker.client.crash()
    world.wait(10_000)
    world.ensemble.change_leader(5_000)
    world.wait(22_000)
    assert world.exists("/mine")
    world.wait(3_000)
    assert not world.exists("/mine")


def test_change_of_the_leader_ends_a_lag_but_not_its_setting(world: SmallWorld) -> None:
    broker, other = world.broker(1), world.broker(2)
    world.ensemble.lag(0, transactions=9)
    broker.ask(Create("/a"))
    world.ensemble.change_leader(100)
    world.wait(4_000)
    assert all(succeeded(one.ask(Exists("/a"))) for one in (broker, other))
    assert world.ensemble.members[0].lags


# Sessions


def test_session_expires_at_the_tick_after_its_timeout(world: SmallWorld) -> None:
    for silent_since_ms in (100, 1_900, 2_100):
        world = SmallWorld()
        broker = world.broker(1, timeout_ms=5_000)
        broker.ask(Create("/mine", b"", True))
        world.wait(silent_since_ms - world.now_ms)
        broker.ask(Exists("/mine"), 1)
        broker.client.crash()
        touched_ms = world.now_ms
        expected_ms = ((touched_ms + 5_000) // TICK_MS + 1) * TICK_MS
        world.wait(expected_ms - 1 - world.now_ms)
        assert world.exists("/mine")
        world.wait(1)
        assert not world.exists("/mine")


def test_late_ephemerals_remain_after_their_owner_has_a_new_session(world: SmallWorld) -> None:
    broker = world.broker(1)
    broker.ask(Create("/mine", b"", True))
    world.ensemble.delay_ephemerals("broker 1", 5_000)
    broker.take()
    world.ensemble.expire("broker 1")
    world.wait(2_000)
    assert broker.take() == ["lost", "expired", ("started", 2)]
    assert not succeeded(broker.ask(Create("/mine", b"", True)))
    world.wait(3_100)
    assert not world.exists("/mine")


def test_change_of_the_leader_revives_a_session_whose_ephemerals_are_late(
    world: SmallWorld,
) -> None:
    broker = world.broker(1)
    broker.ask(Create("/mine", b"", True))
    world.ensemble.delay_ephemerals("broker 1", 5_000)
    world.ensemble.expire("broker 1")
    world.wait(2_000)
    world.ensemble.change_leader(1_000)
    world.wait(10_000)
    assert world.exists("/mine")
    world.wait(20_000)
    assert not world.exists("/mine")


def test_daemon_learns_that_its_session_expired(world: SmallWorld) -> None:
    daemon = world.daemon()
    daemon.take()
    world.ensemble.expire("refold 100")
    world.wait(1_000)
    assert [type(one) for one in daemon.take()] == [
        SessionDisconnected,
        SessionExpired,
        SessionConnected,
    ]


def test_session_that_resumes_replaces_its_half_open_connection(world: SmallWorld) -> None:
    broker = world.broker(1)
    world.network.hold_messages("zookeeper", "broker 1")
    world.wait(12_100)
    world.network.release("zookeeper", "broker 1")
    world.wait(2_000)
    assert broker.take() == [("started", 1), "lost", "resumed"]
    assert succeeded(broker.ask(Create("/a")))


# Transactions


def test_transactions_are_reported_with_what_they_changed(world: SmallWorld) -> None:
    transactions: list[Transaction] = []
    world.ensemble.on_transaction = transactions.append
    broker = world.broker(1)
    broker.ask(Create("/a", b"", True))
    broker.ask(Multi((SetData("/a", b"", 0), Delete("/b", -1))))
    broker.ask(Delete("/b", -1))
    broker.client.close()
    world.wait(10)
    assert [(one.zxid, one.process, one.changes) for one in transactions] == [
        (1, "broker 1", []),
        (2, "broker 1", [("created", "/a")]),
        (3, "broker 1", []),
        (4, "broker 1", []),
        (5, "broker 1", [("deleted", "/a")]),
    ]
    assert isinstance(transactions[0].request, CreateSession)
    assert isinstance(transactions[-1].request, CloseSession)
    assert all(one.cause for one in transactions)


def test_world_can_begin_with_znodes() -> None:
    state = ZooKeeper()
    state.apply(state.create_session(), Create("/a", b"1"), 0)
    world = SmallWorld(state)
    assert data_of(world.broker(1), "/a") == b"1"


def test_same_faults_have_the_same_deliveries() -> None:
    def run() -> list[object]:
        world = SmallWorld()
        daemon: Daemon = world.daemon()
        brokers = [world.broker(number) for number in range(3)]
        world.ensemble.lag(1, ms=30)
        world.ensemble.lag(2, transactions=2)
        daemon.submit(ReadZnodes(("/a", "/b"), watch=True))
        for number, broker in enumerate(brokers):
            broker.client.submit(Exists("/a", watch=True), broker.replies.append)
            broker.client.submit(Create("/a"), broker.replies.append)
            broker.client.submit(Create(f"/b{number}", b"", True), broker.replies.append)
        daemon.submit(WriteAtomically((Create("/b"),)))
        world.scheduler.after(MS * 3, lambda: world.ensemble.kill(2))
        world.scheduler.after(MS * 900, lambda: world.ensemble.hang(25_000))
        world.wait(60_000)
        return [*world.delivered, *daemon.events, *(one.happened for one in brokers)]

    first = run()
    assert first == run()
    assert any(isinstance(one, WatchFired) for one in first)
