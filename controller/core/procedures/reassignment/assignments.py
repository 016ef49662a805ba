"""Writing the assignments of partitions into their topics' znodes, with the records of
reassignments.

A record of /admin/reassignments is written in one multi with its topic: both or none (KB 14.4).
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from controller.core import znodes
from controller.core.commands import Choice, Reason
from controller.core.controller import Controller
from controller.core.errors import ProcedureError
from controller.core.operations import OK, Check
from controller.core.procedures.reassignment_znodes.records import (
    RecordedMove,
    write_with_record,
    write_with_records,
)
from controller.core.procedures.topics.topics import (
    adopt_changes,
    note_written,
    topic_content,
    topic_write,
    version_to_check,
    write_topics,
)
from controller.core.state import Partition, Topic
from controller.core.values import ANY_VERSION, Assignment, format_brokers
from controller.core.znodes import Reassignment

STORE = "reassignment: store the assignment"


class NewAssignment(NamedTuple):
    """A partition and its new assignment.

    `record`: the new record in /admin/reassignments; None: the record does not change.
    """

    partition: Partition
    assignment: Assignment
    record: Reassignment | None = None


_AS_KNOWN: Final[Mapping[Partition, Assignment]] = {}

Errors = dict[Partition, Exception]
"""The partitions that failed; completed steps are not undone (KB 7.4)."""


async def write_assignments(
    controller: Controller,
    moves: list[NewAssignment],
    stored: Mapping[Partition, Assignment] = _AS_KNOWN,
) -> Errors:
    """Write the topics' znodes with the new assignments of these partitions (U1, B6), and take the
    written assignments into the context.

    A record is written in one multi with its topic. Until then, the other writes of the topic
    contain what ZooKeeper has: `stored`, where the context is ahead.
    """
    recorded = [one for one in moves if one.record is not None]
    plain = [one for one in moves if one.record is None]
    errors: Errors = {}
    for one in recorded:
        one.partition.assignment = stored.get(one.partition, one.partition.assignment)
    if plain:
        codes = await _write_plain(controller, plain)
        for partition, assignment, _ in plain:
            code = codes[partition.topic]
            if code == OK:
                partition.assignment = assignment
            else:
                path = znodes.topic_path(partition.topic.name)
                errors[partition] = ProcedureError(
                    f"{path} cannot be written for the reassignment of {partition} "
                    f"(ZooKeeper code {code})"
                )
    if recorded:
        errors |= await write_recorded(controller, recorded)
    return errors


async def _write_plain(controller: Controller, moves: list[NewAssignment]) -> dict[Topic, int]:
    """Write these assignments without records. Returns ZooKeeper's code for each topic."""
    changes: dict[Topic, dict[int, Assignment]] = defaultdict(dict)
    for partition, assignment, _ in moves:
        changes[partition.topic][partition.number] = assignment
    return await write_topics(controller, changes, Reason(STORE, _choices(moves)))


async def write_recorded(
    controller: Controller,
    moves: list[NewAssignment],
    rule: str = STORE,
    *,
    have_parents: bool = False,
) -> Errors:
    """Write assignments with their records, each in a separate multi, all at the same time. Then
    write those that were refused, or whose reply was lost, one after the other.

    The multi of an assignment that does not change only checks the version of the topic.
    `have_parents`: the parents of the records exist.
    """
    reasons = {one.partition: _reason(rule, one) for one in moves}
    before = {one.partition: one.partition.assignment for one in moves}
    groups: list[RecordedMove] = []
    written: Counter[Topic] = Counter()
    for one in moves:
        topic = one.partition.topic
        reason, later = reasons[one.partition], written[topic]
        group = _move_with_topic_check(controller, one, reason, later) or _move_with_topic_write(
            controller, one, reason, later
        )
        groups.append(group)
        written[topic] += group.writes_topic
        # The next write of the same topic must contain this assignment.
        one.partition.assignment = one.assignment
    unknown = await write_with_records(controller, groups, have_parents=have_parents)
    errors: Errors = {}
    for group in groups:
        if group.partition in unknown:
            group.partition.assignment = before[group.partition]
        elif group.writes_topic:
            note_written(group.partition.topic)
    lost = [one for one in moves if unknown.get(one.partition)]
    # An assignment that does not change says nothing about its record.
    changed = [one for one in lost if one.assignment != before[one.partition]]
    stored = await _adopt_stored_assignments(controller, changed)
    for one in moves:
        if one.partition in unknown and one.partition not in stored:
            try:
                await _write_one(controller, one, reasons[one.partition])
            except ProcedureError as error:
                errors[one.partition] = error
    if errors:
        # A later write may have stored the assignment of a refused one with its topic.
        await _write_plain(controller, [NewAssignment(one, before[one]) for one in errors])
    return errors


async def _adopt_stored_assignments(
    controller: Controller, moves: list[NewAssignment]
) -> dict[Partition, None]:
    """Take the assignments into the context that ZooKeeper has, of those whose reply was lost. The
    next write of the topic must contain them."""
    stored: dict[Partition, None] = {}
    contents = {
        topic: await adopt_changes(controller, topic)
        for topic in dict.fromkeys(one.partition.topic for one in moves)
    }
    for partition, assignment, record in moves:
        assert record is not None, "only moves with a record are written with one"
        content = contents[partition.topic]
        if content is not None and content.assignments.get(partition.number) == assignment:
            partition.assignment = assignment
            controller.context.reassignments[partition] = record
            stored[partition] = None
    return stored


async def _write_one(controller: Controller, move: NewAssignment, reason: Reason) -> None:
    """Write one assignment and its record in one multi. Partitions that another client has added to
    the topic meanwhile are created first. Raises ProcedureError."""
    topic = move.partition.topic
    while not await write_with_record(controller, _move_with_topic_write(controller, move, reason)):
        if await adopt_changes(controller, topic) is None:
            path = znodes.topic_path(topic.name)
            raise ProcedureError(f"{path} was changed by another client and cannot be read")
    note_written(topic)
    move.partition.assignment = move.assignment


def _move_with_topic_check(
    controller: Controller, move: NewAssignment, reason: Reason, later: int
) -> RecordedMove | None:
    """The record of an assignment that does not change: the multi checks that the topic has not
    changed either. None if the topic has to be written."""
    topic = move.partition.topic
    version = version_to_check(controller, topic, later)
    if move.assignment != move.partition.assignment or version == ANY_VERSION:
        return None
    assert move.record is not None, "only moves with a record are written with one"
    check = Check(znodes.topic_path(topic.name), version)
    return RecordedMove(move.partition, move.record, check, reason)


def _move_with_topic_write(
    controller: Controller, move: NewAssignment, reason: Reason, later: int = 0
) -> RecordedMove:
    """`later`: how many other writes of the topic are done first."""
    assert move.record is not None, "only moves with a record are written with one"
    partition, topic = move.partition, move.partition.topic
    content = topic_content(controller.context, topic, {partition.number: move.assignment})
    write = topic_write(controller, topic, content, later)
    return RecordedMove(partition, move.record, write, reason)


def _reason(rule: str, move: NewAssignment) -> Reason:
    """The reason of a move's write. An assignment that does not change is no decision."""
    changes = move.assignment != move.partition.assignment
    return Reason(rule, _choices([move]) if changes else ())


def _choices(moves: list[NewAssignment]) -> tuple[Choice, ...]:
    return tuple(
        Choice(*partition.key, partition.leader, _in_words(assignment))
        for partition, assignment, _ in moves
    )


def _in_words(assignment: Assignment) -> str:
    replicas, adding = format_brokers(assignment.replicas), format_brokers(assignment.adding)
    removing = format_brokers(assignment.removing)
    return f"replicas={replicas}, adding={adding}, removing={removing}"
