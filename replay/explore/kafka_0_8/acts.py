"""What can happen to a cluster of the 0.8 design: acts of administrators and clients, faults."""

from typing import Final, Literal

from msgspec import Struct

from controller.kafka_0_8.admin import AdminError
from controller.kafka_0_8.state import Name
from replay.explore.numbers import Numbers
from replay.world.kafka_0_8.cluster import Cluster08

BROKERS: Final = (1, 2, 3, 4)
TOPICS: Final = ("t", "u")
_PAUSE_MS_MAX: Final = 2500
_SHORT_PAUSE_MS_MAX: Final = 100
_SETTLING_MS: Final = 30_000

What = Literal[
    "wait",
    "produce",
    "cut",
    "join",
    "lose-connection",
    "stop",
    "start",
    "expire",
    "silence",
    "reassign",
    "delete",
    "create",
]
WHATS: Final[tuple[What, ...]] = What.__args__  # type: ignore[attr-defined]


class Act(Struct, frozen=True, omit_defaults=True):
    """One act. `broker` and `other` are brokers, `number` the value of acks or a time in ms.

    "silence": the session of a broker expires, and the broker does not learn of it until it
    "expire"s. "cut" and "join" are about the network between two brokers.
    """

    what: What
    broker: int = 1
    other: int = 1
    topic: str = "t"
    replicas: tuple[int, ...] = ()
    number: int = 0

    def __str__(self) -> str:
        name, brokers = f"{self.topic}-0", ",".join(map(str, self.replicas))
        match self.what:
            case "wait":
                return f"wait {self.number} ms"
            case "produce":
                return f"produce to {name} on broker {self.broker} with acks {self.number}"
            case "cut" | "join":
                return f"{self.what} the network between brokers {self.broker} and {self.other}"
            case "reassign" | "create":
                return f"{self.what} {name} on brokers {brokers}"
            case "delete":
                return f"delete topic {self.topic}"
            case "stop":
                session = "its session ends" if self.number else "its session goes on"
                return f"stop broker {self.broker}; {session}"
            case _:
                return f"{self.what} broker {self.broker}"


def drawn(numbers: Numbers, count: int) -> list[Act]:
    """Random acts, each followed by a short pause."""
    acts: list[Act] = []
    for _ in range(count):
        what = WHATS[numbers.below(len(WHATS))]
        # Records are what can be lost.
        what = "produce" if numbers.below(4) == 0 else what
        number = {"produce": numbers.between(-1, 1), "stop": numbers.below(2)}.get(what)
        acts.append(
            Act(
                what,
                BROKERS[numbers.below(len(BROKERS))],
                BROKERS[numbers.below(len(BROKERS))],
                TOPICS[numbers.below(len(TOPICS))],
                _replicas(numbers),
                _pause_ms(numbers) if number is None else number,
            )
        )
    return acts


def _pause_ms(numbers: Numbers) -> int:
    """Every second pause is shorter than the time between two fetches."""
    return numbers.between(1, _PAUSE_MS_MAX if numbers.below(2) else _SHORT_PAUSE_MS_MAX)


def _replicas(numbers: Numbers) -> tuple[int, ...]:
    left = list(BROKERS)
    count = numbers.between(1, 3)
    return tuple(left.pop(numbers.below(len(left))) for _ in range(count))


def new_cluster() -> Cluster08:
    """Four running brokers, and two topics with one partition each."""
    cluster = Cluster08(
        *BROKERS,
        leader_election_wait_time_ms=500,
        keep_in_sync_time_ms=2000,
        checkpoint_interval_ms=700,
        retry_ms=100,
    )
    cluster.create_topic("t", {0: (1, 2, 3)})
    cluster.create_topic("u", {0: (3, 4)})
    return cluster


def carry_out(cluster: Cluster08, act: Act, record: str) -> int:
    """One act, and its pause. An admin command may be refused. Returns the number of the produce
    request, which has `record`; 0 for other acts."""
    request = 0
    name: Name = (act.topic, 0)
    pair = (min(act.broker, act.other), max(act.broker, act.other))
    try:
        match act.what:
            case "wait":
                cluster.run(act.number)
            case "produce":
                request = cluster.produce(act.broker, name, [record], act.number)
            case "cut" if pair[0] != pair[1]:
                cluster.cut[pair] = None
            case "join":
                cluster.cut.pop(pair, None)
            case "reassign":
                cluster.reassign(name, act.replicas)
            case "delete":
                cluster.delete_topic(act.topic)
            case "create":
                cluster.create_topic(act.topic, {0: act.replicas})
            case _:
                _disturb(cluster, act)
    except AdminError:
        pass
    cluster.run(5)
    return request


def _disturb(cluster: Cluster08, act: Act) -> None:
    process = cluster.brokers[act.broker]
    match act.what:
        case "start" if not process.is_running:
            start(cluster, act.broker)
        case "stop" if process.is_running:
            cluster.silent.pop(act.broker, None)
            cluster.stop(act.broker, session_ends=bool(act.number))
        case "expire" if act.broker in cluster.silent:
            cluster.learn_of_expiry(act.broker)
        case "expire" if process.is_running:
            cluster.end_session(act.broker)
        case "silence" if process.is_running and act.broker not in cluster.silent:
            cluster.silent[act.broker] = None
            cluster.end_session(act.broker)
        case "lose-connection" if process.is_running and act.broker not in cluster.silent:
            cluster.lose_connection(act.broker)


def start(cluster: Cluster08, broker: int) -> None:
    """Start a broker that was stopped; its old session has timed out by then."""
    session = cluster.brokers[broker].session
    if session and cluster.zookeeper.is_live(session):
        cluster.zookeeper.end_session(session)
    cluster.start(broker)


def settle(cluster: Cluster08) -> None:
    """End all faults, and wait until nothing is left to do."""
    cluster.cut = {}
    for broker, process in cluster.brokers.items():
        if broker in cluster.silent:
            cluster.learn_of_expiry(broker)
        if not process.is_running:
            start(cluster, broker)
    cluster.run(_SETTLING_MS)
