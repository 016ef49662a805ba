"""Lines that stock Kafka 3.9.1 logged equal those rendered of the same incident under refold.

`recorded/NAME.log` is a part of controller.log and state-change.log of the controllers of a stock
cluster. Each of the two files is compared in order; successive lines of one kind are sorted,
because their order depends on Kafka's hash maps.
"""

import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import pytest

from replay.kafka_text.kafka_log import KafkaLogLine
from tests.controller.core.cluster import Cluster
from tests.controller.core.endpoint import alter_partition, proposal
from tests.replay.kafka_text.rendering import lines_of, parsed, row_of
from tests.replay.kafka_text.scenes import rebalance, request_reassignment

RECORDED = Path(__file__).with_name("recorded")
OTHER_THREADS = ("kafka.controller.RequestSendThread", "ControllerEventThread")

_OF_ONE_RUN = (
    (re.compile(r"(?<=id=)\d+|(?<=controllerId=)\d+|(?<=Manager )\d+"), "_"),
    (re.compile(r"\bController \d+ epoch"), "Controller _ epoch"),
    (re.compile(r"\d+ (?=successfully elected)"), ""),
    (re.compile(r"(?<=\d -> )\d+"), "_"),
    (re.compile(r"(?<=Some\()[\w-]+"), "_"),
)
_ASSIGNMENTS = re.compile(r"(?:Hash)?Map\(((?:\S+ -> ReplicaAssignment\([^)]*\)(?:, )?)*)\)")
_SETS = re.compile(r"(?:Hash)?Set\(([^()]*)\)")
_FIXED = re.compile(r"(?<=callback for )\S+|(?<=deletion: )\S+")


def normalized(line: KafkaLogLine) -> str:
    """A line without parts that differ between runs, and with sorted collections."""
    text = f"{line.level} {line.body}"
    for pattern, name in _OF_ONE_RUN:
        text = pattern.sub(name, text)
    text = _ASSIGNMENTS.sub(lambda found: f"Map({_sorted(found[1], '), ')})", text)
    text = _SETS.sub(lambda found: f"Set({_sorted(found[1], ', ')})", text)
    return _FIXED.sub(lambda found: _sorted(found[0], ","), text)


def _sorted(items: str, separator: str) -> str:
    return separator.join(sorted(items.removesuffix(")").split(separator)))


def streams(lines: Iterable[KafkaLogLine]) -> tuple[list[str], list[str]]:
    """controller.log and state-change.log, with successive lines of one kind sorted."""
    of_controller = [one for one in lines if not one.logger.endswith(OTHER_THREADS)]
    state_changes = [one for one in of_controller if one.logger == "state.change.logger"]
    others = [one for one in of_controller if one.logger != "state.change.logger"]
    return _in_runs(others), _in_runs(state_changes)


def _in_runs(lines: list[KafkaLogLine]) -> list[str]:
    return [
        text
        for _, run in groupby(lines, lambda one: row_of(one).text)
        for text in sorted(map(normalized, run))
    ]


def recorded(name: str) -> tuple[list[str], list[str]]:
    """The two files of a part of a recording."""
    lines = (RECORDED / f"{name}.log").read_text(encoding="utf-8").splitlines()
    return streams(map(parsed, lines))


class Parts:
    """The lines of some parts of a cluster's history."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._parts: list[range] = []
        self._first = 0

    def __enter__(self) -> None:
        self._first = len(self._cluster.history) + 1

    def __exit__(self, *exception: object) -> None:
        self._parts.append(range(self._first, len(self._cluster.history) + 1))

    def lines(self) -> list[KafkaLogLine]:
        """The lines; lines of a resignation are skipped, because a killed controller has none."""
        return [
            line
            for line in lines_of(self._cluster)
            if any(line.seq in part for part in self._parts)
            and not re.search(r"Resigned|Stopped \w+ state machine", line.message)
        ]


def broker_crash() -> list[KafkaLogLine]:
    """Topics are created, a broker dies, then the controller's broker; then the first returns."""
    cluster = Cluster(1, 2).start()
    parts = Parts(cluster)
    with parts:
        cluster.start_broker(3)
        cluster.create_topic("one-01", {0: [3], 1: [2], 2: [1]})
        pairs = {0: [1, 2], 1: [2, 1], 2: [1, 2], 3: [1, 3], 4: [3, 2]}
        cluster.create_topic("pair_02", pairs)
        cluster.create_topic("wide-03", {0: [1, 3, 2], 1: [2, 1, 3], 2: [3, 2, 1]})
        cluster.create_topic("two-04", {0: [3, 2], 1: [2, 1], 2: [1, 3], 3: [3, 2]})
        rebalance(cluster)
    for leader, topic, number, isr in (
        (3, "wide-03", 2, (3, 2)),
        (2, "two-04", 1, (2,)),
        (2, "pair_02", 1, (2,)),
        (2, "wide-03", 1, (2, 3)),
    ):
        alter_partition(cluster, leader, proposal(cluster, topic, number, isr=isr))
    with parts:
        cluster.stop_broker(1)
        cluster.unregister(2)
        cluster.expire()
        cluster.create_topic("t.05", {0: [3], 1: [3], 2: [3]})
        cluster.start_broker(1)
    return parts.lines()


def reassignments() -> list[KafkaLogLine]:
    """A leader stays alone; a follower is replaced; a leader is replaced."""
    cluster = Cluster(1, 2, 3, 4, inter_broker_protocol_version="2.6", rules="kafka").start()
    cluster.create_topic("t.01", {0: [3, 1]})
    cluster.create_topic("t_02", {2: [3, 2]})
    cluster.create_topic("t_03", {0: [3, 2, 1]})
    parts = Parts(cluster)
    with parts:
        request_reassignment(cluster, ("t.01", 0, [3]), ("t_02", 2, [4, 2]), ("t_03", 0, [3, 4, 1]))
        cluster.set_isr("t_03", 0, [3, 2, 1, 4])
        cluster.run()
        cluster.set_isr("t_02", 2, [3, 2, 4])
        cluster.run()
    return parts.lines()


LOGS = pytest.mark.parametrize("log", [0, 1], ids=["controller.log", "state-change.log"])


@LOGS
def test_lines_of_a_broker_crash_equal_kafkas(log: int) -> None:
    assert streams(broker_crash())[log] == recorded("broker-crash-2")[log]


@LOGS
def test_lines_of_reassignments_equal_kafkas(log: int) -> None:
    """Kafka processes the partitions of a request in the order of a hash map."""
    assert sorted(streams(reassignments())[log]) == sorted(recorded("reassign-znode-7")[log])
