"""Why is a partition offline, why does it have this leader, why are replicas not in its ISR?"""

from collections.abc import Sequence
from typing import Final

from controller.core.election import (
    FIRST_LEADER,
    NOT_IN_SYNC,
    PREFERRED,
    REASSIGNMENT,
    ROLLBACK,
    UNCLEAN_LEADER,
)
from controller.core.triggers import (
    AutoPreferredReplicaLeaderElection,
    TopicUncleanLeaderElectionEnable,
    UncleanLeaderElectionEnable,
)
from replay.cluster_view.later_epochs import left_unchanged, why_unchanged
from replay.cluster_view.views import NO_BROKER, PartitionView, lacking_replicas, why_not_in_sync
from replay.description.choices import (
    candidates,
    candidates_clause,
    passed_over_in_words,
    rule_in_words,
)
from replay.description.phrases import broker_list, enumeration, leader_in_words
from replay.why.configuration import is_behind, throttles, too_few_in_sync, unclean_setting
from replay.why.explanations.finding import (
    Finding,
    being_undone,
    last,
    last_undone,
    loss_of,
    pending_deletions,
    state_changes,
    undone,
    why_lost,
)
from replay.why.explanations.replica import why_out_of_isr
from replay.why.explanations.topic import deletion_of
from replay.why.facts import (
    FAILOVERS,
    AnyFact,
    BrokerChanged,
    CancelZnodeObserved,
    CommandsUnrecorded,
    IsrRequested,
    LeftUnchanged,
    LogEnded,
    NoLeader,
    NoticeIssued,
    RecordZnodeObserved,
    ReplicaDeletionFact,
    RoleChanged,
    RollbackStep,
    StateWritten,
    TopicChanged,
)
from replay.why.history import FactHistory
from replay.why.move import Move
from replay.why.sentences import event_and_time, sentence

_UNCLEAN_ENABLED: Final = (
    UncleanLeaderElectionEnable.__name__,
    TopicUncleanLeaderElectionEnable.__name__,
)
_REQUEST: Final = "ElectLeaders"
_REBALANCE: Final = AutoPreferredReplicaLeaderElection.__name__
_TERMS: Final = ("elected", "resigned")


def explain_partition(history: FactHistory) -> Finding:
    """Explain the state of the partition in question."""
    view = history.view()
    assert view is not None, "a question about an unknown partition was rejected before"
    changes = state_changes(history, view.name)
    if view.status == "deleting":
        first = _explain_deletion(history, view)
    elif view.leader_epoch == NO_BROKER:
        first = _explain_never_led(history, view)
    elif view.status == "offline" or view.leader == NO_BROKER:
        first = _explain_offline(history, view, changes)
        first += unclean_setting(history.configuration, view.topic)
    else:
        first = " ".join(
            [_explain_leader(history, view, changes), *_explain_out_of_isr(history, view)]
        )
        first += too_few_in_sync(history.configuration, view)
        if later := _later_epoch(history, view):
            first += f" {later}."
    moves = history.moves()
    move = last_undone(moves)
    if move is not None and move.outcome == "rolled back":
        first += f" Its move {undone(move)}"
    if view.is_being_reassigned:
        first += f" {_moves(history, view, moves[-1] if moves else None)}"
    elif moves and moves[-1].outcome == "being rolled back":
        first += f" Its rollback has not ended; see --reassignment {view.name}."
    first += throttles(history.configuration, view) if is_behind(view) else ""
    first += pending_deletions(history, view)
    return Finding(first, causes_of_state(history, view, moves), moves)


def causes_of_state(
    history: FactHistory, view: PartitionView, moves: Sequence[Move]
) -> list[AnyFact]:
    """The facts that belong to the chain of causes of a partition's state."""
    cancelled = [one.cancelled.czxid for one in moves[-2:] if one.cancelled is not None]
    return [one for one in history.facts if _belongs(one, view, cancelled)]


def _belongs(fact: AnyFact, view: PartitionView, cancelled: Sequence[int]) -> bool:
    match fact:
        case (
            RollbackStep()
            | ReplicaDeletionFact()
            | RecordZnodeObserved()
            | LogEnded()
            | CommandsUnrecorded()
        ):
            # They are in the history of the move.
            return False
        case NoticeIssued(code="rollback"):
            return False
        case CancelZnodeObserved(czxid=czxid):
            return czxid in cancelled
        case BrokerChanged(broker=broker):
            return broker in view.replicas
        case RoleChanged(code=code):
            return code in _TERMS
        case IsrRequested(error=error):
            # The write that follows shows an accepted request.
            return bool(error)
        case TopicChanged(topic=topic):
            return topic == view.topic
        case _:
            return getattr(fact, "partition", view.name) == view.name


def _explain_deletion(history: FactHistory, view: PartitionView) -> str:
    waits = deletion_of(history, view.topic)
    return f"{view.name} is being deleted with its topic. {waits}".rstrip()


def _explain_never_led(history: FactHistory, view: PartitionView) -> str:
    head = f"{view.name} has never had a leader"
    found = last(history.facts, LeftUnchanged)
    if found is not None:
        why = f"at {event_and_time(found)} {found.text}"
    else:
        why = "no controller has created its state"
    return f"{head}: {why}; its replicas are {broker_list(view.replicas)}."


def _explain_offline(history: FactHistory, view: PartitionView, changes: list[StateWritten]) -> str:
    lost = _lost_leader(view, changes)
    since = loss_of(history, lost) if lost != NO_BROKER else None
    head = f"{view.name} is offline"
    if since is not None:
        head = f"{view.name} has been offline since {event_and_time(since)}: "
        head += f"{why_lost(history, lost)}, and broker {lost} was the leader"
    elif lost != NO_BROKER:
        head += f": its leader, broker {lost}, is not registered"
    failed = _failed_election(history, view, since)
    if failed is not None:
        rivals = passed_over_in_words(failed.passed_over)
        head += f"; no replica could lead at event {failed.seq}: {rivals}"
    else:
        rivals = enumeration(_replica_text(history, view, one) for one in view.replicas)
        head += f"; of its replicas {rivals}"
    return f"{head}. {_isr(view)} {_way_back(history, view)}."


def _lost_leader(view: PartitionView, changes: list[StateWritten]) -> int:
    if view.leader != NO_BROKER:
        return view.leader
    led = [one.after.leader for one in changes if one.after.leader != NO_BROKER]
    before = [
        one.before.leader
        for one in changes
        if one.before is not None
        and one.before.leader != NO_BROKER
        and one.after.leader == NO_BROKER
    ]
    return (before or led or [NO_BROKER])[-1]


def _failed_election(
    history: FactHistory, view: PartitionView, since: BrokerChanged | None
) -> NoLeader | None:
    of_it = (
        one for one in history.facts if isinstance(one, NoLeader) and one.partition == view.name
    )
    found = last(of_it, NoLeader)
    return found if found is not None and (since is None or found.seq >= since.seq) else None


def _replica_text(history: FactHistory, view: PartitionView, broker: int) -> str:
    live = {one.id: one for one in history.cluster.brokers}
    why = why_not_in_sync(view, broker, live)
    if broker in view.isr and why.is_live:
        return f"{broker} is live and in the ISR"
    if broker in live and broker not in view.isr:
        return f"{broker} is {NOT_IN_SYNC}"
    return f"{broker} is {why}"


def _later_epoch(history: FactHistory, view: PartitionView) -> str:
    """A sentence about a partition that the controller leaves unchanged; "" if it does not."""
    found = left_unchanged(history.cluster, [view])
    if not found:
        return ""
    return f"The controller leaves it unchanged: {why_unchanged(history.cluster, found)}"


def _isr(view: PartitionView) -> str:
    match view.isr:
        case ():
            return "The ISR is empty."
        case (broker,):
            return f"Only broker {broker} is in the ISR."
        case several:
            return f"The ISR is {broker_list(several)}."


def _way_back(history: FactHistory, view: PartitionView) -> str:
    if later := _later_epoch(history, view):
        return later
    awaited = [str(one) for one in view.isr if one in view.replicas]
    live = {one.id: one for one in history.cluster.brokers}
    electable = [one for one in awaited if why_not_in_sync(view, int(one), live).is_live]
    if electable:
        return f"The controller has not elected broker {' or '.join(electable)} yet"
    if view.isr and not awaited:
        # Kafka's controller leaves the last member in the ISR when it is no longer a replica.
        return (
            "No member of the ISR is a replica of the partition, so that only an unclean election, "
            "which may lose records, brings it online"
        )
    whom = f"broker {' or '.join(awaited)}" if awaited else "a replica that is in sync"
    way = f"The partition is online again when {whom} returns"
    move = being_undone(history, view)
    if set(view.replicas if move is None else move.origin) <= set(view.isr):
        return way
    way += ", or after an unclean election, which may lose records"
    if move is None:
        return way
    return (
        f"{way} and elects only the original replicas {broker_list(move.origin)}, because the move "
        f"to {broker_list(move.target)} is cancelled"
    )


def _explain_leader(history: FactHistory, view: PartitionView, changes: list[StateWritten]) -> str:
    chosen = [one for one in changes if one.before is None or one.before.leader != one.after.leader]
    leader = leader_in_words(view.leader)
    head = f"{view.name} has had {leader} since"
    if not chosen:
        return f"{head} before this log begins."
    one = chosen[-1]
    if one.before is None and not one.rule and not one.writer:
        return (
            f"{view.name} has {leader}: the controller found it in ZooKeeper at "
            f"{event_and_time(one)}, where another process had written it before."
        )
    return f"{head} {event_and_time(one)}: {_why_chosen(history, view, chosen)}."


def _why_chosen(history: FactHistory, view: PartitionView, chosen: list[StateWritten]) -> str:
    one = chosen[-1]
    led_before = _previous_leader(chosen)
    passed = candidates_clause(candidates(one.passed_over, one.after.leader))
    leads_as = rule_in_words(one.rule, one.code)
    if one.rule == FIRST_LEADER:
        return f"the partition was new, and it is {leads_as}{passed}"
    if one.rule == PREFERRED.name:
        return f"it is {leads_as}, {_why_preferred(one)}{passed}"
    if one.rule == REASSIGNMENT.name:
        target = broker_list(view.target)
        return f"the reassignment to {target} ended, and {led_before} does not stay leader{passed}"
    if one.rule == ROLLBACK and led_before not in (NO_BROKER, one.after.leader):
        return f"its move was rolled back, and {led_before} is not an original replica{passed}"
    if one.rule:
        return f"{_why_then(history, one, led_before)}; {_new_leader_text(one)}{passed}"
    if one.writer:
        return f"{one.writer} wrote it, and no rule of the derivation explains it"
    return "the controller found it in ZooKeeper, where another process had written it"


def _why_preferred(one: StateWritten) -> str:
    if one.because is not None and one.because.procedure == _REBALANCE:
        return "and auto.leader.rebalance.enable moves leadership to preferred replicas"
    request = one.because.text if one.because is not None else ""
    return f"as requested by {request}" if request else "as requested"


def _new_leader_text(one: StateWritten) -> str:
    leads_as = rule_in_words(one.rule, one.code)
    if one.code == UNCLEAN_LEADER:
        began = one.because.procedure if one.because is not None else ""
        is_requested = began == _REQUEST
        allowed = "as requested" if is_requested else "which the topic's settings allow"
        return (
            f"no replica in sync was online, so by an unclean election, {allowed}, "
            f"{one.after.leader} leads as {leads_as}"
        )
    return f"{one.after.leader} is {leads_as}"


def _why_then(history: FactHistory, one: StateWritten, led_before: int) -> str:
    """The reason why an election was necessary, or possible."""
    began = one.because.procedure if one.because is not None else ""
    if began in _UNCLEAN_ENABLED:
        return "unclean leader election was enabled"
    if began == _REQUEST:
        return "a client requested an election"
    if one.before is not None and one.before.leader != NO_BROKER:
        lost = why_lost(history, led_before, one.seq)
        return f"{lost}, and broker {led_before} was the leader" if lost else f"rule {one.rule}"
    came = _came_last(history, one.after.leader, one.seq)
    left = _loss_of_leader(history, one)
    if came is not None and (left is None or came.seq > left.seq):
        return f"it had no leader, and {sentence(came)} (event {came.seq})"
    if led_before == NO_BROKER:
        return f"rule {one.rule}"
    lost = why_lost(history, led_before, left.seq if left is not None else one.seq)
    text = f"its leader, broker {led_before}, was no longer online"
    if lost:
        text = f"{lost}, and broker {led_before} was the leader"
    if left is not None:
        text += f", so that it had none from event {left.seq} on"
    return text + (_failover_clause(history, one) if began in FAILOVERS else "")


def _failover_clause(history: FactHistory, one: StateWritten) -> str:
    """The failover that held an election, as the last clause of a sentence."""
    of_term = (
        role
        for role in history.facts
        if isinstance(role, RoleChanged) and (role.code, role.epoch) == ("elected", one.epoch)
    )
    role = last(of_term, RoleChanged)
    since = f" of {role.who}, controller since event {role.seq}," if role else ""
    return f"; the failover of term {one.epoch}{since} elected {one.after.leader}"


def _loss_of_leader(history: FactHistory, elected: StateWritten) -> StateWritten | None:
    """The write that left the partition without a leader before an election."""
    left = (
        one
        for one in state_changes(history, elected.partition)
        if one.after.leader == NO_BROKER and (one.before is None or one.before.leader != NO_BROKER)
    )
    return last(left, StateWritten, elected.seq)


def _came_last(history: FactHistory, broker: int, until: int) -> BrokerChanged | None:
    came = (
        one
        for one in history.facts
        if isinstance(one, BrokerChanged) and one.what == "registered" and one.broker == broker
    )
    return last(came, BrokerChanged, until)


def _previous_leader(chosen: list[StateWritten]) -> int:
    for one in reversed(chosen):
        if one.before is not None and one.before.leader != NO_BROKER:
            return one.before.leader
    return NO_BROKER


def _explain_out_of_isr(history: FactHistory, view: PartitionView) -> list[str]:
    return [
        f"{why_out_of_isr(history, view, one)}." for one in view.replicas if one not in view.isr
    ]


def _moves(history: FactHistory, view: PartitionView, move: Move | None) -> str:
    target, more = broker_list(view.target), f"see --reassignment {view.name}."
    why = ""
    is_undone = move is not None and move.is_undone
    if move is not None and is_undone and move.cancelled is not None:
        why = f", because {move.cancelled.text}"
    if view.becoming:
        status = view.reassignment_status
        how = status if status == "ending" else f"being {status}"
        return f"Its move to {target} is {how}{why}; {more}"
    if is_undone:
        return f"Its move to {target} waits to be rolled back{why}; {more}"
    live = {one.id: one for one in history.cluster.brokers}
    lacking = lacking_replicas(view, live)
    waits = (
        enumeration(f"{broker} ({why})" for broker, why in lacking.items()) or "no replica any more"
    )
    begun = ""
    if move is not None and move.begun is not None:
        begun = f", begun at event {move.begun.place},"
    return f"Its reassignment to {target}{begun} waits for {waits}; {more}"
