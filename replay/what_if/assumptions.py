"""Assumed properties of the simulated cluster, which no log shows, as data."""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from controller.core import znodes
from replay.what_if.causes import BrokerUnregistered, ControllerGone, ReplicaLagged
from replay.what_if.history import ClusterAtEvent, cluster_state_at, is_leaderless
from replay.what_if.incident import Incident
from replay.what_if.starting import LAG_MS, SESSION_MS, Continuation


class AssumptionKind(StrEnum):
    """The subjects of assumptions: what the simulation needs and no log says."""

    LOG_END_OFFSETS = "log end offsets"
    PRODUCERS = "producers"
    BROKER_TIMES = "times of brokers"
    LATENCIES = "latencies"
    BROKER_SETTINGS = "settings of brokers"
    TOPIC_CONFIGS = "configurations of topics"
    CONTROLLER_STARTS = "controller"
    CONTROLLER_IN_PLACE = "rules of the controller"
    CAUSES_OF_FAILURES = "causes of failures"
    TAKE_OVERS = "take-overs"
    COPYING = "copying"
    REBALANCE = "leader rebalance"
    CLIENTS_NOT_SEEN = "requests that are not seen"
    SIMULATED = "simulated incident"


class Assumption(Struct, frozen=True):
    """One assumption: what it is about, how many subjects it has, and what is assumed."""

    about: AssumptionKind
    count: int
    text: str


def assumptions(incident: Incident, continuation: Continuation) -> list[Assumption]:
    """All assumptions of a continuation."""
    return [one for one in _assumptions(incident, continuation) if one.count]


def _assumptions(incident: Incident, continuation: Continuation) -> Iterator[Assumption]:
    if incident.scenario is not None:
        text = "none: the incident is a simulated run, which is run again"
        if incident.not_repeated is not None:
            text = "the code of this version has the inputs of a run that another version has saved"
        yield Assumption(AssumptionKind.SIMULATED, 1, text)
        return
    cluster = cluster_state_at(incident.history.changes, continuation.seq, continuation.at_ms)
    yield from _of_records(cluster, continuation)
    yield from _of_settings(incident, cluster, continuation)
    yield from _of_controller(incident, continuation)
    failures = sum(isinstance(one.what, BrokerUnregistered) for one in continuation.causes)
    yield Assumption(
        AssumptionKind.CAUSES_OF_FAILURES,
        failures,
        "a broker whose registration ended without a controlled shutdown has crashed 4 s before",
    )
    gone = sum(isinstance(one.what, ControllerGone) for one in continuation.causes)
    yield Assumption(
        AssumptionKind.TAKE_OVERS,
        gone,
        "a controller whose session expired failed after its last decision in the log, up to 6 s "
        "before; the next one takes over at once, when it ended its take-over in the log",
    )


def _of_records(cluster: ClusterAtEvent, continuation: Continuation) -> Iterator[Assumption]:
    yield Assumption(
        AssumptionKind.LOG_END_OFFSETS,
        len(cluster.partitions),
        "all replicas of a partition have equal, empty logs when the continuation begins: a log "
        "does not say how far each replica was",
    )
    load = continuation.scenario.load
    assert load is not None
    yield Assumption(
        AssumptionKind.PRODUCERS,
        len(load.acks),
        f"one producer with acks=all, one with acks=1, {load.records_per_second} records a second "
        "over all partitions",
    )
    lagging = sum(isinstance(one.what, ReplicaLagged) for one in continuation.causes)
    outside = sum(
        broker not in now.isr and broker in cluster.brokers
        for now in cluster.partitions.values()
        if not is_leaderless(now, cluster.brokers)
        for broker in now.assignment.replicas
    )
    yield Assumption(
        AssumptionKind.COPYING,
        max(len(continuation.copying), outside) + lagging,
        "a follower that was not in the ISR, although its broker and a leader ran, is as slow as "
        "in the log, whatever else changes",
    )


def _of_settings(
    incident: Incident, cluster: ClusterAtEvent, continuation: Continuation
) -> Iterator[Assumption]:
    scenario = continuation.scenario
    yield Assumption(
        AssumptionKind.BROKER_TIMES,
        len(scenario.brokers),
        "a broker takes 1 s to register and 0.6 s more to accept connections; it answers at once",
    )
    yield Assumption(
        AssumptionKind.LATENCIES,
        1,
        "each message takes 0.5 ms; ZooKeeper has 3 members without load",
    )
    defaults = {
        "replica.lag.time.max.ms": str(LAG_MS),
        "zookeeper.session.timeout.ms": str(SESSION_MS),
    }
    given = scenario.broker_settings
    assumed = [f"{key}={value}" for key, value in defaults.items() if given.get(key) == value]
    yield Assumption(
        AssumptionKind.BROKER_SETTINGS,
        len(assumed),
        f"{', '.join(assumed)}, and Kafka's defaults: change them with --set",
    )
    configured = sum(path.startswith(f"{znodes.TOPIC_CONFIGS}/") for path in cluster.znodes)
    yield Assumption(
        AssumptionKind.TOPIC_CONFIGS,
        0 if incident.is_imported else max(0, len(scenario.topics) - configured),
        "topics whose configuration the controller did not read have no overrides",
    )


def _of_controller(incident: Incident, continuation: Continuation) -> Iterator[Assumption]:
    yield Assumption(
        AssumptionKind.CONTROLLER_STARTS,
        1,
        "a controller is elected just before the continuation begins, so that it begins again with "
        "what was in progress",
    )
    yield Assumption(
        AssumptionKind.CONTROLLER_IN_PLACE,
        int(incident.is_imported),
        "refold with Kafka's rules and Kafka's default settings has the place of the stock "
        "controller",
    )
    yield Assumption(
        AssumptionKind.CLIENTS_NOT_SEEN,
        int(incident.is_imported),
        "ZooKeeper's log does not have requests of clients: what they asked for is known as far as "
        "it was written to ZooKeeper",
    )
    rebalances = continuation.scenario.controllers[0].configuration.auto_leader_rebalance_enable
    yield Assumption(
        AssumptionKind.REBALANCE,
        int(not rebalances),
        "the automatic leader rebalance runs when it ran in the log; with "
        "--set auto.leader.rebalance.enable=true as a new controller runs it",
    )
