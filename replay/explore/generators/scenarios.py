"""Clusters to start from: a generic one, and random ones."""

from collections.abc import Mapping
from typing import Final

from msgspec import structs

from controller.core.configuration import Configuration
from controller.core.protocol_versions import LATEST
from controller.core.topic_configs import UNCLEAN
from replay.explore.generators.cluster_requests import start_znodes
from replay.explore.numbers import RandomNumbers
from replay.world.scenario import BrokerSpec, ControllerSpec, Load, Scenario, TopicSpec

REFOLD: Final = 100
"""The id of the first refold; no broker has it."""

_ACTIVE_MS: Final = 18_000
"""Short, because most of a run is idle: more runs find more than longer ones."""

_QUIET_MS: Final = 90_000
_LOAD: Final = Load(acks=(-1, 1, 0), records_per_second=9)
"""Few records, so that runs are cheap: a race of records needs a few of them."""
BEFORE_2_7: Final = "2.6-IV0"
"""Leaders write their ISRs to ZooKeeper, and topics have no ids."""
_PROTOCOLS: Final = (
    (LATEST, 12),
    (BEFORE_2_7, 4),
    ("2.4-IV0", 1),
    ("2.7-IV0", 1),
    ("2.7-IV2", 1),
    ("2.8-IV0", 1),
    ("2.8-IV1", 1),
    ("3.2-IV0", 1),
)
"""Versions at which the controller's decisions or its requests change: leaders ask the controller
for their ISRs from 2.7-IV2 on, topics have ids from 2.8-IV0 on, and requests from 2.8-IV1 on."""
OLD_ZOOKEEPER: Final = "3.5"
"""Before 3.6, watches fire once, and the controllers read znodes one by one."""
_ZOOKEEPERS: Final = (("3.9", 3), (OLD_ZOOKEEPER, 1))
_FACTORS: Final = ((3, 12), (2, 5), (1, 1), (4, 2))
_ACCEPTS_AFTER_MS: Final = ((600, 6), (0, 1), (2_000, 1))
_TAKES_OVER_PERCENT: Final = 10
_KIP_236_PERCENT: Final = 90
"""Without it, as by default, no controller follows the znodes of KIP-236."""
_UNCLEAN_PERCENT: Final = 12
_OVERRIDE_PERCENT: Final = 8
"""How often a topic allows unclean elections in a cluster that does not."""

LAG_TIME: Final = "replica.lag.time.max.ms"
_LAG_TIMES: Final = (("10000", 1), ("4000", 1))
"""The shorter one is below the session timeout: a follower can fall behind in its session."""
_BROKER_SETTINGS: Final = {
    LAG_TIME: "10000",
    "zookeeper.session.timeout.ms": "9000",
    "replica.fetch.wait.max.ms": "2000",
}
"""A follower waits longer than by default for records that do not come, so that runs are cheap."""


def generic(
    seed: int = 0,
    protocol: str = LATEST,
    standby: tuple[bool, ...] = (False, True),
    zookeeper: str = "3.9",
    lag_time: str = "10000",
) -> Scenario:
    """Four brokers, two topics, a refold for each value of `standby`, and a stock controller that
    only a fault starts."""
    return _scenario(
        seed,
        brokers=4,
        topics=(
            TopicSpec("orders", ((1, 2, 3), (2, 3, 1), (3, 1, 2))),
            TopicSpec("payments", ((1, 2), (3, 4))),
        ),
        standby=standby,
        stock=1,
        protocol=protocol,
        zookeeper=zookeeper,
        lag_time=lag_time,
    )


def random_generic(numbers: RandomNumbers) -> Scenario:
    """A generic cluster with one of the versions of ZooKeeper and of the lag times."""
    seed, zookeeper = numbers.below(1 << 32), numbers.weighted(_ZOOKEEPERS)
    return generic(seed, zookeeper=zookeeper, lag_time=numbers.weighted(_LAG_TIMES))


def random_scenario(numbers: RandomNumbers) -> Scenario:
    """A cluster of 3 to 5 brokers with 1 to 4 topics, and up to 3 refolds."""
    brokers = numbers.between(3, 5)
    topics = tuple(
        TopicSpec(name, random_assignment(numbers, brokers, numbers.between(1, 5)))
        for name in NAMES[: numbers.between(1, 4)]
    )
    is_unclean = numbers.chance(_UNCLEAN_PERCENT)
    if is_unclean:
        # One of the topics has an override of the default of the cluster.
        topics = (structs.replace(topics[0], configs={UNCLEAN: "false"}), *topics[1:])
    elif numbers.chance(_OVERRIDE_PERCENT):
        topics = (structs.replace(topics[0], configs={UNCLEAN: "true"}), *topics[1:])
    return _scenario(
        numbers.below(1 << 32),
        brokers=brokers,
        topics=topics,
        standby=tuple(
            numbers.chance(50) for _ in range(numbers.weighted(((1, 2), (2, 3), (3, 1))))
        ),
        stock=numbers.between(1, brokers) if numbers.chance(30) else 0,
        protocol=numbers.weighted(_PROTOCOLS),
        zookeeper=numbers.weighted(_ZOOKEEPERS),
        takes_over=numbers.chance(_TAKES_OVER_PERCENT),
        is_unclean=is_unclean,
        has_kip_236=numbers.chance(_KIP_236_PERCENT),
        znodes=start_znodes(numbers),
        accepts_after_ms=numbers.weighted(_ACCEPTS_AFTER_MS),
        lag_time=numbers.weighted(_LAG_TIMES),
    )


NAMES: Final = ("orders", "payments", "clicks", "users")
"""The names of topics. There are few, so that deleted topics are created again."""


def random_assignment(
    numbers: RandomNumbers, brokers: int, partitions: int
) -> tuple[tuple[int, ...], ...]:
    """The replicas of new partitions: 1 to 4 of each, mostly 3."""
    ids = range(1, brokers + 1)
    factor = min(brokers, numbers.weighted(_FACTORS))
    return tuple(tuple(numbers.sample(ids, factor)) for _ in range(partitions))


def _scenario(
    seed: int,
    *,
    brokers: int,
    topics: tuple[TopicSpec, ...],
    standby: tuple[bool, ...],
    stock: int,
    protocol: str,
    zookeeper: str = "3.9",
    takes_over: bool = False,
    is_unclean: bool = False,
    has_kip_236: bool = True,
    znodes: Mapping[str, str] | None = None,
    accepts_after_ms: int = 600,
    lag_time: str,
) -> Scenario:
    """`standby` says of each refold whether it follows the cluster while another is controller.

    `takes_over`: the refolds take the role of a living controller; `is_unclean`: unclean elections
    are allowed, except for topics that have an override.
    """
    controllers = [
        ControllerSpec(
            Configuration(
                broker_id=REFOLD + number,
                kip_236_enable=has_kip_236,
                inter_broker_protocol_version=protocol,
                leader_imbalance_check_interval_seconds=4,
                standby=follows,
                take_over=takes_over,
                unclean_leader_election_enable=is_unclean,
            ),
            starts_after_ms=500 * number,
        )
        for number, follows in enumerate(standby)
    ]
    if stock:
        kafka = Configuration(
            broker_id=stock,
            is_broker=True,
            rules="kafka",
            inter_broker_protocol_version=protocol,
            unclean_leader_election_enable=is_unclean,
        )
        controllers.append(ControllerSpec(kafka, runs=False))
    return Scenario(
        name="random",
        seed=seed,
        protocol=protocol,
        zookeeper=zookeeper,
        brokers=tuple(
            BrokerSpec(number, accepts_after_ms=accepts_after_ms)
            for number in range(1, brokers + 1)
        ),
        broker_settings=_BROKER_SETTINGS | {LAG_TIME: lag_time},
        topics=topics,
        znodes=dict(znodes or {}),
        controllers=tuple(controllers),
        load=_LOAD,
        active_ms=_ACTIVE_MS,
        quiet_ms=_QUIET_MS,
    )
