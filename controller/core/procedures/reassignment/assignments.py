"""Writing the assignments of partitions into their topics' znodes, with the records of
reassignments.

A record of /admin/reassignments is written in one multi with its topic: both or none (KB 14.4).
"""

from collections import defaultdict
from typing import NamedTuple

from controller.core import znodes
from controller.core.commands import Choice, Reason
from controller.core.controller import Controller
from controller.core.errors import ProcedureError
from controller.core.operations import OK, SetData, WriteOperation
from controller.core.procedures.reassignment_znodes.records import (
    RecordedMove,
    write_with_record,
    write_with_records,
)
from controller.core.procedures.topics.topics import topic_content
from controller.core.state import Partition
from controller.core.values import ANY_VERSION, Assignment, format_brokers
from controller.core.znodes import Reassignment
from controller.core.zookeeper_io import write

STORE = "reassignment: store the assignment"


class Move(NamedTuple):
    """A partition and its new assignment.

    `record`: the new record in /admin/reassignments; None: the record does not change.
    """

    partition: Partition
    assignment: Assignment
    record: Reassignment | None = None


Errors = dict[Partition, Exception]
"""The partitions that failed; completed steps are not undone (KB 7.4)."""


async def write_assignments(controller: Controller, moves: list[Move]) -> Errors:
    """Write the topics' znodes with the new assignments of these partitions (U1, B6), and take the
    written assignments into the context.

    A record is written in one multi with its topic.
    """
    recorded = [one for one in moves if one.record is not None]
    plain = [one for one in moves if one.record is None]
    errors: Errors = {}
    if plain:
        sets = _topic_writes(controller, plain)
        operations: list[WriteOperation] = list(sets.values())
        writes = await write(controller, operations, Reason(STORE, _choices(plain)))
        codes = dict(zip(sets, writes.errors, strict=True))
        for partition, assignment, _ in plain:
            code = codes[partition.topic.name]
            if code == OK:
                partition.assignment = assignment
            else:
                path = znodes.topic_path(partition.topic.name)
                errors[partition] = ProcedureError(
                    f"{path} cannot be written for the reassignment of {partition} "
                    f"(ZooKeeper code {code})"
                )
    if recorded:
        errors |= await _write_recorded(controller, recorded)
    return errors


async def _write_recorded(controller: Controller, moves: list[Move]) -> Errors:
    """Write each in a separate multi, all at the same time. Then write those that were refused, or
    whose reply was lost, one after the other."""
    before = {one.partition: one.partition.assignment for one in moves}
    groups: list[RecordedMove] = []
    for one in moves:
        groups.append(_recorded(controller, one))
        # The next write of the same topic must contain this assignment.
        one.partition.assignment = one.assignment
    open_ones = await write_with_records(controller, groups)
    errors: Errors = {}
    for partition in open_ones:
        partition.assignment = before[partition]
    for one in moves:
        if one.partition in open_ones:
            try:
                await write_with_record(controller, _recorded(controller, one))
                one.partition.assignment = one.assignment
            except ProcedureError as error:
                errors[one.partition] = error
    if errors:
        # A later write may have stored the assignment of a refused one with its topic.
        kept = [Move(partition, before[partition]) for partition in errors]
        topics: list[WriteOperation] = list(_topic_writes(controller, kept).values())
        await write(controller, topics, Reason(STORE, _choices(kept)))
    return errors


def _recorded(controller: Controller, move: Move) -> RecordedMove:
    assert move.record is not None, "only moves with a record are written with one"
    [topic] = _topic_writes(controller, [move]).values()
    return RecordedMove(move.partition, move.record, topic, Reason(STORE, _choices([move])))


def _topic_writes(controller: Controller, moves: list[Move]) -> dict[str, SetData]:
    """The new content of each topic's znode."""
    changed: dict[str, dict[int, Assignment]] = defaultdict(dict)
    for partition, assignment, _ in moves:
        changed[partition.topic.name][partition.number] = assignment
    topics = {one.partition.topic.name: one.partition.topic for one in moves}
    writes: dict[str, SetData] = {}
    for name, topic in topics.items():
        content = topic_content(controller.context, topic)
        assignments = content.assignments | changed[name]
        data = znodes.write_topic(znodes.TopicContent(assignments, content.topic_id))
        writes[name] = SetData(znodes.topic_path(name), data, ANY_VERSION)
    return writes


def _choices(moves: list[Move]) -> tuple[Choice, ...]:
    return tuple(
        Choice(*partition.key, partition.leader, _in_words(assignment))
        for partition, assignment, _ in moves
    )


def _in_words(assignment: Assignment) -> str:
    replicas, adding = format_brokers(assignment.replicas), format_brokers(assignment.adding)
    removing = format_brokers(assignment.removing)
    return f"replicas={replicas}, adding={adding}, removing={removing}"
