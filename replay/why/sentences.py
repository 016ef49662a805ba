"""Facts as sentences."""

from typing import Final

from controller.core.values import NO_LEADER, LeaderAndIsr
from controller.core.znodes import REASSIGN_CANCEL, REASSIGN_PARTITIONS_EXTRA
from replay.description.choices import passed_over_in_words
from replay.description.error_names import error_name, zookeeper_error_name
from replay.description.events import probe_in_words
from replay.description.phrases import assignment_in_words, broker_list, leader_in_words
from replay.times import iso_time
from replay.why.facts import (
    AddressProbed,
    AnyFact,
    AssignmentWritten,
    BrokerChanged,
    CancelZnodeObserved,
    CommandsUnrecorded,
    DeletionSent,
    Fact,
    IsrRequested,
    LeftUnchanged,
    LogEnded,
    MoveCancellation,
    MoveGivenUp,
    NoLeader,
    NoticeIssued,
    ReassignmentRequested,
    RecordZnodeObserved,
    ReplicaDeletionFact,
    RoleChanged,
    RollbackStep,
    SessionChanged,
    StateWritten,
    TopicChanged,
    WriteRefused,
)
from replay.why.silence import silence_in_words

_BROKERS: Final = {
    "registered": "broker {0} has registered",
    "gone": "the registration of broker {0} is gone",
    "bounced": "broker {0} has registered again, so it restarted",
    "shutting down": "broker {0} asked for a controlled shutdown",
    "log directory failed": "a log directory of broker {0} has failed",
}
UNRECORDED: Final = (
    "the log has no stored commands from here on: it is not known whether this was done"
)
_ROLE_CHANGES: Final = {
    "elected": "",
    "failover_done": "",
    "failover_failed": "the failover failed: ",
    "resigned": "no longer controller: ",
}
"""Changes of the controller role; "": the text says what happened."""
_TOPICS: Final = {
    "topic_deletion_started": "the deletion of {0} begins",
    "topic_deletion_waits": "{1}",
    "topic_deleted": "{1}",
    "topic_not_deleted": "{1}",
    "deletion_refused": "{1}",
    "topic_deletion_requested": "the deletion of {0} is requested: {1}",
    "topic_created": "{0} is created {1}",
}


def sentence(fact: AnyFact) -> str:
    """A fact in words, without the time and the cause."""
    match fact:
        case StateWritten():
            return _state_written(fact)
        case NoLeader(partition=partition, rule=rule, passed_over=passed_over, isr=isr):
            return (
                f"{rule} found no leader for {partition} (ISR {broker_list(isr)}): "
                f"{passed_over_in_words(passed_over)}"
            )
        case LeftUnchanged(partition=partition, text=text):
            return f"{partition} is left unchanged: {text}"
        case WriteRefused(path=path, error=error):
            return f"ZooKeeper refused the write of {path}: {zookeeper_error_name(error)}"
        case AssignmentWritten():
            return _assignment_written(fact)
        case MoveGivenUp(partition=partition, before=before, after=after):
            return (
                f"{partition}: its move to {broker_list(before.target)} is given up for replicas "
                f"{broker_list(after.target)}"
            )
        case RollbackStep(partition=partition, step=step, text=text):
            return f"{partition}: step {step} of 7: {text}"
        case ReplicaDeletionFact():
            return f"{fact.partition}: {deletion(fact)}"
        case RecordZnodeObserved(partition=partition, how=how, target=target):
            return f"{partition}: the record of its move to {broker_list(target)} is {how}"
        case CancelZnodeObserved():
            return _cancel_znode_observed(fact)
        case LogEnded():
            return "the log ends here (not closed)"
        case CommandsUnrecorded():
            return UNRECORDED
        case IsrRequested(partition=partition, broker=broker, isr=isr, error=error):
            verdict = f"rejected with {error_name(error)}" if error else "accepted"
            return f"leader {broker} asked for ISR {broker_list(isr)} of {partition}: {verdict}"
        case ReassignmentRequested():
            return _reassignment_asked(fact)
        case BrokerChanged(broker=broker, what=what, text=text):
            details = f", {text}" if text and what != "shutting down" else ""
            return _BROKERS[what].format(broker) + details
        case AddressProbed(broker=broker, result=result, text=text):
            return probe_in_words(broker, result, text)
        case RoleChanged(code=code, who=who, text=text):
            change = _ROLE_CHANGES.get(code, f"{code.replace('_', ' ')}: ")
            return f"{who}: {change}{text}"
        case TopicChanged(code=code, topic=topic, text=text):
            return _TOPICS.get(code, "{0}: {1}").format(topic, text)
        case DeletionSent(topic=topic, broker=broker):
            return f"broker {broker} is sent the deletion of its replicas of {topic}"
        case SessionChanged(subject=subject, text=text):
            return f"{subject}: {text}{silence(fact)}"
        case NoticeIssued(subject=subject, text=text):
            # Messages of a channel begin with its broker.
            return text if text.startswith(f"{subject}: ") else f"{subject}: {text}"


def silence(fact: SessionChanged) -> str:
    """How long nothing had been observed before the session changed; "" for not long."""
    return silence_in_words(fact.silent_ns / 1e9)


def _state_written(fact: StateWritten) -> str:
    if not fact.rule:
        who = f"{fact.writer} wrote it" if fact.writer else "found in ZooKeeper"
        if fact.writer == f"broker {fact.after.leader}":
            who = "its leader wrote it"
        return f"{fact.partition} {change(fact.before, fact.after)} ({who})"
    return f"{fact.rule}: {fact.partition} {change(fact.before, fact.after)}"


def change(before: LeaderAndIsr | None, after: LeaderAndIsr) -> str:
    """The changes of leader and ISR, and the new leader epoch."""
    if before is None:
        begun = f"{leader_in_words(after.leader)}, ISR {broker_list(after.isr)}"
        return f"{begun}, leader epoch {after.leader_epoch}"
    parts = []
    if before.leader != after.leader:
        parts.append(f"leader {_id(before.leader)} -> {_id(after.leader)}")
    else:
        parts.append(f"still {leader_in_words(after.leader)}")
    if before.isr != after.isr:
        parts.append(f"ISR {broker_list(before.isr)} -> {broker_list(after.isr)}")
    else:
        parts.append(f"ISR {broker_list(after.isr)}")
    parts.append(f"leader epoch {after.leader_epoch}")
    return ", ".join(parts)


def _assignment_written(fact: AssignmentWritten) -> str:
    who = "" if fact.rule else f" by {fact.writer}" if fact.writer else " (found in ZooKeeper)"
    head = f"{fact.rule}: " if fact.rule else ""
    if not fact.before.replicas:
        return f"{head}{fact.partition} has {assignment_in_words(fact.after)}{who}"
    was = assignment_in_words(fact.before)
    return f"{head}{fact.partition} goes from {was} to {assignment_in_words(fact.after)}{who}"


def deletion(fact: ReplicaDeletionFact) -> str:
    """The deletion of a replica: sent, done, failed or pending."""
    if fact.what == "pending":
        return pending_deletion(fact.broker, is_live=fact.is_live, is_remembered=fact.is_remembered)
    if fact.what == "asked":
        return f"broker {fact.broker} is sent the deletion of its replica"
    if fact.what == "confirmed":
        return f"broker {fact.broker} has deleted its replica"
    return f"broker {fact.broker} has not deleted its replica: {error_name(fact.error)}"


def pending_deletion(broker: int, *, is_live: bool, is_remembered: bool = True) -> str:
    """A deletion that its broker has not confirmed, and what happens next."""
    head = f"the deletion of the replica on broker {broker} is"
    if not is_remembered:
        why = "not confirmed" if is_live else f"not sent: broker {broker} is not alive"
        return f"{head} {why}"
    if is_live:
        why = f"broker {broker} has not confirmed it yet"
        return f"{head} pending: {why}; it is sent again if the broker registers again"
    why = f"broker {broker} is not alive"
    return f"{head} pending: {why}; it is sent again when the broker returns"


def _cancel_znode_observed(fact: CancelZnodeObserved) -> str:
    forced = ", forced" if fact.is_forced else ""
    return f"{REASSIGN_CANCEL} was {fact.how}{_czxid(fact.czxid, ' (')}{forced}"


def unclean_election(state: StateWritten) -> str:
    """An unclean election that made an original replica leader."""
    what = f"made original replica {state.after.leader} leader, which had not been in sync"
    return f"an unclean election {what}"


def _czxid(czxid: int, before: str = ", ") -> str:
    """The czxid of a znode, if known."""
    if czxid < 0:
        return ""
    return f"{before}czxid {czxid}" + (")" if "(" in before else "")


def other_controllers(epochs: tuple[int, ...]) -> str:
    """The controllers between two terms of the daemon."""
    if len(epochs) == 1:
        return f"another controller had the role: controller epoch {epochs[0]} lies between"
    return (
        f"other controllers had the role: controller epochs {epochs[0]} to {epochs[-1]} lie between"
    )


def why_rolled_back(one: MoveCancellation) -> str:
    """The request that undid a move, with its event."""
    if one.by == REASSIGN_CANCEL:
        return f"{_undoing_request(one)} (event {one.seq}{_czxid(one.czxid)})"
    if one.by == REASSIGN_PARTITIONS_EXTRA:
        return f"{_undoing_request(one)} (event {one.seq})"
    return f"{_undoing_request(one)} ({one.by}, event {one.seq})"


def cause_of_rollback(one: MoveCancellation) -> str:
    """The request that undid a move, without the number of its event."""
    if one.by == REASSIGN_CANCEL:
        return f"{_undoing_request(one)}{_czxid(one.czxid)}"
    if one.by == REASSIGN_PARTITIONS_EXTRA:
        return _undoing_request(one)
    return one.text or f"{_undoing_request(one)} ({one.by})"


def _undoing_request(one: MoveCancellation) -> str:
    if one.by == REASSIGN_CANCEL:
        return f"{one.by} was {one.how}"
    if one.by == REASSIGN_PARTITIONS_EXTRA:
        return f"{one.by} asks for {broker_list(one.asks_for or ())}"
    what = "to cancel it" if one.asks_for is None else f"for {broker_list(one.asks_for)}"
    return f"a client asked {what}"


def _reassignment_asked(fact: ReassignmentRequested) -> str:
    what = (
        "to cancel its reassignment"
        if fact.target is None
        else f"for replicas {broker_list(fact.target)}"
    )
    head = f"{fact.partition}: a client asked {what} ({fact.by})"
    if not fact.error:
        return head
    why = f": {fact.message}" if fact.message else ""
    return f"{head}, rejected with {error_name(fact.error)}{why}"


def _id(broker: int) -> str:
    return "none" if broker == NO_LEADER else str(broker)


def with_full_stop(text: str) -> str:
    """A sentence with its full stop, which some of Kafka's messages lack."""
    return f"{text.removesuffix('.')}."


def event_and_time(fact: Fact) -> str:
    """The number and time of the event of a fact, for a sentence: "event 7 (2026-...)"."""
    return f"event {fact.seq} ({iso_time(fact.wall_ns)})"
