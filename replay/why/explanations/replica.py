"""Why is a broker not in a partition's ISR, or why is it?"""

from typing import Final

from controller.core.election import UNCLEAN_LEADER
from replay.cluster_view.views import PartitionView, why_not_in_sync
from replay.description.phrases import broker_list
from replay.why.explanations.finding import (
    Finding,
    being_undone,
    last_undone,
    state_changes,
    undone,
    why_lost,
)
from replay.why.facts import AnyFact, BrokerChanged, IsrRequested, StateWritten
from replay.why.history import FactHistory
from replay.why.sentences import event_and_time, sentence

_BY_LEADER: Final = "AlterPartition"


def explain_replica(history: FactHistory) -> Finding:
    """Explain the state of one broker's replica of the partition."""
    view, broker = history.view(), history.subject.broker
    assert view is not None, "a question about an unknown partition was rejected before"
    assert broker is not None, "the question is about a broker"
    facts = _facts(history, view, broker)
    return Finding(
        _summary(history, view, broker) + _cancellation_in_words(history, view, broker), facts
    )


def _summary(history: FactHistory, view: PartitionView, broker: int) -> str:
    if broker not in view.replicas:
        return f"Broker {broker} has no replica of {view.name}: {_replicas(view)}."
    if broker not in view.isr:
        return f"{why_out_of_isr(history, view, broker)}."
    entered = _last_change(history, view, broker, is_in=True)
    head = f"Broker {broker} has been in the ISR of {view.name} since"
    if view.leader == broker:
        head = f"Broker {broker} leads {view.name} and has been in its ISR since"
    if entered is None:
        return f"{head} before this log begins."
    return f"{head} {event_and_time(entered)}: {sentence(entered)}."


def _cancellation_in_words(history: FactHistory, view: PartitionView, broker: int) -> str:
    """A sentence about the cancelled move that adds the broker, or would have added it; "" for
    none."""
    move = being_undone(history, view)
    if move is not None and broker in view.adding:
        why = f": {move.cancelled.text}" if move.cancelled is not None else ""
        return f" The move to {broker_list(move.target)}, which adds it, is cancelled{why}."
    move = last_undone(history.moves())
    if move is None or move.outcome != "rolled back":
        return ""
    is_gone = broker in move.target and broker not in view.replicas
    return f" The move {undone(move)}" if is_gone else ""


def why_out_of_isr(history: FactHistory, view: PartitionView, broker: int) -> str:
    """A sentence without its full stop."""
    removed = _last_change(history, view, broker, is_in=False)
    live = {one.id: one for one in history.cluster.brokers}
    now = why_not_in_sync(view, broker, live)
    if removed is None:
        status = "it never was in this log"
        if broker in view.adding:
            is_undone = being_undone(history, view) is not None
            status = "it was being added" if is_undone else "it is being added"
        return f"Broker {broker} is not in the ISR of {view.name}: {status}; now it is {now}"
    why = _why_removed(history, removed, broker)
    head = f"Broker {broker} has not been in the ISR of {view.name} since"
    return f"{head} {event_and_time(removed)}: {why}; now it is {now}"


def _why_removed(history: FactHistory, removed: StateWritten, broker: int) -> str:
    lost = why_lost(history, broker, removed.seq)
    if removed.rule == _BY_LEADER:
        asked = _isr_request_in_words(history, removed)
        return f"{asked}, as leaders do with a follower that lags behind or is gone"
    if removed.rule and lost:
        return f"{lost}, and the controller removed it ({removed.rule})"
    if removed.code == UNCLEAN_LEADER:
        return f"an unclean election made {removed.after.leader} leader and only member"
    if removed.rule:
        return f"the controller removed it ({removed.rule})"
    if removed.writer == f"broker {removed.after.leader}":
        wrote = (
            f"its leader, {removed.writer}, wrote ISR {broker_list(removed.after.isr)} to ZooKeeper"
        )
        return f"{wrote}, as before Kafka 2.7, for a follower that lags behind or is gone"
    who = removed.writer or "another process"
    return f"{who} wrote ISR {broker_list(removed.after.isr)}"


def _isr_request_in_words(history: FactHistory, removed: StateWritten) -> str:
    asked = [
        one
        for one in history.facts
        if isinstance(one, IsrRequested) and one.isr == removed.after.isr and one.seq >= removed.seq
    ]
    if asked:
        return f"its leader, broker {asked[0].broker}, asked for ISR {broker_list(asked[0].isr)}"
    return (
        f"its leader, broker {removed.after.leader}, asked for ISR {broker_list(removed.after.isr)}"
    )


def _last_change(
    history: FactHistory, view: PartitionView, broker: int, *, is_in: bool
) -> StateWritten | None:
    """The last time that the broker entered the ISR, or left it."""
    found = None
    for one in state_changes(history, view.name):
        was = one.before is not None and broker in one.before.isr
        if was is not is_in and (broker in one.after.isr) is is_in:
            found = one
    return found


def _replicas(view: PartitionView) -> str:
    return f"its replicas are {broker_list(view.replicas)}"


def _facts(history: FactHistory, view: PartitionView, broker: int) -> list[AnyFact]:
    found: list[AnyFact] = []
    for one in history.facts:
        if isinstance(one, StateWritten):
            was = one.before is not None and broker in one.before.isr
            keeps = was is not (broker in one.after.isr) and one.partition == view.name
        elif isinstance(one, IsrRequested):
            keeps = bool(one.error)
        else:
            keeps = isinstance(one, BrokerChanged) and one.broker == broker
        if keeps:
            found.append(one)
    return found
