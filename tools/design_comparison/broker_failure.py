"""One broker's failure by the number of partitions: what each design asks of ZooKeeper.

The cluster has five brokers, one topic, and three replicas of each partition, spread evenly. After
a broker has died, and once each partition has a leader again, every leader gets a record, so that
the dead followers lag. `FORMULAS` is what the measurements confirm exactly.
"""

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from replay.names import broker_name
from replay.world.cluster import Cluster
from replay.world.ensemble.protocol import CloseSession
from replay.world.ensemble.transactions import Transaction
from replay.world.inputs import CrashBroker
from replay.world.kafka_0_8.networked.cluster import NetworkedCluster
from replay.world.scenario import Scenario
from replay.world.scheduler import MS, SECOND
from tools.design_comparison.meter import AnyCluster, Meter, Operations
from tools.design_comparison.scenarios import scenario

BROKERS: Final = 5
REPLICAS: Final = 3
CONTROLLER: Final = 1
"""The broker whose controller is elected, because it connects first."""

Case = Literal["0.8", "controller", "controller dies"]
CASES: Final[tuple[Case, ...]] = ("0.8", "controller", "controller dies")
TITLES: Final[dict[Case, str]] = {
    "0.8": "0.8 design",
    "controller": "controller, on another broker",
    "controller dies": "controller, on the broker that dies",
}

_START_US: Final = 15 * SECOND
_START_US_OF_A_PARTITION: Final = 60 * MS
"""Start-up reads each partition one after the other."""
_SETTLED_US: Final = 35 * SECOND
_FETCH_WAIT_MS: Final = 4_000
"""Long, so that many partitions are cheap to simulate."""


class BrokerFailure(Struct, frozen=True):
    """A measured failure. `led`, `followed`: the partitions that the dead broker led and followed.

    `drained`: how often a broker has listed its queue. `elected_ms`: the time from the end of the
    dead broker's session until the last partition had a leader.
    """

    case: Case
    partitions: int
    led: int
    followed: int
    operations: Operations
    elected_ms: float

    @property
    def refused(self) -> int:
        """Elections that were refused: two candidates wrote /brokers/epoch at once."""
        return self.operations.refused - self.operations.outdated

    @property
    def outdated(self) -> int:
        """Writes of leaders that were refused: another leader was elected meanwhile."""
        return self.operations.outdated

    @property
    def drained(self) -> int:
        """How often a broker was notified of its queue, and listed it."""
        return self.operations.watches - 6 * self.led if self.case == "0.8" else 0


class Formula(Struct, frozen=True):
    """An exact number of operations, as text and as a function of a failure."""

    text: str
    of: Callable[[BrokerFailure], int]


FORMULAS: Final[dict[Case, dict[str, Formula]]] = {
    "0.8": {
        "reads": Formula(
            "41 L + 4 X + 3 Y + Q",
            lambda one: 41 * one.led + 4 * one.refused + 3 * one.outdated + one.drained,
        ),
        "writes": Formula("6 L + F", lambda one: 6 * one.led + one.followed),
        "transactions": Formula(
            "4 L + F + X + Y",
            lambda one: 4 * one.led + one.followed + one.refused + one.outdated,
        ),
        "watches": Formula("6 L + Q", lambda one: 6 * one.led + one.drained),
        "events": Formula("4 L + Q", lambda one: 4 * one.led + one.drained),
        "state_changes": Formula("L", lambda one: one.led),
        "control_requests": Formula("0", lambda one: 0),
        "entries": Formula("0", lambda one: 0),
    },
    "controller": {
        "reads": Formula("2 L + F + 5", lambda one: 2 * one.led + one.followed + 5),
        "writes": Formula("L + F", lambda one: one.led + one.followed),
        "watches": Formula("5", lambda one: 5),
        "events": Formula("2", lambda one: 2),
        "state_changes": Formula("0", lambda one: 0),
        "control_requests": Formula("14", lambda one: 14),
        "entries": Formula("4 L + 2 F", lambda one: 4 * one.led + 2 * one.followed),
    },
    "controller dies": {
        "reads": Formula(
            "N + 2 L + F + 46", lambda one: one.partitions + 2 * one.led + one.followed + 46
        ),
        "writes": Formula("2 L + F + 2", lambda one: 2 * one.led + one.followed + 2),
        "watches": Formula("26", lambda one: 26),
        "events": Formula("8", lambda one: 8),
        "state_changes": Formula("0", lambda one: 0),
        "control_requests": Formula("26", lambda one: 26),
        "entries": Formula(
            "3 N + 3 L + F", lambda one: 3 * one.partitions + 3 * one.led + one.followed
        ),
    },
}
"""By the name of the field in `Operations`. N: all partitions; L, F: those that the dead broker led
and followed; X: refused elections; Y: refused writes of leaders; Q: how often a broker lists its
queue. How refold puts writes into transactions has no formula: Kafka's controller uses one for each
partition."""

READS_PER_SECOND: Final = 20_000
TRANSACTIONS_PER_SECOND: Final = 10_000
"""Rates of one ZooKeeper 3.8.4, single operations in a pipeline (docs/observations.md)."""
_ELECTION_WAIT_MS: Final = 1_000


def extrapolated(measured: BrokerFailure, partitions: int) -> BrokerFailure:
    """The failure of a broker with more partitions by the formulas: X, Y and Q grow as N does."""
    led, followed = partitions // BROKERS, partitions // BROKERS * (REPLICAS - 1)
    factor = partitions / measured.partitions
    rest_ms = measured.elected_ms - _ELECTION_WAIT_MS
    larger = BrokerFailure(
        measured.case,
        partitions,
        led,
        followed,
        Operations(
            refused=round(measured.operations.refused * factor),
            outdated=round(measured.outdated * factor),
        ),
        _ELECTION_WAIT_MS + rest_ms * factor if measured.case == "0.8" else measured.elected_ms,
    )
    operations = larger.operations
    operations.watches = 6 * led + round(measured.drained * factor)
    formulas = FORMULAS[measured.case]
    for name, formula in formulas.items():
        setattr(operations, name, formula.of(larger))
    if "transactions" not in formulas:
        operations.transactions = operations.writes
    return larger


def seconds(failure: BrokerFailure) -> float:
    """How long one ZooKeeper needs for the operations, at the rates above."""
    operations = failure.operations
    writes = operations.transactions if failure.case == "0.8" else operations.writes
    return operations.reads / READS_PER_SECOND + writes / TRANSACTIONS_PER_SECOND


def assignment(partitions: int) -> tuple[tuple[int, ...], ...]:
    """The replicas of each partition."""
    return tuple(
        tuple((number + place) % BROKERS + 1 for place in range(REPLICAS))
        for number in range(partitions)
    )


def measure_failure(case: Case, partitions: int) -> BrokerFailure:
    """Kill a broker and count what follows."""
    victim = CONTROLLER if case == "controller dies" else BROKERS
    dies_us = _START_US + partitions * _START_US_OF_A_PARTITION
    dead = CrashBroker(dies_us // MS, victim, restart_after_ms=None)
    end_us = dies_us + _SETTLED_US
    cluster, meter = _cluster(case, _scenario(partitions, end_us), dead)
    meter.operations_since_us = dies_us
    ended_us: list[int] = []

    def committed(transaction: Transaction) -> None:
        is_victim = transaction.process == broker_name(victim)
        if is_victim and isinstance(transaction.request, CloseSession):
            ended_us.append(transaction.at_us)

    cluster.zookeeper.on_transaction = committed
    cluster.scheduler.call_at(dies_us + _SETTLED_US // 2, lambda: _append_everywhere(cluster))
    while cluster.step():
        pass
    replicas = assignment(partitions)
    led = sum(one[0] == victim for one in replicas)
    followed = sum(victim in one[1:] for one in replicas)
    elected_ms = (meter.accepted_us - ended_us[0]) / MS
    return BrokerFailure(case, partitions, led, followed, meter.measured.operations, elected_ms)


def _scenario(partitions: int, end_us: int) -> Scenario:
    base = scenario(BROKERS, assignment(partitions), has_clients=False)
    settings = {**base.broker_settings, "replica.fetch.wait.max.ms": str(_FETCH_WAIT_MS)}
    return replace(base, broker_settings=settings, active_ms=end_us // MS, quiet_ms=0)


def _cluster(case: Case, of: Scenario, dead: CrashBroker) -> tuple[AnyCluster, Meter]:
    meter = Meter()
    design = NetworkedCluster if case == "0.8" else Cluster
    return design(of, [dead], meter), meter


def _append_everywhere(cluster: AnyCluster) -> None:
    if isinstance(cluster, NetworkedCluster):
        for number in range(len(cluster.scenario.topics[0].assignment)):
            for broker in cluster.brokers.values():
                if broker.leads(("t", number)):
                    broker.append(("t", number), number)
