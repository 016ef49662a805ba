"""Assignments that name the daemon's broker id, which can hold no replicas.

A broker that creates a topic for a client chooses among the live brokers of its metadata, and the
daemon is one of them (docs/observations.md#the-controller-role). The controller rewrites such an
assignment before its partitions get their states. A state with the daemon in the ISR was written by
hand: a failover elects again. Deviation `daemon-id-repaired`, under any rules.
"""

from collections.abc import Iterable
from zlib import crc32

from controller.core import znodes
from controller.core.controller import Controller
from controller.core.deviations import DAEMON_ID_REPAIRED
from controller.core.state import Partition
from controller.core.values import Assignment, Broker, format_brokers

_HOLDS_NO_REPLICAS = "Broker {} is the controller, which holds no replicas."


def daemon_id_problem(controller: Controller, replicas: Iterable[int]) -> str:
    """The error text for requested replicas that name the daemon; empty if they do not."""
    own = controller.configuration.id_without_replicas
    return _HOLDS_NO_REPLICAS.format(own) if own in replicas else ""


def repair_assignments(
    controller: Controller, topic: str, assignments: dict[int, Assignment]
) -> dict[int, Assignment]:
    """The assignments without the daemon's id; the same object if none names it.

    The daemon is replaced by a live broker that the partition lacks, preferably in a rack that it
    lacks. If there are several, partitions and topics take different ones. If there is none, the
    replica is removed, provided that another remains. An assignment of the daemon alone has to wait
    for a live broker.
    """
    own = controller.configuration.id_without_replicas
    named = [number for number, one in assignments.items() if names_broker(one, own)]
    if not named:
        return assignments
    live = controller.context.sorted_live_brokers()
    first = crc32(topic.encode())
    repaired = {
        number: _repair(assignment, own, live, first + number)
        for number, assignment in assignments.items()
    }
    now = "; ".join(f"{topic}-{one}: {format_brokers(repaired[one].replicas)}" for one in named)
    text = f"assignments named the daemon's id {own} as a replica; their replicas are now {now}"
    controller.notice("warning", "own_id_repaired", znodes.topic_path(topic), text)
    controller.observer.deviates(DAEMON_ID_REPAIRED, topic)
    return repaired


def report_daemon_in_sync(controller: Controller, partition: Partition) -> None:
    """Report that the ISR names the daemon; an election will remove it."""
    own = controller.configuration.id_without_replicas
    path = znodes.state_path(partition.topic.name, partition.number)
    text = f"the ISR of {partition!r} named the daemon's id {own}; a leader is elected without it"
    controller.notice("warning", "own_id_repaired", path, text)
    controller.observer.deviates(DAEMON_ID_REPAIRED, repr(partition))


def names_broker(assignment: Assignment, broker: int) -> bool:
    """Whether a broker is a replica, or one that is being added or removed."""
    replicas = assignment.replicas
    return broker in replicas or broker in assignment.adding or broker in assignment.removing


def _repair(assignment: Assignment, own: int, live: list[Broker], turn: int) -> Assignment:
    if not names_broker(assignment, own):
        return assignment
    free = [one for one in live if one.id not in assignment.replicas]
    if not free and all(one == own for one in assignment.replicas):
        return assignment
    racks = [one.rack for one in live if one.id in assignment.replicas]
    fitting = [one for one in free if one.rack not in racks] or free
    is_replica = own in assignment.replicas
    replacement = (fitting[turn % len(fitting)].id,) if fitting and is_replica else ()
    return Assignment(
        _replace(assignment.replicas, own, replacement),
        _replace(assignment.adding, own, replacement),
        _replace(assignment.removing, own, ()),
    )


def _replace(replicas: tuple[int, ...], own: int, by: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(new for one in replicas for new in (by if one == own else (one,))))
