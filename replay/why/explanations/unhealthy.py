"""Which problems does a cluster have at a moment, grouped by their root causes?"""

from msgspec import Struct

from controller.core.values import counted
from replay.cluster_view.later_epochs import left_unchanged, why_unchanged
from replay.cluster_view.views import (
    NO_BROKER,
    DeletionView,
    PartitionView,
    ReplicaDeletionView,
    why_not_in_sync,
)
from replay.cluster_view.waiting import (
    silent_broker,
    stuck_queue,
    stuck_registration,
    stuck_registrations,
    unfinished_failover,
)
from replay.description.phrases import enumeration
from replay.why.configuration import limit_towards
from replay.why.explanations.finding import Finding, why_lost
from replay.why.facts import AnyFact, BrokerChanged
from replay.why.failures import changes_nothing
from replay.why.history import FactHistory


class RootCause(Struct, frozen=True):
    """A root cause, and the partitions that are not well and the deletions that wait because of
    it."""

    cause: str
    affected: list[str]


def explain_unhealthy(history: FactHistory) -> Finding:
    """Explain everything that is not well."""
    groups = unhealthy(history)
    unread = unfinished_failover(history.cluster)
    if not groups:
        return Finding(unread or "All partitions are online and in sync.", [])
    names = {name for one in groups for name in one.affected}
    cluster = history.cluster
    partitions = cluster.partitions()
    affected = sum(1 for one in partitions if one.name in names)
    topics = {_of_topic(one) for one in cluster.deletions}
    replicas = {_of_replica(one) for one in cluster.replica_deletions}
    counts = [f"{affected} of {counted(len(partitions), 'partition')}"]
    for kind, deletions in (("topics", topics), ("replicas", replicas)):
        if waiting := len(deletions & names):
            counts.append(f"{counted(waiting, 'deletion')} of {kind}")
    summary = f"{counted(len(groups), 'root cause')}; not well: {enumeration(counts)}. {unread}"
    live = {one.id for one in cluster.brokers}
    facts: list[AnyFact] = [
        one for one in history.facts if isinstance(one, BrokerChanged) and one.broker not in live
    ]
    facts = sorted([*facts, *history.failures()], key=lambda one: one.seq)
    return Finding(summary.strip(), facts)


def unhealthy(history: FactHistory) -> list[RootCause]:
    """The root causes: first failures of the controller, then those with most partitions."""
    causes: dict[str, list[str]] = {}
    for one in _of_controller(history):
        causes[one] = []
    for one in stuck_registrations(history.cluster):
        causes[one] = []
    if later := left_unchanged(history.cluster):
        why = why_unchanged(history.cluster, later)
        causes[f"the controller leaves partitions unchanged: {why}"] = [one.name for one in later]
    for view in history.cluster.partitions():
        for cause in _causes(history, view):
            causes.setdefault(cause, []).append(view.name)
    for deletion in history.cluster.deletions:
        for broker in deletion.offline_brokers:
            causes.setdefault(_cause_of_loss(history, broker), []).append(_of_topic(deletion))
    for pending in history.cluster.replica_deletions:
        if pending.is_late:
            causes.setdefault(_why_unconfirmed(history, pending), []).append(_of_replica(pending))
    groups = [RootCause(cause, list(dict.fromkeys(names))) for cause, names in causes.items()]
    first = _of_controller(history)
    return sorted(groups, key=lambda one: (one.cause not in first, -len(one.affected)))


def _of_controller(history: FactHistory) -> list[str]:
    """The failures of the controller, and the brokers that do not answer it."""
    silent = [silent_broker(history.cluster, one.broker) for one in history.cluster.unanswered]
    return [one for one in (history.headline(), *silent) if one]


def _causes(history: FactHistory, view: PartitionView) -> list[str]:
    if view.status == "deleting":
        return []
    live = {one.id: one for one in history.cluster.brokers}
    found: dict[str, None] = {}
    # The followers of a partition without a leader wait for the lost replicas in sync.
    is_led = view.leader in live
    for broker in view.staying:
        is_lost = broker not in live
        if is_lost and (broker not in view.isr or not is_led):
            found[_cause_of_loss(history, broker)] = None
        elif broker not in view.isr and view.leader_epoch != NO_BROKER and is_led:
            text = f"broker {broker}: {why_not_in_sync(view, broker, live)}"
            if limit := limit_towards(history.configuration, view, broker):
                text += f"; the replication is throttled to {limit}"
            found[_live(history, broker, text)] = None
    if not is_led and not found:
        found[
            _live(history, NO_BROKER, "no leader was elected, though replicas are registered")
        ] = None
    return list(found)


def _of_topic(deletion: DeletionView) -> str:
    return f"deletion of {deletion.topic}"


def _of_replica(pending: ReplicaDeletionView) -> str:
    return f"deletion of the replica of {pending.partition} on broker {pending.broker}"


def _why_unconfirmed(history: FactHistory, pending: ReplicaDeletionView) -> str:
    """Why a broker has not confirmed the deletion of a replica."""
    broker = pending.broker
    if not pending.is_live:
        return _cause_of_loss(history, broker)
    return _live(history, broker, f"broker {broker} has not confirmed the deletion of replicas")


def _cause_of_loss(history: FactHistory, broker: int) -> str:
    if stuck := stuck_registration(history.cluster, broker):
        return stuck
    why = why_lost(history, broker)
    return f"broker {broker} is not registered" + (f": {why}" if why else "")


def _live(history: FactHistory, broker: int, cause: str) -> str:
    """The cause; if the controller changes nothing any more, or the broker does not answer it, that
    is the cause of it."""
    if changes_nothing(history.failures()) or stuck_queue(history.cluster):
        return history.headline()
    return silent_broker(history.cluster, broker) or cause
