"""The order of single steps, as the log's next writes have it."""

from hypothesis import given
from hypothesis import strategies as st

from controller.core.state import ControllerContext, Partition
from replay.stock_clusters.agreement.trace.processing_order import (
    LoggedProcessingOrder,
    mutable_map_order,
)

NAMES = st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 3))


def partitions(*names: tuple[str, int]) -> list[Partition]:
    context = ControllerContext("PLAINTEXT")
    return [context.topic(topic).partition(number) for topic, number in names]


def turns(**first: int) -> LoggedProcessingOrder:
    """With the records of the next writes: `b_1=7`; `b=7` for the topic itself."""
    written = {}
    for name, seq in first.items():
        topic, _, number = name.partition("_")
        written[topic, int(number or -1)] = seq
    return LoggedProcessingOrder(lambda: written)


def test_partitions_that_are_written_about_come_first_in_that_order() -> None:
    listed = partitions(("a", 1), ("a", 0), ("b", 0), ("b", 1))
    found = turns(b_1=3, b_0=9).partitions(listed)
    assert [one.key for one in found] == [("b", 1), ("b", 0), ("a", 1), ("a", 0)]


def test_partitions_that_are_not_written_about_come_as_in_kafkas_set() -> None:
    """What Kafka 3.9.1 did in a recording of a lab's cluster: the first one failed."""
    listed = partitions(("t-16", 0), ("t-94", 1))
    assert [one.key for one in turns(t=9).partitions(listed)] == [("t-94", 1), ("t-16", 0)]


def test_partitions_of_a_request_come_as_in_kafkas_map() -> None:
    """What Kafka 3.9.1 did in a recording of a lab's cluster."""
    assert turns(t_4=1).names([("t_90", 4), ("t_90", 14)]) == [("t_90", 14), ("t_90", 4)]


def test_topics_that_are_not_written_about_come_as_they_were_asked_for() -> None:
    assert turns(c=4, b=7).topics(["z", "b", "a", "c"]) == ["c", "b", "z", "a"]
    assert turns(b_0=1).topics(["z", "b"]) == ["z", "b"]


def test_brokers_come_as_in_kafkas_map() -> None:
    assert turns().brokers([1, 2, 3, 4, 5]) == [5, 1, 2, 3, 4]


def test_order_is_that_of_the_log_now() -> None:
    written: dict[tuple[str, int], int] = {}
    one = LoggedProcessingOrder(lambda: written)
    assert one.topics(["a", "b"]) == ["a", "b"]
    written["b", -1] = 4
    assert one.topics(["a", "b"]) == ["b", "a"]


@given(st.lists(NAMES, unique=True), st.dictionaries(NAMES, st.integers(1, 50)))
def test_nothing_is_lost(names: list[tuple[str, int]], written: dict[tuple[str, int], int]) -> None:
    one = LoggedProcessingOrder(lambda: written)
    assert sorted(one.names(names)) == sorted(names)
    order = [each.key for each in one.partitions(partitions(*names))]
    assert sorted(order) == sorted(names)
    known = [written[name] for name in order if name in written]
    assert known == sorted(known)
    assert order[len(known) :] == mutable_map_order(
        sorted(name for name in names if name not in written)
    )
