"""The bad outcome that a search for the point of no return asks about.

PARTITION offline     the partition has no leader at some time (leader -1 in its state)
PARTITION leader N    broker N leads the partition at the end
PARTITION lost        an unclean election, or an acknowledged record that is missing at the end
INVARIANT             the invariant of docs/invariants.md breaks
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, Literal

from msgspec import Struct, structs

from controller.core.values import NO_LEADER
from controller.core.znodes import Name
from controller.suggestions import there_are
from replay.cluster_view.selecting import (
    partitions_by_topic,
    require_among,
    require_broker_among,
)
from replay.errors import ReplayError
from replay.explore.run import Run
from replay.explore.verdict import invariant_names
from replay.names import partition_named
from replay.what_if.history import (
    Change,
    ClusterHistory,
    PartitionChange,
    PartitionSnapshot,
    is_unclean,
)
from replay.what_if.incident import Incident
from replay.what_if.running import HistoryRecorder, lost_records, run_to_end
from replay.world.inputs import Input
from replay.world.scenario import Scenario

_OPTION: Final = "--invariant"
_ABSENT: Final = f"{_OPTION}: the log has no {{}}"
_OF_PARTITION: Final = "`PARTITION offline`, `PARTITION leader N` or `PARTITION lost`"

_QUIET_MS: Final = 90_000
"""How long invariants about recovery need after the last fault."""


class InvariantCondition(Struct, frozen=True):
    """An invariant breaks."""

    invariant: str


class PartitionCondition(Struct, frozen=True):
    """A partition is offline, has another leader, or loses records. `leader` is for the condition
    "leader" only."""

    topic: str
    partition: int
    what: Literal["offline", "leader", "lost"]
    leader: int = NO_LEADER


Condition = InvariantCondition | PartitionCondition


def condition_of(text: str, incident: Incident) -> Condition:
    """Parse a condition. Raises ReplayError if it is none, or about a partition or broker that the
    incident does not have."""
    words = text.split()
    if len(words) == 1 and words[0] in invariant_names():
        return InvariantCondition(words[0])
    try:
        topic, number = partition_named(words[0] if words else "")
    except ValueError:
        if _condition_of_partition(("", 0), words[1:]) is None:
            raise _no_condition(text) from None
        raise ReplayError(
            f"{_OPTION} {text!r}: {words[0]} is not TOPIC-NUMBER, such as {words[0]}-0"
        ) from None
    found = _condition_of_partition((topic, number), words[1:])
    if found is None:
        raise ReplayError(f"{_OPTION} {text!r} is not {_OF_PARTITION}")
    known = {one.name for one in incident.history.changes if isinstance(one, PartitionChange)}
    require_among(partitions_by_topic(known), topic, number, _ABSENT)
    if found.what == "leader":
        require_broker_among(incident.brokers, found.leader, _ABSENT)
    return found


def _condition_of_partition(name: Name, words: Sequence[str]) -> PartitionCondition | None:
    match words:
        case ["offline"]:
            return PartitionCondition(*name, "offline")
        case ["lost"]:
            return PartitionCondition(*name, "lost")
        case ["leader", broker] if broker.isdecimal():
            return PartitionCondition(*name, "leader", int(broker))
    return None


def _no_condition(text: str) -> ReplayError:
    known = there_are("invariants", text, invariant_names(), shown=None)
    return ReplayError(
        f"{_OPTION} {text!r} is not {_OF_PARTITION}, and no invariant has this name; {known}"
    )


def has_bad_outcome(
    condition: Condition, scenario: Scenario, inputs: Sequence[Input], begin_ms: int
) -> bool:
    """Run a future that begins at `begin_ms`, and say whether it has the bad outcome.

    Raises ReplayError if the controller's code fails.
    """
    if isinstance(condition, InvariantCondition):
        recovering = structs.replace(scenario, quiet_ms=_QUIET_MS)
        violation = Run(recovering, inputs).outcome().violation
        return violation is not None and violation.invariant == condition.invariant
    name = (condition.topic, condition.partition)
    if condition.what == "offline":
        recorder = HistoryRecorder(partial(_is_leaderless, name), begin_ms)
        run_to_end(scenario, inputs, recorder)
        return recorder.has_ended
    recorder = HistoryRecorder()
    cluster = run_to_end(scenario, inputs, recorder)
    match condition.what:
        case "leader":
            return recorder.history.partition(name).leader == condition.leader
        case _:
            is_lost = any(lost_records(cluster, recorder).get(name, ()))
            return is_lost or had_unclean_election(recorder.history.changes, name)


def had_unclean_election(changes: Iterable[Change], name: Name) -> bool:
    """Whether a leader of a partition was elected that was not in its ISR."""
    before: PartitionSnapshot | None = None
    for change in changes:
        if not isinstance(change, PartitionChange) or change.name != name:
            continue
        if before is not None and change.now is not None and is_unclean(before, change.now):
            return True
        before = change.now
    return False


def _is_leaderless(name: Name, history: ClusterHistory) -> bool:
    """Whether a partition has no leader now."""
    state = history.partition(name).state
    return state is not None and state.leader == NO_LEADER
