"""Decisions for comparisons."""

from typing import Any

import msgspec

from controller.core.canonical import digest
from replay.diff.messages import Decision


def decision(
    content: Any = None,
    *,
    kind: str = "set",
    target: str = "/brokers/topics/t/partitions/0/state",
    channel: str = "zookeeper",
    rule: str = "a rule",
    seq: int = 1,
    turn: int | None = None,
    time_ns: int | None = None,
    cause: str = "BrokerChange",
) -> Decision:
    """A decision whose key is the digest of its content."""
    content = {"data": content} if not isinstance(content, dict) else content
    key = digest(msgspec.json.encode([channel, kind, target, content]))
    when = seq if time_ns is None else time_ns
    return Decision(
        key,
        channel,
        kind,
        target,
        rule,
        seq,
        seq if turn is None else turn,
        when,
        "",
        cause,
        content,
    )


def request(broker: int, *states: tuple[str, int, int], seq: int = 1, epoch: int = 1) -> Decision:
    """A LeaderAndIsr request with topic, partition and leader of each state."""
    content = {
        "controller_epoch": epoch,
        "partitions": [
            {"topic": topic, "partition": partition, "leader": leader}
            for topic, partition, leader in states
        ],
    }
    return decision(
        content,
        kind="leader_and_isr",
        target=f"broker {broker}",
        channel=f"broker {broker}",
        seq=seq,
    )
