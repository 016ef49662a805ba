"""Small clusters for the tests of the 0.8 design."""

from controller.core.commands import Notice, WriteAtomically
from controller.core.operations import WriteOperation
from controller.kafka_0_8.commands import BrokerCommand, IssuedByBroker
from controller.kafka_0_8.state import Name, Partition
from replay.world.kafka_0_8.cluster import Cluster08

T: Name = ("t", 0)


def cluster(*brokers: int, **settings: int) -> Cluster08:
    """Brokers that are not started, with short times."""
    times = {"leader_election_wait_time_ms": 500, "keep_in_sync_time_ms": 2000, "retry_ms": 100}
    return Cluster08(*brokers, **(times | settings))


def replicated(**settings: int) -> Cluster08:
    """Broker 1 leads t-0, brokers 2 and 3 are in the ISR."""
    found = cluster(1, 2, 3, **settings)
    found.create_topic("t", {0: (1, 2, 3)})
    found.start(1, 2, 3)
    found.run(1500)
    assert found.data("/brokers/topics/t/0/ISR") == "1,2,3;1"
    return found


def partition(found: Cluster08, broker: int, name: Name = T) -> Partition:
    """A partition as a broker knows it."""
    return found.brokers[broker].fold.broker.partitions[name]


def leader_of(found: Cluster08, name: Name = T) -> str | None:
    """The content of the leader znode."""
    return found.data(f"/brokers/topics/{name[0]}/{name[1]}/leader")


def error_of(found: Cluster08, request: int) -> int | None:
    """The error code of the response to a request; None: there is none."""
    response = found.responses.get(request)
    return None if response is None else response[0].error


def issued(found: Cluster08, broker: int, rule: str = "") -> list[BrokerCommand]:
    """The commands of the present run of a broker, those with this rule."""
    return [
        one.command
        for _, commands in found.brokers[broker].history
        for one in commands
        if one.reason.rule.startswith(rule)
    ]


def operations_of(found: Cluster08, broker: int, rule: str) -> list[WriteOperation]:
    """The operations of the transactions that a broker has issued by a rule."""
    return [
        operation
        for one in issued(found, broker, rule)
        if isinstance(one, WriteAtomically)
        for operation in one.operations
    ]


def change_before(found: Cluster08, broker: int, rule: str, *change: WriteOperation) -> None:
    """Let another client write directly before the first transaction of a broker by a rule."""
    left = [change]

    def writes(issued: IssuedByBroker) -> bool:
        is_of_broker = any(issued in sent for _, sent in found.brokers[broker].history[-1:])
        is_of_rule = issued.reason.rule.startswith(rule)
        if left and is_of_broker and is_of_rule and isinstance(issued.command, WriteAtomically):
            found.write(*left.pop())
        return False

    found.loses_reply = writes


def notices(found: Cluster08, broker: int, code: str) -> list[Notice]:
    """The notices of the present run of a broker with this code."""
    return [one for one in issued(found, broker) if isinstance(one, Notice) and one.code == code]
