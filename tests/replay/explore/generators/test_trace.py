"""Racing deliveries in a trace, and equivalent traces."""

from controller.core.operations import SetData
from replay.explore.generators.trace import Trace
from replay.world.ensemble.protocol import Ping, RequestPacket
from replay.world.network import Delivery

_SECOND = 1_000_000


def _set(id_: int, at_us: int, sender: str, path: str, cause: int = 0) -> Delivery:
    message = RequestPacket(1, SetData(path, b"", 0))
    return Delivery(id_, at_us, f"{sender}>zookeeper", id_, cause, message)


def _pairs(deliveries: list[Delivery]) -> list[tuple[int, int]]:
    races = Trace(deliveries).races(_SECOND)
    return [(one.first.id, one.second.id) for one in races]


def test_concurrent_writes_of_one_znode_race() -> None:
    deliveries = [_set(1, 100, "refold 100", "/a"), _set(2, 200, "broker 1", "/a")]
    assert _pairs(deliveries) == [(1, 2)]


def test_writes_of_different_znodes_do_not_race() -> None:
    deliveries = [_set(1, 100, "refold 100", "/a"), _set(2, 200, "broker 1", "/b")]
    assert not _pairs(deliveries)


def test_write_caused_by_the_earlier_one_does_not_race() -> None:
    deliveries = [
        _set(1, 100, "refold 100", "/a"),
        Delivery(2, 150, "zookeeper>broker 1", 1, 1, "a watch"),
        _set(3, 200, "broker 1", "/a", cause=2),
    ]
    assert not _pairs(deliveries)


def test_writes_far_apart_do_not_race() -> None:
    deliveries = [_set(1, 100, "refold 100", "/a"), _set(2, 2 * _SECOND, "broker 1", "/a")]
    assert not _pairs(deliveries)


def test_heartbeats_do_not_race() -> None:
    ping = Delivery(1, 100, "broker 1>zookeeper", 1, 0, RequestPacket(-2, Ping()))
    assert not _pairs([ping, _set(2, 200, "refold 100", "/a")])


def test_traces_that_differ_in_independent_orders_have_one_digest() -> None:
    a, b = _set(1, 100, "refold 100", "/a"), _set(2, 200, "broker 1", "/b")
    c = _set(3, 300, "broker 2", "/a")
    one = [a, b, c]
    other = [b._replace(id=1), a._replace(id=2), c]
    dependent = [c._replace(id=1), b, a._replace(id=3)]
    assert Trace(one).digest() == Trace(other).digest()
    assert Trace(one).digest() != Trace(dependent).digest()
