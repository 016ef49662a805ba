"""Why does a reassignment not end, why was it rolled back, why was its request refused?"""

from typing import Final

from replay.inspect.cluster import PartitionView, lacking_replicas
from replay.why.answers.finding import Reply, at, last, why_lost
from replay.why.answers.partition import led_here
from replay.why.facts import AssignmentWritten, LeftAsItIs, MoveGivenUp, ReassignmentAsked, Told
from replay.why.history import History
from replay.why.words import assignment, ended, sentence
from replay.wording.error_names import error_name
from replay.wording.events_in_words import listed

REFUSALS: Final = {
    "reassignment_refused": "a request for it was refused",
    "reassignment_failed": "it failed",
    "reassignment_cancelled": "it was cancelled",
}
"""The notices that say why a reassignment, or a request for one, came to nothing; what each says.

A procedure that ignores requests or rolls reassignments back adds its notices' codes here.
"""


def about_reassignment(history: History) -> Reply:
    """The answer about the reassignment of the partition that is asked about."""
    view = history.view()
    if view is None:
        return _of_nothing(history)
    facts = led_here(history, view)
    if view.rollback_waits and not view.becoming:
        return Reply(_waiting(history, view), facts)
    if view.is_being_reassigned:
        return Reply(_under_way(history, view), facts)
    end = max((one.seq for one in facts if _ends(one)), default=history.cluster.seq)
    return Reply(_over(history, view), [one for one in facts if one.seq <= end])


def _of_nothing(history: History) -> Reply:
    """A request for a partition that there is not."""
    subject, facts = history.subject, history.about_its_name()
    asked = last(facts, ReassignmentAsked)
    why = refusal_since(history, None)
    if not why and asked is not None:
        why = f"{sentence(asked)} at {at(asked)}, when there was no such partition."
    name = f"{subject.topic}-{subject.partition}"
    why = why or "there is no such partition, and nobody asked for it."
    return Reply(f"{name} is not being reassigned: {why}", facts)


def _ends(fact: object) -> bool:
    """Whether a fact is about a reassignment: what comes after the last one of these is not."""
    if isinstance(fact, Told):
        return fact.code in REFUSALS
    return isinstance(fact, ReassignmentAsked) or _is_of_move(fact)


def refusal_since(history: History, written: AssignmentWritten | None) -> str:
    """What was asked for after the last write, and refused; "" for nothing."""
    since = written.seq if written is not None else 0
    asked = last(history.facts, ReassignmentAsked)
    if asked is not None and asked.error and asked.seq > since:
        what = "cancel it" if asked.target is None else f"move it to {listed(asked.target)}"
        told = f": {asked.message}" if asked.message else ""
        return ended(
            f"at {at(asked)} somebody asked to {what}, refused with {error_name(asked.error)}{told}"
        )
    refusals = (one for one in history.facts if isinstance(one, Told) and one.code in REFUSALS)
    refused = last(refusals, Told)
    if refused is not None and refused.seq > since:
        return ended(f"at {at(refused)} {REFUSALS[refused.code]}: {refused.text}")
    return ""


def _waiting(history: History, view: PartitionView) -> str:
    """Its targets hold nothing up any more: what does is told when the rollback begins to wait."""
    told = last((one for one in history.facts if isinstance(one, LeftAsItIs)), LeftAsItIs)
    since = f" since {at(told)}" if told is not None else ""
    origin = listed(_origin(history, view.origin))
    return (
        f"The reassignment of {view.name} to {listed(view.target)} is cancelled, and waits{since} "
        f"to go back to {origin}: {ended(view.rollback_waits)}"
    )


def _under_way(history: History, view: PartitionView) -> str:
    begun = last((one for one in history.facts if _begins(one)), AssignmentWritten)
    since = f", begun at {at(begun)}," if begun is not None else ""
    origin = listed(_origin(history, view.origin))
    move = f"The reassignment of {view.name} from {origin} to {listed(view.target)}"
    if view.course in ("rolled back", "replaced"):
        return f"{move}{since} is being {view.course}{_by(history, view)}."
    live = {one.id: one for one in history.cluster.brokers}
    lacking = {} if view.becoming else lacking_replicas(view, live)
    ignored = refusal_since(history, begun)
    more = _trouble(history) + (f" Then, {ignored}" if ignored else "")
    if not lacking:
        return f"{move}{since} is about to end: all its replicas are in sync.{more}"
    blocking = "; ".join(_blocks(history, broker, why) for broker, why in lacking.items())
    done = [one for one in view.target if one in view.isr]
    rest = f" In sync: {listed(done)}." if done else " None of its replicas is in sync."
    return f"{move}{since} does not end: {blocking}.{rest}{more}"


def _by(history: History, view: PartitionView) -> str:
    """What its replicas become instead, and why."""
    becoming = _origin(history, view.becoming)
    goes = f" to {listed(becoming)}" if view.course == "rolled back" else f" by {listed(becoming)}"
    given_up = last(history.facts, MoveGivenUp)
    if given_up is None:
        return goes
    goes += f" since event {given_up.seq}"
    because = given_up.because
    return goes if because is None else f"{goes}, because of event {because.seq}: {because.text}"


def _blocks(history: History, broker: int, why: str) -> str:
    lost = why_lost(history, broker) if "live" not in why else ""
    return f"broker {broker} blocks it, not in sync, {why}" + (f": {lost}" if lost else "")


def _begins(fact: object) -> bool:
    return isinstance(fact, AssignmentWritten) and fact.after.is_being_reassigned


def _origin(history: History, replicas: tuple[int, ...]) -> tuple[int, ...]:
    """The replicas of before a move, in the order that they had: it is lost with the move."""
    for one in reversed(history.facts):
        if isinstance(one, AssignmentWritten) and not one.before.is_being_reassigned:
            before = one.before.replicas
            return before if set(before) == set(replicas) else replicas
    return replicas


def _trouble(history: History) -> str:
    """The last step that failed, if one did after the assignment was written."""
    begun = last(history.facts, AssignmentWritten)
    failed = last(history.facts, LeftAsItIs)
    if failed is not None and (begun is None or failed.seq > begun.seq):
        return f" At event {failed.seq}: {ended(failed.text)}"
    return ""


def _over(history: History, view: PartitionView) -> str:
    written = last((one for one in history.facts if _is_of_move(one)), AssignmentWritten)
    ignored = refusal_since(history, written)
    if ignored:
        return f"{view.name} is not being reassigned: {ignored}"
    if written is None:
        return f"{view.name} is not being reassigned, and was not in this log."
    return _ended(history, view, written)


def _is_of_move(fact: object) -> bool:
    return isinstance(fact, AssignmentWritten) and bool(fact.before.replicas)


def _ended(history: History, view: PartitionView, written: AssignmentWritten) -> str:
    before, after = written.before, written.after
    head = f"{view.name} is not being reassigned: "
    if after.replicas == before.target and set(before.target) != set(before.origin):
        origin = listed(_origin(history, before.origin))
        return (
            f"{head}its move from {origin} to {listed(before.target)} ended at {at(written)}, when "
            "all of these were in sync."
        )
    if not before.is_being_reassigned and set(after.replicas) == set(before.replicas):
        return (
            f"{head}at {at(written)} its replicas {listed(before.replicas)} got the order "
            f"{listed(after.replicas)}, for which none had to be copied."
        )
    if set(after.replicas) == set(before.origin):
        return f"{head}its move to {listed(before.target)} was rolled back at {at(written)}: " + (
            _why_rolled_back(history, written)
        )
    return (
        f"{head}at {at(written)} it got {assignment(after)}, in the place of {assignment(before)}."
    )


def _why_rolled_back(history: History, written: AssignmentWritten) -> str:
    cancels = [
        one
        for one in history.facts
        if isinstance(one, ReassignmentAsked)
        and (one.target is None or set(one.target) == set(written.after.replicas))
        and not one.error
    ]
    # The answer to a request comes after what it led to.
    near = [one for one in cancels if one.because == written.because] or cancels[-1:]
    if near:
        how = "to cancel it" if near[0].target is None else f"for {listed(near[0].target or ())}"
        asked = near[0].because.seq if near[0].because is not None else near[0].seq
        return f"somebody asked {how} ({near[0].via}, event {asked})."
    because = written.because.text if written.because is not None else written.writer
    return f"{because or 'somebody wrote the topic anew'}."
