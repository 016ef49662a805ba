"""Why is the deletion of a topic blocked, and which of its partitions have a problem?"""

from typing import Final

from controller.core.state_machines import ReplicaState
from controller.core.values import counted
from replay.cluster_view.views import DeletionView, TopicView
from replay.cluster_view.waiting import unfinished_failover
from replay.description.phrases import broker_list, enumeration
from replay.names import partition_named
from replay.why.configuration import throttles_of_topic
from replay.why.explanations.finding import Finding, last, why_lost
from replay.why.facts import (
    AnyFact,
    AssignmentWritten,
    BrokerChanged,
    DeletionSent,
    StateWritten,
    TopicChanged,
)
from replay.why.history import FactHistory
from replay.why.sentences import event_and_time, sentence, with_full_stop

_DELETED: Final = {ReplicaState.DELETION_SUCCESSFUL.name, ReplicaState.NON_EXISTENT.name}


def explain_topic(history: FactHistory) -> Finding:
    """Explain the state of the topic in question."""
    name = history.subject.topic
    assert name is not None, "the question is about a topic"
    view = history.cluster.topic(name)
    facts = _facts(history, view, name)
    if deletion := deletion_of(history, name):
        return Finding(deletion, facts)
    if view is None:
        changed = last(facts, TopicChanged)
        if changed is None or history.cluster.controller.role == "failing over":
            return explain_absence(history)
        return Finding(
            f"There is no topic {name} any more at {event_and_time(changed)}: {sentence(changed)}.",
            facts,
        )
    slow = throttles_of_topic(history.configuration, view.partitions)
    return Finding(_partitions(view) + slow, facts)


def _facts(history: FactHistory, view: TopicView | None, name: str) -> list[AnyFact]:
    on = {broker for one in view.partitions for broker in one.replicas} if view else set()
    found: list[AnyFact] = []
    for one in history.facts:
        if isinstance(one, BrokerChanged):
            keeps = one.broker in on
        elif isinstance(one, (TopicChanged, DeletionSent)):
            keeps = one.topic == name
        else:
            keeps = hasattr(one, "partition") or getattr(one, "subject", "").startswith(name)
        if keeps:
            found.append(one)
    return found


def deletion_of(history: FactHistory, topic: str) -> str:
    """The state of a topic's deletion, in words; "" if the topic is not being deleted."""
    found = (one for one in history.cluster.deletions if one.topic == topic)
    return "".join(_deletion(history, one) for one in found)


def _deletion(history: FactHistory, deletion: DeletionView) -> str:
    name = deletion.topic
    of_topic = (one for one in history.facts if isinstance(one, TopicChanged) and one.topic == name)
    changed = last(of_topic, TopicChanged)
    since = f" since {event_and_time(changed)}" if changed is not None else ""
    if deletion.offline_brokers:
        lost = enumeration(_absent(history, one) for one in deletion.offline_brokers)
        status = f"has been blocked{since}" if since else "is blocked"
        return f"The deletion of {name} {status}: replicas of it are on {lost}."
    moving = [one.partition for one in history.cluster.reassignments if _is_of(one.partition, name)]
    if moving:
        status = f"has waited{since}" if since else "waits"
        moves = f"{enumeration(moving)} {'is' if len(moving) == 1 else 'are'} being reassigned"
        return f"The deletion of {name} {status}: {moves}."
    if deletion.waits_for:
        awaited = enumeration(_deleting_broker(history, one) for one in deletion.waits_for)
        return f"The deletion of {name} is under way: it waits for {awaited}."
    if _has_no_replica(history, deletion):
        return f"The deletion of {name} is about to end: brokers have deleted all its replicas."
    status = "waiting" if deletion.status == "waits" else deletion.status
    status = f"has been {status}{since}" if since else f"is {status}"
    why = ""
    if deletion.status == "under way":
        why = ": brokers have not deleted all its replicas yet"
    elif deletion.status == "waits" and changed is not None:
        why = f": {sentence(changed)}"
    return f"The deletion of {name} {status}{why}."


def _has_no_replica(history: FactHistory, deletion: DeletionView) -> bool:
    """Whether the controller knows that all replicas are deleted. An imported log does not show
    that."""
    if history.cluster.log != "recorded" or deletion.status != "under way":
        return False
    view = history.cluster.topic(deletion.topic)
    partitions = view.partitions if view is not None else []
    return all(set(one.replica_states.values()) <= _DELETED for one in partitions)


def _deleting_broker(history: FactHistory, broker: int) -> str:
    """A broker that has not deleted its replicas yet, and when the deletion was sent."""
    to_broker = (
        one for one in history.facts if isinstance(one, DeletionSent) and one.broker == broker
    )
    sent = last(to_broker, DeletionSent)
    since = f", which was sent the deletion at {event_and_time(sent)}" if sent is not None else ""
    return f"broker {broker}{since}"


def _absent(history: FactHistory, broker: int) -> str:
    lost = why_lost(history, broker)
    return f"broker {broker}, which is not online" + (f": {lost}" if lost else "")


def _is_of(partition: str, topic: str) -> bool:
    return partition_named(partition)[0] == topic


def _partitions(view: TopicView) -> str:
    offline = [one.name for one in view.partitions if one.status == "offline"]
    new = [one.name for one in view.partitions if one.status == "new"]
    short = [
        f"{one.name} (lacks {broker_list([id for id in one.staying if id not in one.isr])})"
        for one in view.partitions
        if one.status == "online" and any(id not in one.isr for id in one.staying)
    ]
    head = f"{view.name} has {counted(len(view.partitions), 'partition')}"
    parts = []
    if offline:
        parts.append(f"{enumeration(offline)} {'is' if len(offline) == 1 else 'are'} offline")
    if new:
        parts.append(f"{enumeration(new)} {'has' if len(new) == 1 else 'have'} never had a leader")
    if short:
        parts.append(f"not all in sync: {enumeration(short)}")
    if not parts:
        return f"{head}, all online and in sync."
    return f"{head}: {'; '.join(parts)}. See --partition for the causes."


def explain_absence(history: FactHistory) -> Finding:
    """Explain why a topic or partition that the log mentions does not exist: the last fact about
    its name."""
    subject, facts = history.subject, history.facts_about_name()
    name = f"topic {subject.topic}"
    if subject.partition is not None:
        name = f"partition {subject.topic}-{subject.partition}"
    if unread := unfinished_failover(history.cluster):
        return Finding(f"The controller does not know {name}. {unread}", facts)
    newest = facts[-1]
    existed = any(isinstance(one, (AssignmentWritten, StateWritten, TopicChanged)) for one in facts)
    head = f"There is no {name} any more." if existed else f"There never was a {name} in this log."
    return Finding(f"{head} At {event_and_time(newest)}: {with_full_stop(sentence(newest))}", facts)
