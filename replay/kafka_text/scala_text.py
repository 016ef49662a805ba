"""Values as Scala's and Kafka's `toString` spell them. Unordered collections are sorted."""

from collections.abc import Iterable, Mapping
from typing import Final

from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.values import RECOVERING, Assignment, Broker, Endpoint, LeaderAndIsr

_SMALL: Final = 4
"""Scala has special classes for immutable sets and maps up to this size."""

PARTITION_STATES: Final = {
    PartitionState.NEW: "NewPartition",
    PartitionState.ONLINE: "OnlinePartition",
    PartitionState.OFFLINE: "OfflinePartition",
    PartitionState.NON_EXISTENT: "NonExistentPartition",
}
REPLICA_STATES: Final = {
    ReplicaState.NEW: "NewReplica",
    ReplicaState.ONLINE: "OnlineReplica",
    ReplicaState.OFFLINE: "OfflineReplica",
    ReplicaState.DELETION_STARTED: "ReplicaDeletionStarted",
    ReplicaState.DELETION_SUCCESSFUL: "ReplicaDeletionSuccessful",
    ReplicaState.DELETION_INELIGIBLE: "ReplicaDeletionIneligible",
    ReplicaState.NON_EXISTENT: "NonExistentReplica",
}


def mk_string(values: Iterable[object]) -> str:
    """mkString(",")."""
    return ",".join(map(str, values))


def collection(name: str, values: Iterable[object]) -> str:
    """A collection of the class `name`."""
    return f"{name}({', '.join(map(str, values))})"


def immutable_set(values: Iterable[object]) -> str:
    """An immutable set."""
    members = list(values)
    return collection("Set" if len(members) <= _SMALL else "HashSet", members)


def mutable_set(values: Iterable[object]) -> str:
    """A mutable set."""
    return collection("HashSet", values)


def immutable_map(pairs: Mapping[str, str]) -> str:
    """An immutable map."""
    return collection("Map" if len(pairs) <= _SMALL else "HashMap", _pairs(pairs))


def filtered_map(pairs: Mapping[str, str], size: int) -> str:
    """The rest of an immutable map that had `size` entries before a filter: the class stays."""
    return collection("Map" if size <= _SMALL else "HashMap", _pairs(pairs))


def mutable_map(pairs: Mapping[str, str]) -> str:
    """A mutable map."""
    return collection("HashMap", _pairs(pairs))


def _pairs(pairs: Mapping[str, str]) -> list[str]:
    return [f"{key} -> {value}" for key, value in pairs.items()]


def assignment(value: Assignment) -> str:
    """ReplicaAssignment."""
    return (
        f"ReplicaAssignment(replicas={mk_string(value.replicas)}, "
        f"addingReplicas={mk_string(value.adding)}, removingReplicas={mk_string(value.removing)})"
    )


def leader_and_isr(state: LeaderAndIsr) -> str:
    """LeaderAndIsr. A ZooKeeper controller does not know the broker epochs of the ISR."""
    members = [f"BrokerState(brokerId={one}, brokerEpoch=-1)" for one in state.isr]
    return (
        f"LeaderAndIsr(leader={state.leader}, leaderEpoch={state.leader_epoch}, "
        f"isrWithBrokerEpoch={collection('List', members)}, "
        f"leaderRecoveryState={_recovery(state)}, partitionEpoch={state.partition_epoch})"
    )


def leader_isr_and_epoch(state: LeaderAndIsr) -> str:
    """LeaderIsrAndControllerEpoch."""
    return (
        f"(Leader:{state.leader},ISR:{mk_string(state.isr)},LeaderRecoveryState:{_recovery(state)},"
        f"LeaderEpoch:{state.leader_epoch},ZkVersion:{state.partition_epoch},"
        f"ControllerEpoch:{state.controller_epoch})"
    )


def _recovery(state: LeaderAndIsr) -> str:
    return "RECOVERING" if state.recovery_state == RECOVERING else "RECOVERED"


def replica(topic: str, partition: int, broker: int) -> str:
    """PartitionAndReplica."""
    return f"[Topic={topic},Partition={partition},Replica={broker}]"


def node(broker: int, endpoint: Endpoint, rack: str | None) -> str:
    """Node: the address of a broker."""
    return f"{endpoint.host}:{endpoint.port} (id: {broker} rack: {rack or 'null'})"


def registration(broker: Broker) -> str:
    """Broker, without features, which a ZooKeeper controller does not use."""
    endpoints = mk_string(
        f"EndPoint({one.host},{one.port},ListenerName({one.listener}),{one.security_protocol})"
        for one in broker.endpoints
    )
    return f"{broker.id} : ({endpoints}) : {broker.rack or 'null'} : Features{{}}"
