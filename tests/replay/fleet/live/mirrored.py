"""What a mirror publishes of a log, and what a plain count says of it."""

from pathlib import Path

from eventstore.frames import encode
from eventstore.mirror.outbox import waiting
from replay.cluster_view.views import PartitionView
from replay.inspect.folding import folding_of
from replay.logs.open_log import open_log

_FAILOVERS = ("Startup", "Reelect", "ControllerChange", "RegisterBrokerAndReelect", "Expire")

State = tuple[str, int, str, int, tuple[int, ...]]
"""Topic, partition, health, leader, ISR."""


def published(log: Path) -> list[bytes]:
    """The values of the messages, one a record."""
    found, at = [], None
    while batch := waiting(log, at):
        found += [encode(one.frame) for one in batch]
        at = batch[-1].at
    return found


def counted(log: Path) -> list[list[State]]:
    """How the partitions were after each event, or when the daemon was controller last before it,
    by what `refold inspect` shows. The first one is before all events."""
    found: list[list[State]] = [[]]
    with open_log(log) as opened:
        folding = folding_of(opened)
        for record in opened.reader.events():
            folding.take(record)
            cluster = folding.cluster("")
            procedure = cluster.procedure.name if cluster.procedure is not None else ""
            if cluster.controller.role == "active" and procedure not in _FAILOVERS:
                of_all = [_state(one) for one in cluster.partitions() if one.status != "deleting"]
                found.append(sorted(of_all))
            else:
                found.append(found[-1])
    return found


def _state(one: PartitionView) -> State:
    kept = [replica for replica in one.replicas if replica not in one.adding]
    if one.leader < 0 or len(one.isr) == 0:
        health = "offline"
    elif set(kept) - set(one.isr):
        health = "under_replicated"
    elif one.leader != kept[0]:
        health = "not_preferred"
    else:
        health = "healthy"
    return (one.topic, one.partition, health, one.leader, one.isr)
