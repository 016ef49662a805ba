"""The waits of the controller: for the outcome of a command, brokers, registrations."""

from collections.abc import Callable
from typing import Final

from msgspec import structs

from controller.core.values import counted
from replay.cluster_view.views import ClusterView, ProcedureView, UnansweredView
from replay.description.phrases import session_name
from replay.times import nanoseconds_of

STUCK_NS: Final = 10_000_000_000
"""After this time the controller, or a broker, counts as stuck. A response usually takes
milliseconds."""


def with_times(cluster: ClusterView, time_of: Callable[[int], str]) -> ClusterView:
    """The cluster with the times since when it waits. `time_of` returns the time of an event."""
    procedure = cluster.procedure
    if procedure is not None:
        procedure = structs.replace(procedure, waits_since_time=time_of(procedure.waits_since))
    waiting = [structs.replace(one, since_time=time_of(one.since)) for one in cluster.unanswered]
    return structs.replace(cluster, procedure=procedure, unanswered=waiting)


def seconds_between(since: str, until: str) -> float:
    """The seconds between two times as ISO strings; 0 if one is unknown."""
    if not since or not until:
        return 0
    return (nanoseconds_of(until) - nanoseconds_of(since)) / 1e9


def stuck_procedure(cluster: ClusterView) -> ProcedureView | None:
    """The current procedure, if nothing has happened in it for too long."""
    one = cluster.procedure
    if one is None or seconds_between(one.waits_since_time, cluster.time) * 1e9 < STUCK_NS:
        return None
    return one


def silent_brokers(cluster: ClusterView) -> list[UnansweredView]:
    """The requests that brokers have not answered for too long."""
    return [
        one
        for one in cluster.unanswered
        if seconds_between(one.since_time, cluster.time) * 1e9 >= STUCK_NS
    ]


def stuck_queue(cluster: ClusterView) -> str:
    """A sentence about a controller that processes no events any more; "" if it does."""
    one = stuck_procedure(cluster)
    if one is None:
        return ""
    seconds = seconds_between(one.waits_since_time, cluster.time)
    asked = f" for the outcome of {one.asked}" if one.asked else ""
    count = len(cluster.queued)
    queued = f"; {counted(count, 'controller event')} queued" if count else ""
    return (
        f"The controller is stuck: {one.name}, begun at event {one.since}, has been waiting{asked} "
        f"since event {one.waits_since} ({one.waits_since_time}), for {seconds:,.0f} s{queued}."
    )


def unfinished_failover(cluster: ClusterView) -> str:
    """A sentence about a controller that has not read the whole cluster yet; "" if it has."""
    if cluster.controller.role != "failing over":
        return ""
    return (
        f"The failover of controller epoch {cluster.controller.epoch} is under way: what the "
        "controller has not read yet is missing."
    )


def silent_broker(cluster: ClusterView, broker: int) -> str:
    """A sentence about a broker that has not answered requests; "" if it has."""
    for one in silent_brokers(cluster):
        if one.broker == broker:
            seconds = seconds_between(one.since_time, cluster.time)
            others = f", nor {counted(one.count - 1, 'other request')}" if one.count > 1 else ""
            return (
                f"Broker {broker} has not answered {one.request} of event {one.since} "
                f"({one.since_time}) for {seconds:,.0f} s{others}."
            )
    return ""


def stuck_registration(cluster: ClusterView, broker: int) -> str:
    """A sentence about the registration of a broker that is stuck; "" if it is not."""
    for one in cluster.stuck_registrations:
        if one.broker == broker and one.is_registered:
            owner = "no session owns the znode"
            if one.session:
                owner = f"its owner, {session_name(one.session)}, is over or ends late"
            return (
                f"{one.znode} is left: no process listens on {one.address}, and {owner} "
                "(ZOOKEEPER-1740)."
            )
        if one.broker == broker:
            owned = f", which {session_name(one.session)} owned," if one.session else ""
            return (
                f"Broker {broker} answers on {one.address}, but does not register again: "
                f"{one.znode}{owned} does not exist any more (ZOOKEEPER-1740)."
            )
    return ""


def stuck_registrations(cluster: ClusterView) -> list[str]:
    """The sentences about all of them."""
    return [stuck_registration(cluster, one.broker) for one in cluster.stuck_registrations]
