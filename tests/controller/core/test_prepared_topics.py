"""Prepared requests are the same bytes as others: on the wire and in the log."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.canonical import encode_command
from controller.core.commands import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from controller.core.prepared_topics import (
    JoinedEntries,
    PreparedTopic,
    TopicEntries,
    join,
    prepare,
    prepare_ahead,
    unprepare,
)
from controller.core.state import Partition, Topic
from controller.core.values import RECOVERED, RECOVERING, Assignment, LeaderAndIsr
from controller.wire.apis import LEADER_AND_ISR, UPDATE_METADATA
from controller.wire.encoding import BatchEncoder
from tests.controller.wire.commands import leader_and_isr_requests, update_metadata_requests

Request = LeaderAndIsrRequest | UpdateMetadataRequest


def joined(request: Any, prepared: set[str]) -> Any:
    """The same request, of which these topics are prepared."""
    entries = sorted(request.partitions, key=lambda one: (one.topic, one.partition))
    parts = {
        name: TopicEntries(one for one in entries if one.topic == name)
        for name in {one.topic for one in entries} & prepared
    }
    rest = [one for one in entries if one.topic not in prepared]
    plain = msgspec.structs.replace(request, partitions=tuple(entries))
    return plain, msgspec.structs.replace(request, partitions=join(rest, parts))


def choice(request: Any, data: st.DataObject) -> set[str]:
    names = sorted({one.topic for one in request.partitions})
    return {name for name in names if data.draw(st.booleans())}


@given(request=st.one_of(leader_and_isr_requests, update_metadata_requests), data=st.data())
def test_prepared_request_has_the_canonical_body_of_a_plain_one(
    request: Request, data: st.DataObject
) -> None:
    plain, prepared = joined(request, choice(request, data))
    assert encode_command(prepared) == encode_command(plain)
    assert encode_command(prepared) == encode_command(plain), "with the cached forms"


@pytest.mark.parametrize("count", [0, 1, 15, 16, 65_535, 65_536])
def test_array_of_any_length_has_the_header_of_msgpack(count: int) -> None:
    request = UpdateMetadataRequest(1, 2, 8, 1000, 3, (), ())
    entries: Any = TopicEntries([0] * count)
    made = msgspec.structs.replace(request, partitions=JoinedEntries([entries]))
    plain = msgspec.structs.replace(request, partitions=(0,) * count)
    assert encode_command(made) == msgspec.msgpack.encode(plain)


@given(request=leader_and_isr_requests, data=st.data(), version=st.sampled_from(range(8)))
def test_prepared_leader_and_isr_is_encoded_as_a_plain_one(
    request: LeaderAndIsrRequest, data: st.DataObject, version: int
) -> None:
    version = max(version, LEADER_AND_ISR.first)
    plain, prepared = joined(request, choice(request, data))
    for _ in range(2):
        assert BatchEncoder().encode(prepared, version) == BatchEncoder().encode(plain, version)


@given(request=update_metadata_requests, data=st.data(), version=st.sampled_from(range(9)))
def test_prepared_update_metadata_is_encoded_as_a_plain_one(
    request: UpdateMetadataRequest, data: st.DataObject, version: int
) -> None:
    version = max(version, UPDATE_METADATA.first)
    plain, prepared = joined(request, choice(request, data))
    for _ in range(2):
        assert BatchEncoder().encode(prepared, version) == BatchEncoder().encode(plain, version)


@given(request=leader_and_isr_requests, data=st.data())
def test_prepared_request_that_is_too_long_is_split(
    request: LeaderAndIsrRequest, data: st.DataObject
) -> None:
    plain, prepared = joined(request, choice(request, data))
    assert BatchEncoder(200).encode(prepared, 7) == BatchEncoder(200).encode(plain, 7)


# What `prepare` makes of topics -------------------------------------------------------------------

settled_leaderships = st.builds(
    LeaderAndIsr,
    leader=st.integers(0, 5),
    leader_epoch=st.integers(0, 2**31 - 1),
    isr=st.lists(st.integers(0, 5), max_size=4, unique=True).map(tuple),
    partition_epoch=st.integers(0, 2**31 - 1),
    controller_epoch=st.integers(0, 2**31 - 1),
    recovery_state=st.sampled_from([0, 0, 0, 1]),
)
some_brokers = st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True).map(tuple)
no_brokers = st.just(())
settled_assignments = st.builds(
    Assignment, replicas=some_brokers, adding=no_brokers, removing=no_brokers
)
moving_assignments = st.builds(
    Assignment, replicas=some_brokers, adding=some_brokers, removing=some_brokers
)
partitions_of_topics = st.dictionaries(
    st.sampled_from(["a", "b", "c"]),
    st.lists(st.tuples(settled_leaderships, settled_assignments), min_size=1, max_size=5)
    | st.lists(st.tuples(settled_leaderships, moving_assignments), min_size=1, max_size=5),
    min_size=1,
)


def prepared_topics(content: Any) -> dict[str, PreparedTopic]:
    made = {}
    for name, partitions in content.items():
        topic = Topic(name)
        topic.id = name.encode() * 16
        for number, (leadership, assignment) in enumerate(partitions):
            topic.partitions[number] = Partition(
                topic, number, assignment=assignment, leadership=leadership
            )
        prepared = prepare(topic, set(range(6)))
        assert prepared is not None
        made[name] = prepared
    return made


def requests_of(topics: dict[str, PreparedTopic]) -> list[tuple[Any, Any]]:
    """The requests to all brokers, each with plain entries and as it is prepared."""
    partitions = [one for name in sorted(topics) for one in topics[name].topic.partitions.values()]
    metadata = UpdateMetadataRequest(
        1,
        2,
        8,
        1000,
        3,
        tuple(
            UpdateMetadataPartition(
                one.topic.name, one.topic.id, one.number, one.leadership, one.replicas, ()
            )
            for one in partitions
            if one.leadership is not None
        ),
        (),
    )
    joined_metadata = join([], {name: one.update_metadata for name, one in topics.items()})
    pairs: list[tuple[Any, Any]] = [
        (metadata, msgspec.structs.replace(metadata, partitions=joined_metadata))
    ]
    for broker in range(6):
        plain = LeaderAndIsrRequest(
            broker,
            2,
            7,
            1000,
            3,
            tuple(
                LeaderAndIsrPartition(
                    one.topic.name, one.topic.id, one.number, one.leadership, one.assignment, False
                )
                for one in partitions
                if broker in one.replicas and one.leadership is not None
            ),
            (),
        )
        parts = {
            name: one.leader_and_isr[broker]
            for name, one in topics.items()
            if broker in one.leader_and_isr
        }
        pairs.append((plain, msgspec.structs.replace(plain, partitions=join([], parts))))
    return pairs


@given(content=partitions_of_topics)
def test_requests_of_prepared_topics_have_the_canonical_bodies_of_plain_ones(content: Any) -> None:
    for plain, prepared in requests_of(prepared_topics(content)):
        assert encode_command(prepared) == encode_command(plain)


@given(content=partitions_of_topics, is_flexible=st.booleans())
def test_requests_of_prepared_topics_are_encoded_as_plain_ones(
    content: Any, is_flexible: bool
) -> None:
    """One batch, so that the requests share what is encoded once."""
    batch = BatchEncoder()
    for plain, prepared in requests_of(prepared_topics(content)):
        is_metadata = isinstance(plain, UpdateMetadataRequest)
        version = (8 if is_metadata else 7) if is_flexible else (5 if is_metadata else 3)
        assert batch.encode(prepared, version) == BatchEncoder().encode(plain, version)


@pytest.mark.parametrize(
    ("assignment", "recovery_state"),
    [
        (Assignment((1, 2), adding=(2,)), RECOVERED),
        (Assignment((1, 2), removing=(2,)), RECOVERED),
        (Assignment((1, 2)), RECOVERING),
    ],
    ids=["adding", "removing", "recovering"],
)
def test_requests_of_a_prepared_topic_say_what_is_unusual_about_a_partition(
    assignment: Assignment, recovery_state: int
) -> None:
    leadership = LeaderAndIsr(1, 0, (1,), 0, 1, recovery_state)
    content = {"t": [(leadership, assignment)]}
    for plain, prepared in requests_of(prepared_topics(content)):
        version = 8 if isinstance(plain, UpdateMetadataRequest) else 7
        assert BatchEncoder().encode(prepared, version) == BatchEncoder().encode(plain, version)


def test_topic_without_partitions_or_with_a_partition_without_replicas_is_not_prepared() -> None:
    topic = Topic("t")
    assert prepare(topic) is None
    leadership = LeaderAndIsr(1, 0, (1,), 0, 1)
    topic.partitions[0] = Partition(topic, 0, Assignment(()), leadership=leadership)
    assert prepare(topic) is None


def test_topic_that_is_no_longer_prepared_is_as_before() -> None:
    topic = Topic("t")
    leadership = LeaderAndIsr(1, 0, (1,), 0, 1)
    partition = Partition(topic, 0, Assignment((1, 2)), leadership=leadership)
    topic.partitions[0] = partition
    before = (partition.state, partition.replica_states)
    assert prepare(topic) is not None
    assert (partition.state, partition.replica_states) != before
    unprepare(topic)
    assert (partition.state, partition.replica_states) == before


def test_topic_with_a_dead_replica_or_leader_is_not_prepared() -> None:
    for leader, replicas in ((1, (1, 2)), (2, (1,))):
        topic = Topic("t")
        leadership = LeaderAndIsr(leader, 0, (leader,), 0, 1)
        topic.partitions[0] = Partition(topic, 0, Assignment(replicas), leadership=leadership)
        assert prepare(topic, {1}) is None
        assert prepare(topic, {1, 2}) is not None


# What a controller prepares ahead -----------------------------------------------------------------


def led_topic(*numbers: int) -> Topic:
    topic = Topic("t")
    topic.id = bytes(15) + b"\1"
    for number in numbers:
        leadership = LeaderAndIsr(1, 0, (1, 2), 0, 1)
        topic.partitions[number] = Partition(
            topic, number, Assignment((1, 2)), leadership=leadership
        )
    return topic


def set_leader(topic: Topic) -> None:
    topic.partitions[1].leadership = LeaderAndIsr(2, 1, (1, 2), 1, 1)


def set_replicas(topic: Topic) -> None:
    topic.partitions[1].assignment = Assignment((2, 1))


def set_id(topic: Topic) -> None:
    topic.id = bytes(15) + b"\2"


def add_partition(topic: Topic) -> None:
    topic.partitions[2] = led_topic(2).partitions[2]


def renumber_partition(topic: Topic) -> None:
    del topic.partitions[1]
    add_partition(topic)


@pytest.mark.parametrize(
    "change", [set_leader, set_replicas, set_id, add_partition, renumber_partition]
)
def test_topic_is_prepared_ahead_once_and_again_when_it_has_changed(
    change: Callable[[Topic], None],
) -> None:
    topic, ahead = led_topic(0, 1), dict[str, PreparedTopic]()
    assert prepare_ahead(topic, ahead) is ahead["t"]
    assert prepare_ahead(topic, ahead) is None
    change(topic)
    before = ahead["t"]
    assert prepare_ahead(topic, ahead) is ahead["t"] is not before
    metadata = ahead["t"].update_metadata
    assert [(one.partition, one.topic_id) for one in metadata] == [
        (number, topic.id) for number in topic.partitions
    ]


def test_topic_of_the_same_name_is_prepared_for_itself() -> None:
    first, second, ahead = led_topic(0), Topic("t"), dict[str, PreparedTopic]()
    second.id, second.partitions = first.id, first.partitions
    prepare_ahead(first, ahead)
    assert prepare_ahead(second, ahead) is not None
    assert ahead["t"].topic is second


def test_topic_without_a_leader_is_not_prepared_ahead() -> None:
    topic, ahead = led_topic(0), dict[str, PreparedTopic]()
    topic.partitions[0].leadership = None
    assert prepare_ahead(topic, ahead) is None
    assert ahead == {}
