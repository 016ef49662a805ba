"""The messages that a mirror publishes for a log, and the expected health from `refold inspect`."""

from pathlib import Path

from eventstore.frames import encode
from eventstore.mirror.outbox import next_messages
from replay.cluster_view.views import PartitionView
from replay.inspect.projections import projection_of
from replay.logs.open_log import open_log

_FAILOVERS = ("Startup", "Reelect", "ControllerChange", "RegisterBrokerAndReelect", "Expire")

State = tuple[str, int, str, int, tuple[int, ...]]
"""Topic, partition, health, leader, ISR."""


def published(log: Path) -> list[bytes]:
    """The values of the messages, one per record."""
    found, at = [], None
    while batch := next_messages(log, at):
        found += [encode(one.frame) for one in batch]
        at = batch[-1].at
    return found


def counted(log: Path) -> list[list[State]]:
    """The expected health after each event: as `refold inspect` shows the partitions, at that event
    or at the last event before it at which the daemon was controller. The first entry is before all
    events."""
    found: list[list[State]] = [[]]
    with open_log(log) as opened:
        projection = projection_of(opened)
        for record in opened.reader.events():
            projection.apply(record)
            cluster = projection.cluster("")
            procedure = cluster.procedure.name if cluster.procedure is not None else ""
            if cluster.controller.role == "active" and procedure not in _FAILOVERS:
                of_all = [_state(one) for one in cluster.partitions() if one.status != "deleting"]
                found.append(sorted(of_all))
            else:
                found.append(found[-1])
    return found


def _state(one: PartitionView) -> State:
    state = [replica for replica in one.replicas if replica not in one.adding]
    if one.leader < 0 or len(one.isr) == 0:
        health = "offline"
    elif set(state) - set(one.isr):
        health = "under_replicated"
    elif one.leader != state[0]:
        health = "not_preferred"
    else:
        health = "healthy"
    return (one.topic, one.partition, health, one.leader, one.isr)
