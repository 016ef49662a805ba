"""Decisions with the same subject are compared part by part, requests partition by partition."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from replay.diff.contents import partitions_of
from replay.diff.grouping import divergences
from replay.diff.messages import Decision
from tests.replay.diff.samples import decision, request

Found = tuple[str, tuple[str, ...], list[tuple[str, str | None, str | None]]]
"""How a decision differs, its partitions, and the part and both values of each difference."""


def found(base: Sequence[Decision], head: Sequence[Decision]) -> list[Found]:
    return [
        (one.what, one.partitions, [(part.part, part.base, part.head) for part in one.differences])
        for one in divergences(base, head)
    ]


def changed_leader(partition: str, base: int, head: int) -> Found:
    return "changed", (partition,), [(f"{partition}.leader", str(base), str(head))]


def without_content(one: Decision) -> Decision:
    return structs.replace(one, content=None)


# One decision with another ------------------------------------------------------------------------


@pytest.mark.parametrize(("channel", "kind"), [("zookeeper", "set"), ("broker 1", "open_channel")])
def test_decision_is_compared_with_the_one_at_the_same_event(channel: str, kind: str) -> None:
    earlier, later, other = (
        decision({"port": port}, channel=channel, kind=kind, target="a", seq=seq)
        for port, seq in ((1, 1), (2, 5), (3, 5))
    )
    changed: Found = ("changed", (), [("port", "2", "3")])
    assert found([earlier, later], [other]) == [("missing", (), []), changed]


def test_changed_write_affects_the_partitions_that_either_version_chose() -> None:
    base, head = (
        structs.replace(
            decision({"partitions": number}, target="/brokers/topics/t"),
            choices=[{"topic": "t", "partition": number, "chosen": 1}],
        )
        for number in (0, 1)
    )
    [one] = divergences([base], [head])
    assert one.partitions == ("t-0", "t-1")


def test_value_that_becomes_empty_is_a_difference() -> None:
    base, head = decision({"isr": [1]}), decision({"isr": []})
    assert found([base], [head]) == [("changed", ("t-0",), [("isr", "[1]", "[]")])]
    assert found([head], [base]) == [("changed", ("t-0",), [("isr", "[]", "[1]")])]


def test_value_that_differs_in_each_run_is_no_difference() -> None:
    base, head = (
        decision({"data": {"brokerid": 1, "timestamp": time}, "request": time}) for time in (6, 7)
    )
    assert found([base], [head]) == []


def test_unknown_content_is_a_difference_as_a_whole() -> None:
    known = decision({"leader": 1})
    other = without_content(decision({"leader": 2}))
    assert found([known], [other]) == [
        ("changed", ("t-0",), [("content", '{"leader":1}', "null")]),
    ]


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ({"topic": "t", "partition": 3}, ("t-3",)),
        ({"topic": "t", "moved": [{"topic": "u", "partition": 1}]}, ("u-1",)),
        ({"partition": 3, "moved": [{"topic": "u", "partition": 1}]}, ("u-1",)),
        ({"topic": "", "partition": 3}, ()),
    ],
)
def test_partition_has_a_topic_and_a_number(
    content: dict[str, Any], names: tuple[str, ...]
) -> None:
    assert partitions_of(decision(content, target="/admin")) == names


# Requests, partition by partition -----------------------------------------------------------------


def test_request_of_one_version_has_its_partitions() -> None:
    one = request(1, ("t", 0, 1), ("t", 1, 1))
    assert found([one], []) == [("missing", ("t-0", "t-1"), [])]
    assert found([], [one]) == [("new", ("t-0", "t-1"), [])]


def test_request_without_partitions_of_one_version_is_a_difference() -> None:
    one, other = request(1), request(1, ("t", 0, 1))
    assert found([], [one]) == [("new", (), [])]
    assert found([one, other], []) == [("missing", (), []), ("missing", ("t-0",), [])]


@pytest.mark.parametrize("states", [(), (("t", 0, 1),)])
def test_changed_epoch_of_a_request_is_one_difference(
    states: tuple[tuple[str, int, int], ...],
) -> None:
    base, head = request(1, *states), request(1, *states, epoch=2)
    assert found([base], [head]) == [("changed", (), [("controller_epoch", "1", "2")])]


def test_changed_epoch_is_one_difference_if_partitions_are_sent_in_more_requests() -> None:
    one = [request(1, ("t", 0, 1), ("t", 1, 1))]
    more = [request(1, ("t", 0, 1), epoch=2), request(1, ("t", 1, 1), epoch=2)]
    assert found(one, more) == [("changed", (), [("controller_epoch", "1", "2")])]
    assert found(more, one) == [("changed", (), [("controller_epoch", "2", "1")])]


def test_request_without_partitions_is_part_of_another_with_the_same_fields() -> None:
    base = [request(1, ("t", 0, 1)), request(1)]
    head = [request(1, ("t", 0, 2))]
    assert found(base, head) == [changed_leader("t-0", 1, 2)]
    assert found(head, base) == [changed_leader("t-0", 2, 1)]


def test_empty_field_of_a_partition_in_one_version_is_ignored() -> None:
    base = request(1, ("t", 0, 1))
    [partition] = (base.content or {})["partitions"]
    content = {"controller_epoch": 1, "partitions": [{**partition, "racks": []}]}
    head = structs.replace(base, key=b"another", content=content)
    assert found([base], [head]) == []
    assert found([head], [base]) == []


def test_state_that_both_versions_send_equally_often_is_no_difference() -> None:
    base = [
        request(1, ("t", 0, 1), ("u", 0, 1)),
        request(1, ("t", 0, 1), ("u", 1, 1)),
        request(1, ("t", 0, 2), ("u", 2, 1)),
    ]
    head = [
        request(1, ("t", 0, 3), ("u", 0, 1)),
        request(1, ("t", 0, 1), ("u", 1, 1), ("u", 2, 1)),
        request(1, ("t", 0, 1)),
    ]
    assert found(base, head) == [changed_leader("t-0", 2, 3)]


def test_state_that_one_version_sends_once_more_is_missing_or_new() -> None:
    twice = [request(1, ("t", 0, 1), ("u", 0, 1)), request(1, ("t", 0, 1), ("u", 1, 1))]
    once = [request(1, ("t", 0, 1), ("u", 0, 1), ("u", 1, 1))]
    assert found(twice, once) == [("missing", ("t-0",), [])]
    assert found(once, twice) == [("new", ("t-0",), [])]


def test_request_without_the_list_of_partitions_lacks_each_partition() -> None:
    one = request(1, ("t", 0, 1))
    other = structs.replace(one, key=b"another", content={"controller_epoch": 1})
    assert found([one], [other]) == [("missing", ("t-0",), [])]
    assert found([other], [one]) == [("new", ("t-0",), [])]


def test_request_with_unknown_content_is_a_difference() -> None:
    unknown = without_content(request(1, ("u", 0, 1)))
    base, head = request(1, ("t", 0, 1)), request(1, ("t", 0, 2))
    assert found([unknown], []) == [("missing", (), [])]
    assert found([base, unknown], [head]) == [changed_leader("t-0", 1, 2), ("missing", (), [])]
    assert found([base], [head, unknown]) == [changed_leader("t-0", 1, 2), ("new", (), [])]
