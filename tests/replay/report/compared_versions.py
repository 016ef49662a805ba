"""The result of `refold diff` for an incident, in which a version elects another leader."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from replay.diff.comparing import Comparison, Group, Instance, LogResult, Side
from replay.diff.contents import DecisionDifference
from replay.diff.grouping import DecisionDivergence, RootDivergence
from replay.diff.reports.as_json import as_json

CRASH: Final = "tests/incidents/broker-crash"
UNCHANGED: Final = "tests/incidents/topics"
_STATE: Final = "/brokers/topics/orders/partitions/1/state"
_RULE: Final = "offline partition leader election"


def instance(seq: int = 71, time_ns: int = 1795303271027761500, log: str = CRASH) -> Instance:
    """At event 71 of the incident, the head elects broker 1; a request to broker 3 follows."""
    at = (seq, time_ns, "znodes_read", "BrokerChange")
    leader = DecisionDifference("data.leader", "3", "1")
    choice = ("head, orders-1: chose 1 (offline partition leader election)",)
    first = DecisionDivergence(
        "changed", "set", _STATE, _RULE, _RULE, *at, (leader,), ("orders-1",), choice
    )
    after = (72, time_ns + 3_000_000, "znodes_written", "BrokerChange")
    request = DecisionDivergence(
        "missing", "leader_and_isr", "broker 3", _RULE, _RULE, *after, (), ("orders-1",)
    )
    return Instance(
        log, RootDivergence(first, [request]), ["orders-1: ends with leader 1 instead of 3"]
    )


def write_diff(
    folder: Path, instances: Sequence[Instance], *, accepted: str = "", error: str = ""
) -> Path:
    """Write the JSON of `refold diff`."""
    sides = (Side("main", "0.2.0", "1" * 24), Side("other branch", "0.2.0", "2" * 24))
    groups = [Group("12549320", (_RULE, "set", "leader"), list(instances), accepted)]
    logs = [LogResult(CRASH, error=error), LogResult(UNCHANGED)]
    path = folder / "diff.json"
    path.write_text(as_json(Comparison(*sides, logs, groups if instances else []), []))
    return path
