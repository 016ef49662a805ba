"""The knowledge of a broker of the 0.8 design at a moment of its log."""

from typing import Any

import msgspec
from msgspec import Struct

from controller.kafka_0_8.broker import Broker
from controller.kafka_0_8.state import Partition
from replay.errors import ReplayError
from replay.inspect.changes import Change, changes_of
from replay.logs.opened_broker_log import BrokerLog, fold_broker_log
from replay.names import partition_name
from replay.progress import Progress, unreported
from replay.times import iso_time


class ReplicaView(Struct, frozen=True):
    """A replica of the broker. `role` is "leader", "follower" or "none" (it knows no leader). The
    sets and the number of requests in the commitQ are known to leaders only."""

    name: str
    topic: str
    role: str
    leader: int
    epoch: int
    hw: int
    leo: int
    isr: list[int]
    cur: list[int]
    rar: list[int]
    waiting_requests: int


class InspectedBroker(Struct, frozen=True):
    """A broker after event `seq`. `running` is the procedure that runs, "" if none does."""

    seq: int
    time: str
    broker: int
    is_connected: bool
    running: str
    replicas: list[ReplicaView]


def broker_at(log: BrokerLog, seq: int, progress: Progress = unreported) -> InspectedBroker:
    """The broker after event `seq`. Raises ReplayError, LogError."""
    view = None
    for record, _, _, fold in fold_broker_log(log, seq):
        progress("folding", record.seq, seq)
        if record.seq == seq:
            running = type(fold.running).__name__ if fold.running is not None else ""
            view = _view(fold.broker, seq, iso_time(record.wall_ns), running)
    if view is None:
        raise ReplayError(f"there is no event {seq}")
    return view


def broker_changes(before: InspectedBroker, after: InspectedBroker) -> list[Change]:
    """All differences, by subject: the broker, then each replica."""
    return changes_of(_subjects(before), _subjects(after))


def _subjects(view: InspectedBroker) -> dict[str, Any]:
    found: dict[str, Any] = {
        f"broker {view.broker}": {"is_connected": view.is_connected, "running": view.running}
    }
    return found | {f"replica {one.name}": msgspec.to_builtins(one) for one in view.replicas}


def _view(broker: Broker, seq: int, time: str, running: str) -> InspectedBroker:
    replicas = [_replica(broker.partitions[name]) for name in sorted(broker.partitions)]
    return InspectedBroker(seq, time, broker.id, broker.is_connected, running, replicas)


def _replica(partition: Partition) -> ReplicaView:
    topic, number = partition.name
    role = "none" if partition.leader < 0 else "leader" if partition.is_leader else "follower"
    return ReplicaView(
        partition_name(topic, number),
        topic,
        role,
        partition.leader,
        partition.epoch,
        partition.local.hw,
        partition.local.leo,
        list(partition.isr),
        list(partition.cur),
        list(partition.rar),
        len(partition.commit_queue),
    )
