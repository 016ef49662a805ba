"""What the world supplies because no log says it, as data."""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from replay.what_if.causes import ReplicaLagged
from replay.what_if.history import moment_at
from replay.what_if.incident import Incident
from replay.what_if.starting import LAG_MS, SESSION_MS, Continuation, is_leaderless


class Assumed(StrEnum):
    """What is assumed."""

    LOG_END_OFFSETS = "log end offsets"
    PRODUCERS = "producers"
    BROKER_TIMES = "times of brokers"
    LATENCIES = "latencies"
    BROKER_SETTINGS = "settings of brokers"
    TOPIC_CONFIGS = "configurations of topics"
    CONTROLLER_STARTS = "controller"
    CONTROLLER_IN_PLACE = "rules of the controller"
    CAUSES_OF_FAILURES = "causes of failures"
    COPYING = "copying"
    REBALANCE = "leader rebalance"
    CLIENTS_NOT_SEEN = "requests that are not seen"


class Assumption(Struct, frozen=True):
    """One assumption: what it is about, how many subjects it has, and what is assumed."""

    about: Assumed
    count: int
    text: str


def assumptions(incident: Incident, begun: Continuation) -> list[Assumption]:
    """All assumptions of a continuation."""
    return [one for one in _assumptions(incident, begun) if one.count]


def _assumptions(incident: Incident, begun: Continuation) -> Iterator[Assumption]:
    moment = moment_at(incident.history.changes, begun.seq, begun.at_ms)
    scenario = begun.scenario
    partitions, brokers = len(moment.partitions), len(scenario.brokers)
    yield Assumption(
        Assumed.LOG_END_OFFSETS,
        partitions,
        "all replicas of a partition have equal, empty logs when the continuation begins: a log "
        "does not say how far each replica was",
    )
    load = scenario.load
    yield Assumption(
        Assumed.PRODUCERS,
        len(load.acks) if load is not None else 0,
        f"one producer with acks=all, one with acks=1, {load.records_per_second if load else 0} "
        "records a second over all partitions",
    )
    yield Assumption(
        Assumed.BROKER_TIMES,
        brokers,
        "a broker takes 1 s to register and 0.6 s more to accept connections; it answers at once",
    )
    yield Assumption(
        Assumed.LATENCIES, 1, "each message takes 0.5 ms, a ZooKeeper of 3 members has no load"
    )
    given = scenario.broker_settings
    defaults = {
        "replica.lag.time.max.ms": str(LAG_MS),
        "zookeeper.session.timeout.ms": str(SESSION_MS),
    }
    assumed = [f"{key}={value}" for key, value in defaults.items() if given.get(key) == value]
    yield Assumption(
        Assumed.BROKER_SETTINGS,
        len(assumed),
        f"{', '.join(assumed)}, and Kafka's defaults: change them with --set",
    )
    configured = sum(path.startswith("/config/topics/") for path in moment.znodes)
    yield Assumption(
        Assumed.TOPIC_CONFIGS,
        len(scenario.topics) - configured if not incident.is_imported else 0,
        "topics whose configuration the controller did not read have none of their own",
    )
    yield Assumption(
        Assumed.CONTROLLER_STARTS,
        1,
        "a controller is elected just before the continuation begins, so that what it was doing "
        "then is begun again",
    )
    if incident.is_imported:
        yield Assumption(
            Assumed.CONTROLLER_IN_PLACE,
            1,
            "refold with Kafka's rules and Kafka's default settings has the place of the stock "
            "controller",
        )
        yield Assumption(
            Assumed.CLIENTS_NOT_SEEN,
            1,
            "ZooKeeper's log does not have clients' requests: what they asked for is known as far "
            "as it was written to ZooKeeper",
        )
    failures = sum(type(one.what).__name__ == "BrokerGone" for one in begun.causes)
    yield Assumption(
        Assumed.CAUSES_OF_FAILURES,
        failures,
        "a broker whose registration ended without a controlled shutdown has crashed 4 s before",
    )
    lagging = sum(isinstance(one.what, ReplicaLagged) for one in begun.causes)
    outside = sum(
        broker not in now.isr and broker in moment.brokers and not is_leaderless(now, moment.brokers)
        for now in moment.partitions.values()
        for broker in now.assignment.replicas
    )
    yield Assumption(
        Assumed.COPYING,
        max(len(begun.copying), outside) + lagging,
        "a follower that was not in the ISR, although its broker ran, is as slow as in the log, "
        "whatever else changes",
    )
    if not scenario.controllers[0].configuration.auto_leader_rebalance_enable:
        yield Assumption(
            Assumed.REBALANCE,
            1,
            "the automatic leader rebalance runs when it ran in the log; with "
            "--set auto.leader.rebalance.enable=true as a new controller runs it",
        )
