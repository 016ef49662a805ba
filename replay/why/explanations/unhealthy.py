"""What is not well at a moment, grouped by its root cause?"""

from msgspec import Struct

from replay.cluster_view.views import NO_BROKER, PartitionView, why_not_in_sync
from replay.description.phrases import counted
from replay.why.explanations.failures import failures_of, headline, is_stuck
from replay.why.explanations.finding import Finding, why_lost
from replay.why.facts import AnyFact, BrokerChanged
from replay.why.history import History


class Unhealthy(Struct, frozen=True):
    """A root cause, and the partitions or topics that are not well because of it."""

    cause: str
    affected: list[str]


def explain_unhealthy(history: History) -> Finding:
    """Explain everything that is not well."""
    groups = unhealthy(history)
    if not groups:
        return Finding("All partitions are online and in sync.", [])
    names = {name for one in groups for name in one.affected}
    partitions = history.cluster.partitions()
    affected = sum(1 for one in partitions if one.name in names)
    deletions = len(names) - affected
    summary = (
        f"{counted(len(groups), 'root cause')}; not well: {affected} of "
        f"{counted(len(partitions), 'partition')}"
        + (f" and {counted(deletions, 'deletion')} of topics." if deletions else ".")
    )
    live = {one.id for one in history.cluster.brokers}
    facts: list[AnyFact] = [
        one for one in history.facts if isinstance(one, BrokerChanged) and one.broker not in live
    ]
    facts = sorted([*facts, *failures_of(history)], key=lambda one: one.seq)
    return Finding(summary, facts)


def unhealthy(history: History) -> list[Unhealthy]:
    """The root causes: first failures of the controller, then those with most partitions."""
    causes: dict[str, list[str]] = {}
    first = headline(history)
    if first:
        causes[first] = []
    for view in history.cluster.partitions():
        for cause in _causes(history, view):
            causes.setdefault(cause, []).append(view.name)
    for one in history.cluster.deletions:
        for broker in one.offline_brokers:
            causes.setdefault(_lost(history, broker), []).append(f"deletion of {one.topic}")
    groups = [Unhealthy(cause, list(dict.fromkeys(names))) for cause, names in causes.items()]
    return sorted(groups, key=lambda one: (one.cause != first, -len(one.affected)))


def _causes(history: History, view: PartitionView) -> list[str]:
    if view.status == "deleting":
        return []
    live = {one.id: one for one in history.cluster.brokers}
    found: dict[str, None] = {}
    # The followers of a partition without a leader wait for the lost replicas in sync.
    is_led = view.leader in live
    for broker in view.replicas:
        is_lost = broker not in live
        if is_lost and (broker not in view.isr or not is_led):
            found[_lost(history, broker)] = None
        elif broker not in view.isr and view.leader_epoch != NO_BROKER and is_led:
            found[_live(history, f"broker {broker}: {why_not_in_sync(view, broker, live)}")] = None
    if not is_led and not found:
        found[_live(history, "no leader was elected, though replicas are registered")] = None
    return list(found)


def _lost(history: History, broker: int) -> str:
    why = why_lost(history, broker)
    return f"broker {broker} is not registered" + (f": {why}" if why else "")


def _live(history: History, cause: str) -> str:
    """The cause; if the controller cannot send requests, that is the cause of it."""
    return headline(history) if is_stuck(history) else cause
