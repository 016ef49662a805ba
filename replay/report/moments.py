"""The moments by which two logs are aligned: changes of partitions, brokers and topics in words
that contain neither event numbers nor epochs, which differ between runs."""

from collections.abc import Iterable, Iterator

from controller.core.values import Assignment
from replay.description.phrases import assignment, leader, listed
from replay.report.document import Moment
from replay.why.facts import (
    AnyFact,
    AssignmentWritten,
    BrokerChanged,
    LeftUnchanged,
    MoveGivenUp,
    NoLeader,
    RoleChanged,
    StateWritten,
    TopicChanged,
)


def moments_of(facts: Iterable[AnyFact], last_seq: int) -> Iterator[Moment]:
    """The moments of a log. How it begins and ends is none of them: a log may begin at any moment,
    and end with a daemon that is stopped."""
    is_first = True
    for one in facts:
        match one:
            case RoleChanged(code="elected"):
                if not is_first:
                    yield _moment(one, "controller", "elected")
                is_first = False
            case RoleChanged(code="resigned" | "failover_failed" as code):
                if one.seq < last_seq:
                    yield _moment(one, "controller", code.replace("_", " "))
            case (
                StateWritten(before=None, rule="")
                | AssignmentWritten(before=Assignment(replicas=()), rule="")
            ):
                pass  # The controller read it when it took the role.
            case StateWritten(partition=name, after=state):
                yield _moment(one, name, f"{leader(state.leader)}, ISR {listed(state.isr)}")
            case AssignmentWritten(partition=name, after=after):
                yield _moment(one, name, assignment(after))
            case NoLeader(partition=name):
                yield _moment(one, name, "an election found no leader")
            case LeftUnchanged(partition=name, code=code):
                yield _moment(one, name, code.replace("_", " "))
            case MoveGivenUp(partition=name):
                yield _moment(one, name, "the reassignment is given up")
            case BrokerChanged(broker=broker, what=what):
                yield _moment(one, f"broker {broker}", what)
            case TopicChanged(code=code, topic=topic):
                yield _moment(one, topic, code.replace("_", " "))
            case _:
                pass


def _moment(fact: AnyFact, subject: str, text: str) -> Moment:
    return Moment(fact.seq, fact.wall_ns, subject, text)
