"""The published trace of KB 7.10, {1,2,3} to {4,5,6} under Kafka 3.3, is a golden text.

Sets are in any order, and lines about batches without brokers are ignored.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from controller.core import znodes
from controller.core.api_requests.alter_partition import AlterPartitionReceived, ProposedState
from controller.core.commands import StartTimer
from controller.core.procedures.elections.rebalance import RULE as REBALANCE
from controller.core.values import LeaderAndIsr
from eventstore.reader import LogReader
from replay.kafka_text.rendering import kafka_lines
from replay.logs.decode import UPCASTERS
from tests.controller.core.cluster import Cluster
from tests.replay.recorded_log import write_log

TRACE = Path(__file__).with_name("reassignment_trace.txt")
TOPIC = "daehokimm-topic"
FIRST_VERSION = 7

_SET = re.compile(r"HashSet\(([^)]*)\)")
_STATE = re.compile(
    r"LeaderAndIsr\((?P<before>leader=.*?), isr=List\((?P<isr>[^)]*)\), (?P<recovery>\w+=\w+), "
    r"zkVersion=(?P<version>\d+)\)"
)


def in_order(text: str) -> str:
    """A line with sorted sets."""
    return _SET.sub(lambda found: f"HashSet({', '.join(sorted(found[1].split(', ')))})", text)


def as_of_3_9(text: str) -> str:
    """A line with LeaderAndIsr as Kafka 3.9 prints it."""

    def spell(state: re.Match[str]) -> str:
        members = [
            f"BrokerState(brokerId={one}, brokerEpoch=-1)" for one in state["isr"].split(", ")
        ]
        return (
            f"LeaderAndIsr({state['before']}, isrWithBrokerEpoch=List({', '.join(members)}), "
            f"{state['recovery']}, partitionEpoch={state['version']})"
        )

    return _STATE.sub(spell, text)


def golden() -> list[str]:
    lines = TRACE.read_text(encoding="utf-8").splitlines()
    return [in_order(as_of_3_9(one)) for one in lines if "HashSet() for 0 partitions" not in one]


def traced() -> tuple[Cluster, int]:
    """The cluster at the end of the trace, and the number of the last event before the trace."""
    cluster = Cluster(1, 2, 3, 4, 5, 6, inter_broker_protocol_version="3.3", rules="kafka")
    cluster.change_topic_quietly(TOPIC, {0: [1, 2, 3]})
    for path in (znodes.partitions_path(TOPIC), znodes.partition_path(TOPIC, 0)):
        cluster.put_quietly(path, b"")
    for _ in range(FIRST_VERSION + 1):
        state = znodes.write_state(LeaderAndIsr(1, 5, (1, 2, 3), 0, 0))
        cluster.put_quietly(znodes.state_path(TOPIC, 0), state)
    cluster.start()
    before = len(cluster.history)
    entry = {"topic": TOPIC, "partition": 0, "replicas": [4, 5, 6]}
    request = msgspec.json.encode({"version": 1, "partitions": [entry]})
    cluster.put(znodes.REASSIGN_PARTITIONS, request)
    for isr in ((6, 1, 2, 3), (5, 1, 6, 2, 3), (5, 1, 6, 2, 3, 4)):
        ask_for_isr(cluster, isr)
    [timer] = rebalance_timers(cluster)
    cluster.fire(timer)
    return cluster, before


def ask_for_isr(cluster: Cluster, isr: tuple[int, ...]) -> None:
    """The leader requests an ISR with a follower that has caught up."""
    now = cluster.leadership(TOPIC, 0)
    state = ProposedState(TOPIC, 0, now.leader_epoch, isr, now.recovery_state, now.partition_epoch)
    request = AlterPartitionReceived(1, 1, now.leader, cluster.broker_epoch(now.leader), [state])
    cluster.happen(request, "api:1")


def rebalance_timers(cluster: Cluster) -> Iterator[str]:
    for one in cluster.commands():
        if isinstance(one.command, StartTimer) and one.reason.rule == REBALANCE:
            yield one.command.timer


def test_lines_equal_the_published_trace(tmp_path: Path) -> None:
    cluster, before = traced()
    log = write_log(tmp_path / "log", cluster)
    with LogReader.open(log, UPCASTERS) as reader:
        lines = [line for line in kafka_lines(reader) if line.seq > before]
    bodies = [re.sub(r"^\[[^]]*\] ", "", line.body) for line in lines]
    assert [in_order(one) for one in bodies] == golden()
