"""The cluster and the faults of a seed; both designs run with the same ones."""

from typing import Final

from controller.core.configuration import Configuration
from replay.explore.numbers import RandomNumbers
from replay.names import broker_name
from replay.world.inputs import (
    CrashBroker,
    CutConnection,
    ExpireSession,
    HangZooKeeper,
    Input,
    StopBroker,
)
from replay.world.processes import ZOOKEEPER
from replay.world.scenario import BrokerSpec, ControllerSpec, Load, Scenario, TopicSpec

ACKS: Final = (0, 1, -1)
SESSION_TIMEOUT_MS: Final = 6_000
LAG_TIME_MAX_MS: Final = 10_000
"""replica.lag.time.max.ms, and KeepInSyncTime."""
ACTIVE_MS: Final = 45_000
"""Faults happen before; those that have an end have ended then."""
QUIET_MS: Final = 25_000
FIRST_FAULT_MS: Final = 15_000
"""Both designs have elected all leaders by then."""
_RECONNECT_MS: Final = (8_000, 12_000)
"""When each broker loses its connection to ZooKeeper once, and connects again. The times of its
pings follow from that, and the end of its session from the last ping. Without this, the pings of
one design would always be earlier."""
_LAST_FAULT_MS: Final = 40_000
_RECORDS_OF_A_PARTITION: Final = 2
"""Records a second that each producer sends to each partition."""

KILLED: Final = "broker killed, restarted later"
BOUNCED: Final = "broker killed, restarted at once"
STOPPED: Final = "broker stopped"
EXPIRED: Final = "session expired"
CUT_OFF: Final = "broker separated from ZooKeeper"
SEPARATED: Final = "brokers separated"
HUNG: Final = "ZooKeeper hangs"
FAULTS: Final = (KILLED, BOUNCED, STOPPED, EXPIRED, CUT_OFF, SEPARATED, HUNG)


def kind_of(one: Input) -> str:
    """The kind of a fault, for the tables."""
    match one:
        case CrashBroker(restart_after_ms=restart_after_ms):
            is_later = restart_after_ms is None or restart_after_ms > SESSION_TIMEOUT_MS
            return KILLED if is_later else BOUNCED
        case StopBroker():
            return STOPPED
        case ExpireSession():
            return EXPIRED
        case CutConnection(other=other):
            return CUT_OFF if other == ZOOKEEPER else SEPARATED
        case _:
            assert isinstance(one, HangZooKeeper), one
            return HUNG


def scenario(
    brokers: int, assignment: tuple[tuple[int, ...], ...], *, has_clients: bool = True
) -> Scenario:
    """A cluster with one topic. Each broker has a controller with Kafka's rules, which only the
    controller's design uses. ZooKeeper is that of the time: one-shot watches, one read a request.
    """
    ids = range(1, brokers + 1)
    rate = len(ACKS) * _RECORDS_OF_A_PARTITION * len(assignment)
    return Scenario(
        zookeeper="3.5",
        brokers=tuple(BrokerSpec(one) for one in ids),
        broker_settings={
            "replica.lag.time.max.ms": str(LAG_TIME_MAX_MS),
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        },
        topics=(TopicSpec("t", assignment),),
        controllers=tuple(
            ControllerSpec(
                Configuration(broker_id=one, is_broker=True, rules="kafka"),
                session_timeout_ms=SESSION_TIMEOUT_MS,
            )
            for one in ids
        ),
        load=Load(ACKS, rate) if has_clients else None,
        active_ms=ACTIVE_MS,
        quiet_ms=QUIET_MS,
    )


def drawn(seed: int) -> tuple[Scenario, list[Input]]:
    """The cluster of a seed, and one to three faults."""
    numbers = RandomNumbers(seed)
    brokers = numbers.between(3, 5)
    factor = 3 if numbers.chance(70) else 2
    assignment = tuple(
        tuple(numbers.sample(range(1, brokers + 1), factor)) for _ in range(numbers.between(3, 8))
    )
    times = sorted(
        numbers.between(FIRST_FAULT_MS, _LAST_FAULT_MS) for _ in range(numbers.between(1, 3))
    )
    reconnects: list[Input] = [
        CutConnection(numbers.between(*_RECONNECT_MS), broker_name(one + 1), ZOOKEEPER, 0)
        for one in range(brokers)
    ]
    faults = [_fault(numbers, brokers, at_ms) for at_ms in times]
    return scenario(brokers, assignment), [*reconnects, *faults]


def _fault(numbers: RandomNumbers, brokers: int, at_ms: int) -> Input:
    broker, other = numbers.sample(range(1, brokers + 1), 2)
    match numbers.choice(FAULTS):
        case "broker killed, restarted later":
            restart_ms = numbers.between(10_000, 20_000)
            return CrashBroker(at_ms, broker, restart_after_ms=restart_ms)
        case "broker killed, restarted at once":
            return CrashBroker(at_ms, broker, restart_after_ms=numbers.between(100, 3_000))
        case "broker stopped":
            return StopBroker(at_ms, broker, restart_after_ms=numbers.between(1_000, 10_000))
        case "session expired":
            return ExpireSession(at_ms, broker_name(broker))
        case "broker separated from ZooKeeper":
            return CutConnection(
                at_ms, broker_name(broker), ZOOKEEPER, numbers.between(2, 16) * 1000
            )
        case "brokers separated":
            ms = numbers.between(2, 20) * 1000
            return CutConnection(at_ms, broker_name(broker), broker_name(other), ms)
        case _:
            return HangZooKeeper(at_ms, numbers.between(1, 10) * 1000)
