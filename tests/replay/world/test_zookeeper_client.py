"""The session of a broker or an admin in the simulation."""

from controller.core.operations import Create, Delete, SetData
from replay.world.requests import Exists, GetChildren, GetData
from tests.replay.world.small_world import Broker, SmallWorld, succeeded


def start() -> tuple[SmallWorld, Broker, Broker]:
    """A client that is tested, and another one that changes znodes."""
    world = SmallWorld()
    return world, world.broker(1), world.broker(2)


def test_watches_are_one_shot_and_fire_before_a_later_reply() -> None:
    world, broker, other = start()
    broker.ask(Create("/a"))
    broker.ask(GetData("/a", watch=True))
    broker.ask(GetChildren("/a", watch=True))
    broker.ask(Exists("/b", watch=True))
    broker.take()
    other.ask(SetData("/a", b"x", -1))
    other.ask(SetData("/a", b"y", -1))
    other.ask(Create("/a/c"))
    other.ask(Create("/b"))
    assert broker.take() == [("data", "/a"), ("children", "/a"), ("created", "/b")]
    broker.client.submit(GetData("/a", watch=True), lambda reply: None)
    broker.client.submit(SetData("/a", b"z", -1), lambda reply: broker.happened.append("reply"))
    world.wait(10)
    assert broker.take() == [("data", "/a"), "reply"]


def test_request_without_a_connection_has_no_reply() -> None:
    world, broker, _ = start()
    world.network.cut("broker 1", "zookeeper")
    broker.client.submit(Create("/a"), broker.replies.append)
    assert broker.replies == [None]
    assert broker.take() == [("started", 1), "lost"]


def test_request_in_flight_has_no_reply_if_the_connection_is_lost() -> None:
    world, broker, _ = start()
    world.ensemble.lose_reply("broker 1")
    assert broker.ask(Create("/a"), 1) is None
    assert broker.replies == [None]
    assert world.exists("/a")


def test_write_that_is_lost_before_it_is_carried_out_changes_nothing() -> None:
    world, broker, _ = start()
    world.ensemble.lose_reply("broker 1", is_carried_out=False)
    assert broker.ask(Create("/a"), 1) is None
    assert not world.exists("/a")
    world.wait(3_000)
    assert broker.take()[-2:] == ["lost", "resumed"]


def test_watches_are_set_again_after_a_reconnect() -> None:
    world, broker, other = start()
    for path in ("/a", "/b", "/c"):
        other.ask(Create(path))
    for path in ("/a", "/b"):
        broker.ask(GetData(path, watch=True))
        broker.ask(GetChildren(path, watch=True))
    broker.ask(Exists("/d", watch=True))
    broker.take()
    world.network.cut("broker 1", "zookeeper")
    other.ask(SetData("/a", b"x", -1))
    other.ask(Create("/d"))
    world.network.heal("broker 1", "zookeeper")
    world.wait(3_000)
    assert broker.take() == ["lost", "resumed", ("data", "/a"), ("created", "/d")]
    other.ask(Delete("/b", -1))
    other.ask(Create("/a/x"))
    assert broker.take() == [("deleted", "/b"), ("children", "/a")]


def test_client_presumes_nothing_and_learns_the_end_of_its_session_from_a_server() -> None:
    world, broker, _ = start()
    broker.ask(Create("/mine", b"", True))
    broker.take()
    world.network.cut("broker 1", "zookeeper")
    world.wait(25_000)
    assert not world.exists("/mine")
    assert broker.take() == ["lost"]
    assert broker.client.session == 1
    world.network.heal("broker 1", "zookeeper")
    world.wait(3_000)
    assert broker.take() == ["expired", ("started", 3)]


def test_half_open_connection_is_closed_after_two_thirds_of_the_timeout() -> None:
    world, broker, _ = start()
    broker.take()
    world.network.hold_messages("zookeeper", "broker 1")
    world.wait(11_900)
    assert broker.take() == []
    world.wait(200)
    assert broker.take() == ["lost"]


def test_session_stays_alive_by_pings() -> None:
    world, broker, _ = start()
    world.wait(100_000)
    assert broker.take() == [("started", 1)]
    assert [one.id for one in world.ensemble.sessions.sessions_of("broker 1")] == [1]


def test_close_ends_the_session_after_earlier_replies() -> None:
    world, broker, _ = start()
    broker.ask(Create("/mine", b"", True))
    broker.take()
    broker.client.submit(Create("/other"), broker.replies.append)
    broker.client.close()
    world.wait(10)
    assert not world.exists("/mine")
    assert broker.replies[-1] is not None
    world.wait(30_000)
    assert broker.take() == []
    assert world.ensemble.sessions.sessions_of("broker 1") == []


def test_crash_leaves_the_session_to_its_timeout() -> None:
    world, broker, other = start()
    broker.ask(Create("/mine", b"", True))
    other.ask(Exists("/mine", watch=True))
    broker.client.crash()
    broker.take()
    other.take()
    world.wait(17_000)
    assert other.take() == []
    world.wait(3_100)
    assert other.take() == [("deleted", "/mine")]
    assert broker.take() == []


def test_paused_process_loses_its_session_and_learns_it_afterwards() -> None:
    world, broker, other = start()
    broker.ask(Create("/a"))
    broker.ask(GetData("/a", watch=True))
    broker.take()
    broker.pause()
    other.ask(SetData("/a", b"x", -1))
    world.wait(25_000)
    assert broker.take() == []
    broker.resume()
    world.wait(2_000)
    assert broker.take() == [("data", "/a"), "lost", "expired", ("started", 3)]


def test_short_pause_loses_nothing() -> None:
    world, broker, other = start()
    broker.ask(Create("/a"))
    broker.pause()
    world.wait(5_000)
    broker.resume()
    broker.take()
    assert succeeded(broker.ask(GetData("/a")))
    world.wait(30_000)
    assert broker.take() == []
    assert other.client.is_connected
