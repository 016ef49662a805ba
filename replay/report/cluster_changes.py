"""The changes by which two logs are aligned: changes of partitions, brokers and topics in words
that contain neither event numbers nor epochs, which differ between runs."""

from collections.abc import Iterable, Iterator
from typing import Final

from controller.core.values import Assignment
from replay.description.phrases import assignment_in_words, broker_list, leader_in_words
from replay.names import broker_name
from replay.report.document import ClusterChange
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

ELECTED: Final = ("controller", "elected")
"""Subject and text of the election of a controller."""


def cluster_changes_in(facts: Iterable[AnyFact], last_seq: int) -> Iterator[ClusterChange]:
    """The changes of a log. How it ends is none of them: a log may end with a daemon that is
    stopped."""
    for one in facts:
        match one:
            case RoleChanged(code="elected"):
                yield _change(one, *ELECTED)
            case RoleChanged(code="resigned" | "failover_failed" as code):
                if one.seq < last_seq:
                    yield _change(one, "controller", code.replace("_", " "))
            case (
                StateWritten(before=None, rule="")
                | AssignmentWritten(before=Assignment(replicas=()), rule="")
            ):
                pass  # The controller read it when it took the role.
            case StateWritten(partition=name, after=state):
                yield _change(
                    one, name, f"{leader_in_words(state.leader)}, ISR {broker_list(state.isr)}"
                )
            case AssignmentWritten(partition=name, after=after):
                yield _change(one, name, assignment_in_words(after))
            case NoLeader(partition=name):
                yield _change(one, name, "an election found no leader")
            case LeftUnchanged(partition=name, code=code):
                yield _change(one, name, code.replace("_", " "))
            case MoveGivenUp(partition=name):
                yield _change(one, name, "the reassignment is given up")
            case BrokerChanged(broker=broker, what=what):
                yield ClusterChange(one.seq, one.wall_ns, broker_name(broker), what, True)
            case TopicChanged(code=code, topic=topic):
                yield _change(one, topic, code.replace("_", " "))
            case _:
                pass


def _change(fact: AnyFact, subject: str, text: str) -> ClusterChange:
    return ClusterChange(fact.seq, fact.wall_ns, subject, text)
