"""The order of sequential steps follows from the next writes in the log."""

from hypothesis import given
from hypothesis import strategies as st

from controller.core.state import ControllerContext, Partition
from replay.agreement.processing_order import (
    LoggedProcessingOrder,
    mutable_map_order,
)

NAMES = st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 3))


def partitions(*names: tuple[str, int]) -> list[Partition]:
    context = ControllerContext("PLAINTEXT")
    return [context.topic(topic).partition(number) for topic, number in names]


def order(**first: int) -> LoggedProcessingOrder:
    """An order with the records of the next writes: `b_1=7`; `b=7` for the topic."""
    written = {}
    for name, seq in first.items():
        topic, _, number = name.partition("_")
        written[topic, int(number or -1)] = seq
    return LoggedProcessingOrder(lambda: written)


def test_partitions_with_writes_are_first_in_the_order_of_the_writes() -> None:
    listed = partitions(("a", 1), ("a", 0), ("b", 0), ("b", 1))
    found = order(b_1=3, b_0=9).partitions(listed)
    assert [one.key for one in found] == [("b", 1), ("b", 0), ("a", 1), ("a", 0)]


def test_partitions_without_writes_are_in_the_order_of_kafkas_set() -> None:
    """Kafka 3.9.1 did so in a recording of a lab's cluster: the first partition failed."""
    listed = partitions(("t-16", 0), ("t-94", 1))
    assert [one.key for one in order(t=9).partitions(listed)] == [("t-94", 1), ("t-16", 0)]


def test_partitions_of_a_request_are_in_the_order_of_kafkas_map() -> None:
    """Kafka 3.9.1 did so in a recording of a lab's cluster."""
    assert order(t_4=1).names([("t_90", 4), ("t_90", 14)]) == [("t_90", 14), ("t_90", 4)]


def test_topics_without_writes_keep_the_order_of_the_request() -> None:
    assert order(c=4, b=7).topics(["z", "b", "a", "c"]) == ["c", "b", "z", "a"]
    assert order(b_0=1).topics(["z", "b"]) == ["z", "b"]


def test_brokers_are_in_the_order_of_kafkas_map() -> None:
    assert order().brokers([1, 2, 3, 4, 5]) == [5, 1, 2, 3, 4]


def test_order_follows_the_current_position_in_the_log() -> None:
    written: dict[tuple[str, int], int] = {}
    one = LoggedProcessingOrder(lambda: written)
    assert one.topics(["a", "b"]) == ["a", "b"]
    written["b", -1] = 4
    assert one.topics(["a", "b"]) == ["b", "a"]


@given(st.lists(NAMES, unique=True), st.dictionaries(NAMES, st.integers(1, 50)))
def test_every_partition_is_in_the_order_once(
    names: list[tuple[str, int]], written: dict[tuple[str, int], int]
) -> None:
    one = LoggedProcessingOrder(lambda: written)
    assert sorted(one.names(names)) == sorted(names)
    found = [each.key for each in one.partitions(partitions(*names))]
    assert sorted(found) == sorted(names)
    known = [written[name] for name in found if name in written]
    assert known == sorted(known)
    assert found[len(known) :] == mutable_map_order(
        sorted(name for name in names if name not in written)
    )
