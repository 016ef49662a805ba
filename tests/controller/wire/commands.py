"""Hypothesis strategies for the commands that are sent as requests."""

from hypothesis import strategies as st

from controller.core.commands import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from controller.core.values import Assignment, Broker, Endpoint, LeaderAndIsr

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
broker_ids = st.integers(0, 5) | st.integers(0, 2**31 - 1)
replicas = st.lists(broker_ids, max_size=4).map(tuple) | st.just(tuple(range(130)))
# Kafka's names are ASCII, but a rack may contain other characters. A length of 127 or more takes
# two bytes.
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.just("ü" * 100)
ports = st.integers(0, 65535)
# One id per topic name, since topics are grouped by name.
topics = st.tuples(names, st.none() | st.binary(min_size=16, max_size=16))
leaderships = st.builds(
    LeaderAndIsr,
    leader=int32,
    leader_epoch=int32,
    isr=replicas,
    partition_epoch=int32,
    controller_epoch=int32,
    recovery_state=st.integers(0, 1),
)
assignments = st.builds(Assignment, replicas=replicas, adding=replicas, removing=replicas)
endpoints = st.builds(
    Endpoint,
    listener=names,
    security_protocol=st.sampled_from(["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
    host=names,
    port=ports,
)
brokers = st.builds(
    Broker,
    id=broker_ids,
    epoch=int64,
    endpoints=st.lists(endpoints, max_size=4).map(tuple),
    rack=st.none() | names,
)
_heads = {
    "broker": broker_ids,
    "broker_epoch": int64,
    "version": st.just(-1),
    "controller_id": int32,
    "controller_epoch": int32,
}


@st.composite
def _leader_and_isr_partitions(draw: st.DrawFn) -> tuple[LeaderAndIsrPartition, ...]:
    one = st.tuples(int32, leaderships, assignments, st.booleans())
    by_topic = draw(_by_topic(one))
    return tuple(LeaderAndIsrPartition(*topic, *rest) for topic, rest in by_topic)


@st.composite
def _update_metadata_partitions(draw: st.DrawFn) -> tuple[UpdateMetadataPartition, ...]:
    by_topic = draw(_by_topic(st.tuples(int32, leaderships, replicas, replicas)))
    return tuple(UpdateMetadataPartition(*topic, *rest) for topic, rest in by_topic)


@st.composite
def _stop_replica_partitions(draw: st.DrawFn) -> tuple[StopReplicaPartition, ...]:
    by_topic = draw(_by_topic(st.tuples(int32, int32, st.booleans())))
    return tuple(StopReplicaPartition(topic[0], *rest) for topic, rest in by_topic)


def _by_topic(one: st.SearchStrategy) -> st.SearchStrategy:
    """Pairs of topic and partition, grouped by topic."""
    topic = st.tuples(topics, st.lists(one, min_size=1, max_size=4))
    return st.lists(topic, max_size=4, unique_by=lambda pair: pair[0][0]).map(
        lambda pairs: [(topic, each) for topic, rest in pairs for each in rest]
    )


leader_and_isr_requests = st.builds(
    LeaderAndIsrRequest,
    **_heads,
    partitions=_leader_and_isr_partitions(),
    live_leaders=st.lists(st.tuples(broker_ids, names, ports), max_size=3).map(tuple),
)
update_metadata_requests = st.builds(
    UpdateMetadataRequest,
    **_heads,
    partitions=_update_metadata_partitions(),
    live_brokers=st.lists(brokers, max_size=3).map(tuple),
)
stop_replica_requests = st.builds(
    StopReplicaRequest, **_heads, partitions=_stop_replica_partitions()
)
