"""Staleness: reads and watches that are answered from a state up to k transactions ago.

Source: Sun et al.: Automatic reliability testing for cluster management controllers (OSDI 2022),
whose tool Sieve replays states that a Kubernetes controller has already passed.
"""

from typing import Final

from replay.explore.generators.attempt import Attempts
from replay.explore.numbers import RandomNumbers
from replay.names import is_broker
from replay.world.inputs import Input, LagZooKeeper
from replay.world.network import Delivery
from replay.world.processes import ADMIN, ZOOKEEPER
from replay.world.scheduler import MS

RUNS: Final = 12
"""Runs for one base run."""

_TRANSACTIONS_MAX: Final = 16
_FOR_MS: Final = (20, 100, 500, 2_000, 6_000)


def staleness(attempts: Attempts, numbers: RandomNumbers) -> None:
    """Run base inputs, then the same with servers that lag at moments of reads."""
    inputs = attempts.inputs(numbers)
    reads = request_times(attempts.trace(inputs).deliveries)
    if not reads:
        return
    for _ in range(RUNS):
        attempts.run([*inputs, *lags(reads, numbers)])


def request_times(deliveries: list[Delivery]) -> list[tuple[str, int]]:
    """When a controller or a broker sends a request to ZooKeeper: the process and the time in
    milliseconds. Controllers count three times."""
    found: dict[tuple[str, int], None] = {}
    for one in deliveries:
        sender, _, receiver = one.link.partition(">")
        if receiver == ZOOKEEPER and sender != ADMIN:
            found[sender, one.at_us // MS] = None
    return [moment for moment in found for _ in range(1 if is_broker(moment[0]) else 3)]


def lags(reads: list[tuple[str, int]], numbers: RandomNumbers) -> list[Input]:
    """One to three lagging servers, each from just before a request on."""
    found: list[Input] = []
    for _ in range(numbers.between(1, 3)):
        process, at_ms = numbers.choice(reads)
        transactions = numbers.between(1, _TRANSACTIONS_MAX)
        begin_ms = max(0, at_ms - numbers.choice((0, 1, 10, 100)))
        found.append(LagZooKeeper(begin_ms, process, transactions, numbers.choice(_FOR_MS)))
    return found
