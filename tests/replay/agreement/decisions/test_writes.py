"""Differences between a write of the fold and a write of Kafka."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core import operations
from controller.core.operations import WriteOperation
from controller.core.values import ANY_VERSION
from controller.core.znodes import CONTROLLER, REASSIGN_PARTITIONS
from replay.agreement.decisions.writes import (
    is_same_write,
    refusal,
    version_after,
    write_differences,
)
from replay.stock_clusters.zookeeper_log.transactions import Delete, Error, Operation, SetData
from tests.replay.agreement.view import (
    STATE,
    TOPIC,
    Tree,
    create,
    set_state,
    state_json,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner),
    max_leaves=6,
)
CONTENTS = st.dictionaries(st.text("abcd", max_size=2), VALUES, max_size=4)


def differences(refold: WriteOperation, stock: Operation, path: str = STATE) -> list[str]:
    return list(write_differences(refold, stock, path))


def of_content(path: str, refold: Any, stock: Any) -> list[str]:
    one, other = json.dumps(refold).encode(), json.dumps(stock).encode()
    return differences(operations.SetData(path, one, ANY_VERSION), SetData(path, other, 3), path)


def turned(content: Any) -> Any:
    """The same content with the keys in reverse order."""
    if isinstance(content, list):
        return [turned(one) for one in content]
    if isinstance(content, dict):
        return {key: turned(content[key]) for key in reversed(content)}
    return content


@pytest.mark.parametrize(
    ("refold", "stock", "expected"),
    [
        (state_json(1, 4, 1, 2), state_json(1, 4, 1, 2), []),
        (state_json(1, 4, 1, 2), state_json(3, 4, 1, 2), [f"{STATE}: leader 1, Kafka 3"]),
        (state_json(1, 4, 1, 2), state_json(1, 5, 1, 2), [f"{STATE}: leader_epoch 4, Kafka 5"]),
        (state_json(1, 4, 1, 2), state_json(1, 4, 2, 1), [f"{STATE}: isr [1,2], Kafka [2,1]"]),
        (
            state_json(1, 4, 1, controller_epoch=2),
            state_json(1, 4, 1, controller_epoch=3),
            [f"{STATE}: controller_epoch 2, Kafka 3"],
        ),
        (
            state_json(1, 4, 1, leader_recovery_state=1),
            state_json(1, 4, 1),
            [f"{STATE}: leader_recovery_state 1, Kafka nothing"],
        ),
        (b"{", state_json(1, 4, 1), [f"{STATE}: {{, Kafka {state_json(1, 4, 1).decode()}"]),
        (b"", b"7", [f"{STATE}: nothing, Kafka 7"]),
        (b"6", b"7", [f"{STATE}: 6, Kafka 7"]),
        (b"6", b" 6", []),
    ],
)
def test_fields_of_a_state_that_differ_are_reported(
    refold: bytes, stock: bytes, expected: list[str]
) -> None:
    assert differences(set_state(refold, 2), SetData(STATE, stock, 3)) == expected


def test_only_differing_nested_fields_are_reported() -> None:
    refold = {"partitions": {"0": [1, 2], "1": [2]}, "adding_replicas": {"0": [2]}}
    stock = {"partitions": {"0": [1, 3], "1": [2]}, "adding_replicas": {}}
    assert of_content(TOPIC, refold, stock) == [
        f"{TOPIC}: adding_replicas 0 [2], Kafka nothing",
        f"{TOPIC}: partitions 0 [1,2], Kafka [1,3]",
    ]


def test_version_condition_is_compared() -> None:
    """ZooKeeper's log has the version after the write, the fold's write the version before it."""
    data = state_json(1, 4, 1)
    assert differences(set_state(data, 4), SetData(STATE, data, 5)) == []
    assert differences(set_state(data, ANY_VERSION), SetData(STATE, data, 5)) == []
    assert differences(set_state(data, 5), SetData(STATE, data, 5)) == [
        f"{STATE}: at version 5, Kafka at 4"
    ]


def test_timestamp_and_schema_of_the_controller_znode_are_ignored() -> None:
    refold = {"version": 2, "brokerid": 3, "timestamp": "1", "kraftControllerEpoch": -1}
    stock = {"version": 1, "brokerid": 3, "timestamp": "2"}
    assert of_content(CONTROLLER, refold, stock) == []
    assert of_content(CONTROLLER, refold, stock | {"brokerid": 4}) == [
        f"{CONTROLLER}: brokerid 3, Kafka 4"
    ]
    assert of_content(STATE, {"version": 2}, {"version": 1}) == [f"{STATE}: version 2, Kafka 1"]


def test_order_of_reassignment_entries_is_ignored() -> None:
    first = {"topic": "t", "partition": 0, "replicas": [1, 2]}
    second = {"topic": "u", "partition": 0, "replicas": [3]}
    path = REASSIGN_PARTITIONS
    assert of_content(path, {"partitions": [first, second]}, {"partitions": [second, first]}) == []
    assert of_content(path, {"partitions": [first]}, {"partitions": [first, second]})
    other = first | {"replicas": [2, 1]}
    assert of_content(path, {"partitions": [first]}, {"partitions": [other]})
    assert of_content(TOPIC, {"partitions": [first, second]}, {"partitions": [second, first]})


@given(CONTENTS)
def test_order_of_keys_is_ignored(content: dict[str, Any]) -> None:
    assert of_content(TOPIC, content, turned(content)) == []


@given(CONTENTS, CONTENTS)
def test_any_other_difference_is_reported(one: dict[str, Any], other: dict[str, Any]) -> None:
    """A field with `null` equals a missing field."""
    found = of_content(TOPIC, one, other)
    assert bool(found) == (bare(one) != bare(other))
    assert all(text.startswith(f"{TOPIC}: ") and "Kafka" in text for text in found)


def bare(content: Any) -> Any:
    """The content without fields that are null."""
    if isinstance(content, dict):
        return {key: bare(one) for key, one in content.items() if one is not None}
    return content


@given(st.binary(max_size=12), st.binary(max_size=12))
def test_arbitrary_bytes_cause_no_traceback(one: bytes, other: bytes) -> None:
    found = differences(set_state(one, 0), SetData(STATE, other, 1))
    assert (one != other) or not found


@pytest.mark.parametrize(
    ("refold", "stock", "is_same"),
    [
        (operations.Create(STATE), create(STATE), True),
        (operations.Create(STATE), SetData(STATE, b"", 1), False),
        (set_state(b""), SetData(STATE, b"", 1), True),
        (set_state(b""), Delete(STATE), False),
        (operations.Delete(STATE, -1), Delete(STATE), True),
        (operations.Delete(STATE, -1), Error(-101), False),
    ],
)
def test_writes_are_paired_by_path_and_kind(
    refold: WriteOperation, stock: Operation, is_same: bool
) -> None:
    assert is_same_write(refold, stock, STATE) is is_same
    assert not is_same_write(refold, stock, TOPIC)


def test_refusal_is_zookeepers_error() -> None:
    tree = Tree()
    tree.put(STATE, b"0")
    tree.put(STATE, b"1")
    gone = "/brokers/topics/u"
    found = [
        refusal(one, tree.view)
        for one in (
            operations.Create(gone),
            operations.Create(STATE),
            set_state(b"", 1),
            set_state(b"", ANY_VERSION),
            set_state(b"", 0),
            operations.SetData(gone, b"", 0),
            operations.Delete(STATE, ANY_VERSION),
            operations.Delete(STATE, 0),
            operations.Delete(gone, ANY_VERSION),
            operations.Delete(TOPIC, ANY_VERSION),
        )
    ]
    ok = operations.OK
    assert found == [
        ok,
        operations.NODE_EXISTS,
        ok,
        ok,
        operations.BAD_VERSION,
        operations.NO_NODE,
        ok,
        operations.BAD_VERSION,
        operations.NO_NODE,
        operations.NOT_EMPTY,
    ]


def test_version_after_a_write_is_zookeepers() -> None:
    tree = Tree()
    tree.put(STATE, b"0")
    tree.put(STATE, b"1")
    assert version_after(set_state(b"", 1), tree.view) == 2
    assert version_after(operations.Create(TOPIC), tree.view) == 0
    assert version_after(operations.Delete(STATE, 1), tree.view) == -1
