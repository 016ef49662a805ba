"""Reading topics, assigning topic ids, and bringing new partitions online (KB 3.5, 3.6)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from controller.core import znodes
from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.deviations import ADDED_PARTITIONS_KEPT, DAEMON_ID_REPAIRED, TOPIC_ID_RESTORED
from controller.core.election import OFFLINE
from controller.core.errors import ProcedureError, ZnodeError
from controller.core.failures import excerpt, listed, listed_names
from controller.core.operations import BAD_VERSION, NO_NODE, OK, SetData, WriteOperation
from controller.core.outcomes import SLICE, suspend
from controller.core.procedures.elections.partition_state_machine import change_partitions
from controller.core.procedures.elections.replica_state_machine import Replicas, change_replicas
from controller.core.procedures.topics.daemon_id import names_broker, repair_assignments
from controller.core.state import ControllerContext, Partition, Topic, sorted_partitions
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.triggers import PartitionReassignmentIsrChange
from controller.core.values import ANY_VERSION, Assignment
from controller.core.znodes import TopicContent
from controller.core.zookeeper_io import (
    draw_topic_ids,
    read_children,
    read_znodes,
    write,
    write_named,
)

_SLICE_TOPICS = 200
_UNCHANGED: Final[Mapping[int, Assignment]] = MappingProxyType({})

Contents = dict[str, TopicContent]
"""The content of topics' znodes, by topic."""


class ReadTopics(NamedTuple):
    """The content of topics' znodes; `data` and `versions` of those that exist."""

    contents: Contents
    data: dict[str, bytes | None]
    versions: dict[str, int]


class NewTopics(NamedTuple):
    """The partitions of new topics, and those whose assignment named the daemon."""

    partitions: list[Partition]
    repaired: list[Partition]


async def read_new_topics(controller: Controller, names: list[str], rule: str) -> NewTopics:
    """Read new topics, with their assignments, into the context.

    Watches each znode. Topics without an id get one (processTopicIds, KB 3.5 step 4), and
    assignments that name the daemon are repaired, in one write for each topic.
    """
    read = await _read_contents(controller, names, rule)
    wanted = await _with_ids(controller, await _repair_contents(controller, read.contents), rule)
    await _write_new(controller, read, wanted, rule)
    new = NewTopics([], [])
    for place, (name, content) in enumerate(wanted.items()):
        topic = controller.context.add_known_topic(name, content.topic_id)
        topic.version = read.versions.get(name, ANY_VERSION)
        taken = _assign(controller, topic, content.assignments)
        found = read.contents[name].assignments
        new.partitions.extend(taken)
        new.repaired.extend(one for one in taken if one.assignment != found[one.number])
        if place % _SLICE_TOPICS == _SLICE_TOPICS - 1:
            await suspend(SLICE)
    return new


async def _write_new(controller: Controller, read: ReadTopics, wanted: Contents, rule: str) -> None:
    """Write the new topics that are to change. A topic that another client wrote meanwhile is read
    again; it keeps its drawn id. A topic whose write ZooKeeper refuses stays as it was read.
    Brings `read` and `wanted` up to date."""
    names = [name for name, content in wanted.items() if content != read.contents[name]]
    while names:
        changed = {name: wanted[name] for name in names}
        versions = read.versions if _checks_versions(controller) else {}
        failed = await _write_changed(controller, changed, versions)
        wanted.update((name, read.contents[name]) for name in failed if failed[name] != BAD_VERSION)
        names = [name for name in failed if failed[name] == BAD_VERSION]
        again = await _read_contents(controller, names, rule)
        for name, content in (await _repair_contents(controller, again.contents)).items():
            has_content = bool(content.assignments)
            topic_id = content.topic_id or (wanted[name].topic_id if has_content else None)
            wanted[name] = TopicContent(content.assignments, topic_id)
        read.contents.update(again.contents)
        read.versions.update(again.versions)
        names = [name for name in names if wanted[name] != read.contents[name]]


async def read_added_partitions(controller: Controller, name: str, rule: str) -> list[Partition]:
    """Read a known topic again. Returns the partitions that it has gained (KB 3.6.1).

    All other changes are ignored, such as the controller's own writes, with three exceptions. The
    known assignment of a partition is written back if its new assignment names the daemon, or if
    another client changed it while partitions of the topic are being reassigned. The known id of
    the topic is written back if another client removed it (TOPIC_ID_RESTORED).
    """
    read = await _read_contents(controller, [name], rule)
    topic = controller.context.topic(name)
    _adopt_id(controller, topic, read.contents[name])
    found = read.contents[name].assignments
    added = _added_partitions(controller, topic, found)
    repaired = repair_assignments(controller, name, added)
    restored = _restored_assignments(controller, topic, found)
    if name in read.versions:
        restored |= _assignments_kept_while_moving(controller, topic, found, read.data[name])
    has_lost_id = _report_lost_id(controller, topic, read.contents[name])
    if restored or repaired is not added or has_lost_id:
        whole = TopicContent(found | repaired | restored, topic.id)
        if whole != read.contents[name]:
            failed = await _write_changed(controller, {name: whole}, read.versions)
            if failed.get(name, BAD_VERSION) != BAD_VERSION:
                repaired = added
    topic.version = read.versions.get(name, topic.version)
    return _assign(controller, topic, repaired)


def _adopt_id(controller: Controller, topic: Topic, content: TopicContent) -> None:
    """Take the id of a topic whose znode could not be read when the topic was found."""
    if topic.id is None:
        controller.context.add_known_topic(topic.name, content.topic_id)


def _added_partitions(
    controller: Controller, topic: Topic, found: dict[int, Assignment]
) -> dict[int, Assignment]:
    """The partitions in the znode of a topic that are new."""
    takes_empty = controller.configuration.lists_empty_partitions
    return {
        number: assignment
        for number, assignment in found.items()
        if (assignment.replicas or takes_empty) and not topic.partition(number).replicas
    }


def _report_lost_id(controller: Controller, topic: Topic, content: TopicContent) -> bool:
    """Report that another client has written the topic without its id. Returns whether it has."""
    if not TOPIC_ID_RESTORED.applies(controller.configuration):
        return False
    if topic.id is None or content.topic_id is not None or not content.assignments:
        return False
    path = znodes.topic_path(topic.name)
    text = "another client wrote the topic without its id: the known id is written again"
    controller.notice("warning", "topic_id_restored", path, text)
    controller.observer.deviates(TOPIC_ID_RESTORED, topic.name)
    return True


def _restored_assignments(
    controller: Controller, topic: Topic, found: dict[int, Assignment]
) -> dict[int, Assignment]:
    """The known assignments of the partitions that a client assigned to the daemon, with a notice
    about them. A stock controller would adopt the assignments in the znode."""
    own = controller.configuration.id_without_replicas
    restored = {
        number: known.assignment
        for number, assignment in found.items()
        if names_broker(assignment, own) and (known := topic.partition(number)).replicas
    }
    if restored:
        partitions = listed([topic.partition(number) for number in restored])
        text = f"{partitions} named the daemon's id {own}: the known assignments are restored"
        controller.notice("warning", "own_id_repaired", znodes.topic_path(topic.name), text)
        controller.observer.deviates(DAEMON_ID_REPAIRED, topic.name)
    return restored


def _assignments_kept_while_moving(
    controller: Controller, topic: Topic, found: dict[int, Assignment], data: bytes | None
) -> dict[int, Assignment]:
    """The known assignments of the partitions that another client changed while a partition of the
    topic is being reassigned, or whose change looks like a reassignment. The controller keeps the
    known assignments and logs a notice (docs/kip-236.md#changed-by-hand-while-under-way).
    """
    context = controller.context
    if not controller.configuration.has_kip_236:
        return {}
    known = topic_content(context, topic).assignments
    changed = {number: one for number, one in known.items() if found.get(number) != one}
    looks_so = any(number in found and found[number].is_being_reassigned for number in changed)
    if not changed or not (looks_so or _is_moving(controller, topic)):
        return {}
    path = znodes.topic_path(topic.name)
    partitions = listed([topic.partition(number) for number in changed])
    text = (
        f"another client changed {partitions} in {path} during a reassignment, or so that they "
        "look reassigned: the known assignments are written again; use refold reassign. "
        f"The znode contained {excerpt(data)}"
    )
    controller.notice("warning", "assignment_mended", partitions, text)
    return changed


def _is_moving(controller: Controller, topic: Topic) -> bool:
    """Whether a partition of the topic is being reassigned in a way that must not be changed by
    hand."""
    moving = controller.context.reassigning
    has_kip_236 = controller.configuration.has_kip_236
    return has_kip_236 and any(one in moving for one in topic.partitions.values())


async def refuse_added_partitions(controller: Controller, topic: Topic) -> None:
    """A topic that is being deleted gains no partitions: its znode is written back (KB 3.6.2).

    Raises ProcedureError if ZooKeeper refuses the write.
    """
    rule = "partitions added to a topic that is being deleted"
    path = znodes.topic_path(topic.name)
    read = await _read_contents(controller, [topic.name], rule)
    found = read.contents[topic.name].assignments
    if all(number in topic.partitions and topic.partitions[number].replicas for number in found):
        return
    existing = (await read_children(controller, znodes.partitions_path(topic.name), rule)).children
    known = topic_content(controller.context, topic)
    kept = {
        number: known.assignments[number]
        for number in found
        if str(number) in existing and number in known.assignments
    }
    topic.version = read.versions[topic.name]
    restored = topic_write(controller, topic, TopicContent(kept, topic.id))
    [error] = (await write(controller, [restored], Reason(rule))).errors
    if error == BAD_VERSION:
        # Another client has written the znode again, which is another controller event.
        return
    if error != OK:
        raise ProcedureError(f"{path} cannot be restored (ZooKeeper code {error})")
    note_written(topic)
    refused = [topic.partition(number) for number in sorted(set(found) - set(kept))]
    text = f"topic {topic.name} is being deleted and gains no partitions: {listed(refused)}"
    controller.notice("warning", "partitions_refused", path, text)


def _assign(
    controller: Controller, topic: Topic, assignments: dict[int, Assignment]
) -> list[Partition]:
    """Take assignments into the context; those that still name the daemon wait for a broker.

    Raises ProcedureError after a partition that is listed, has a leader and had no replicas before.
    """
    own = controller.configuration.id_without_replicas
    is_listed = controller.configuration.lists_empty_partitions
    partitions = []
    for number, assignment in assignments.items():
        if own in assignment.replicas:
            waiting = controller.context.awaiting_brokers.setdefault(topic.name, {})
            waiting[number] = assignment
            continue
        partition = topic.partitions.get(number)
        if partition is None:
            partition = topic.partitions[number] = Partition(topic, number, assignment, is_listed)
        else:
            try:
                partition.check_balance()
            finally:
                partition.assignment = assignment
                partition.is_listed = is_listed
        partitions.append(partition)
    return partitions


async def create_awaiting_partitions(controller: Controller) -> None:
    """A broker started: it may replace the daemon where no broker could before.

    A topic that is being deleted does not gain partitions in this way either (KB 3.6.2).
    """
    context = controller.context
    names = [one for one in context.awaiting_brokers if one not in context.queued_for_deletion]
    context.awaiting_brokers.clear()
    for name in names:
        added = await read_added_partitions(controller, name, "a broker for the daemon's place")
        await create_partitions(controller, added)


def topic_content(
    context: ControllerContext,
    topic: Topic,
    changes: Mapping[int, Assignment] = _UNCHANGED,
) -> TopicContent:
    """The new content of a topic's znode: every known assignment with these changes, and the topic
    id."""
    assignments = {one.number: one.assignment for one in topic.assigned()}
    assignments |= context.awaiting_brokers.get(topic.name, {})
    assignments |= changes
    return TopicContent(dict(sorted(assignments.items())), topic.id)


# Writing topics that are known --------------------------------------------------------------------


def topic_write(
    controller: Controller, topic: Topic, content: TopicContent, later: int = 0
) -> SetData:
    """The write of a topic's znode. `later`: how many other writes of the znode are done first.

    With ADDED_PARTITIONS_KEPT, ZooKeeper refuses the write (BAD_VERSION) if another client has
    written the znode since it was read.
    """
    version = version_to_check(controller, topic, later)
    return SetData(znodes.topic_path(topic.name), znodes.write_topic(content), version)


def version_to_check(controller: Controller, topic: Topic, later: int = 0) -> int:
    """The version that a topic's znode must have when it is written, or ANY_VERSION. `later`: how
    many other writes of the znode are done first."""
    if not _checks_versions(controller) or topic.version == ANY_VERSION:
        return ANY_VERSION
    return topic.version + later


def _checks_versions(controller: Controller) -> bool:
    configuration = controller.configuration
    return configuration.checks_topic_versions and ADDED_PARTITIONS_KEPT.applies(configuration)


def note_written(topic: Topic) -> None:
    """Note that the controller has written a topic's znode."""
    if topic.version != ANY_VERSION:
        topic.version += 1


async def write_topics(
    controller: Controller, changes: Mapping[Topic, Mapping[int, Assignment]], reason: Reason
) -> dict[Topic, int]:
    """Write topics' znodes: their known assignments, with these changes. Returns ZooKeeper's code
    for each. Partitions that another client has added meanwhile are created first."""
    codes: dict[Topic, int] = {}
    waiting = list(changes)
    while waiting:
        operations: list[WriteOperation] = []
        for topic in waiting:
            content = topic_content(controller.context, topic, changes[topic])
            operations.append(topic_write(controller, topic, content))
        errors = (await write(controller, operations, reason)).errors
        tried, waiting = waiting, []
        for topic, error in zip(tried, errors, strict=True):
            codes[topic] = error
            if error == OK:
                note_written(topic)
            elif error == BAD_VERSION and await adopt_changes(controller, topic) is not None:
                waiting.append(topic)
    return codes


async def adopt_changes(controller: Controller, topic: Topic) -> TopicContent | None:
    """Another client has written the znode of a topic that the controller is about to write: read
    it again and create the added partitions, as a topic change does (ADDED_PARTITIONS_KEPT).

    A topic that is being deleted gains no partitions. Returns None if the znode cannot be read.
    """
    read = await _read_contents(controller, [topic.name], "a topic was written meanwhile")
    if topic.name not in read.versions:
        return None
    topic.version = read.versions[topic.name]
    content = read.contents[topic.name]
    controller.observer.deviates(ADDED_PARTITIONS_KEPT, topic.name)
    if topic.name not in controller.context.queued_for_deletion:
        _adopt_id(controller, topic, content)
        _report_lost_id(controller, topic, content)
        added = _added_partitions(controller, topic, content.assignments)
        added = repair_assignments(controller, topic.name, added)
        await start_added_partitions(controller, _assign(controller, topic, added))
    return content


async def start_added_partitions(controller: Controller, added: list[Partition]) -> None:
    """Bring added partitions online. If a reassignment of one is under way, it is looked at later:
    the topic could not be read when the term began."""
    await create_partitions(controller, added)
    if controller.configuration.has_kip_236:
        for partition in added:
            if partition.assignment.is_being_reassigned:
                controller.context.reassigning[partition] = None
                controller.enqueue(PartitionReassignmentIsrChange(*partition.key))


# Reading and writing znodes -----------------------------------------------------------------------


async def _read_contents(controller: Controller, names: list[str], rule: str) -> ReadTopics:
    """The content of each znode; a missing or unreadable one counts as without partitions."""
    paths = [znodes.topic_path(name) for name in names]
    found = await read_znodes(controller, paths, rule, watch=True)
    read = ReadTopics({}, {}, {})
    for place, (name, path) in enumerate(zip(names, paths, strict=True)):
        read.contents[name] = TopicContent()
        if found.errors[place] != OK:
            continue
        read.data[name], read.versions[name] = found.data[place], found.versions[place]
        try:
            read.contents[name] = znodes.read_topic(name, found.data[place])
            _report_gaps(controller, path, name, read.contents[name])
        except ZnodeError as unreadable:
            controller.notice("error", "unreadable_znode", path, f"{unreadable}; skipped")
        if place % _SLICE_TOPICS == _SLICE_TOPICS - 1:
            await suspend(SLICE)
    return read


def _report_gaps(controller: Controller, path: str, name: str, content: TopicContent) -> None:
    """Report content that is readable and makes no sense; the context does not change."""
    topic = controller.context.topics.get(name)
    known = [one.number for one in topic.assigned()] if topic else []
    numbers = content.assignments
    empty = [one for one in numbers if not numbers[one].replicas and one not in known]
    gone = [one for one in known if one not in numbers or not numbers[one].replicas]
    if empty:
        text = f"{_names(name, empty)} get no leader: write their replicas into {path}"
        controller.notice("warning", "no_replicas", path, text)
    if gone and topic is not None and not _is_moving(controller, topic):
        text = f"{_names(name, gone)} are missing in {path} and keep their state: write them back"
        controller.notice("warning", "partitions_missing", path, text)
    if not numbers and not gone:
        text = f"topic {name} has no partitions: delete it, or write its assignment into {path}"
        controller.notice("warning", "no_partitions", path, text)


def _names(topic: str, numbers: list[int]) -> str:
    return listed_names([(topic, number) for number in numbers])


async def _repair_contents(controller: Controller, contents: Contents) -> Contents:
    repaired = {}
    for place, (name, content) in enumerate(contents.items(), 1):
        assignments = repair_assignments(controller, name, content.assignments)
        repaired[name] = TopicContent(assignments, content.topic_id)
        if place % _SLICE_TOPICS == 0:
            await suspend(SLICE)
    return repaired


async def _with_ids(controller: Controller, contents: Contents, rule: str) -> Contents:
    if not controller.protocol.has_topic_ids:
        return contents
    lacking = [
        name
        for name, content in contents.items()
        if content.topic_id is None and content.assignments
    ]
    drawn = await draw_topic_ids(controller, len(lacking), rule)
    with_ids = dict(contents)
    for name, topic_id in zip(lacking, drawn, strict=True):
        with_ids[name] = TopicContent(contents[name].assignments, topic_id)
    return with_ids


async def _write_changed(
    controller: Controller, changed: Contents, versions: dict[str, int]
) -> dict[str, int]:
    """Write changed topics. Brings `versions` up to date, and returns ZooKeeper's codes for the
    topics that exist and were not written: BAD_VERSION if another client wrote the topic since the
    version there."""
    writes: dict[str, WriteOperation] = {
        name: SetData(
            znodes.topic_path(name), znodes.write_topic(content), versions.get(name, ANY_VERSION)
        )
        for name, content in changed.items()
    }
    errors = await write_named(controller, writes, Reason("topic ids and repaired assignments"))
    for name, error in errors.items():
        if error == OK and name in versions:
            versions[name] += 1
        elif error not in (OK, NO_NODE, BAD_VERSION):
            path = writes[name].path
            text = f"{path} cannot be written (ZooKeeper code {error})"
            controller.notice("error", "topic_not_written", path, text)
    return {name: error for name, error in errors.items() if error not in (OK, NO_NODE)}


async def create_partitions(controller: Controller, partitions: list[Partition]) -> None:
    """Bring new partitions online (onNewPartitionCreation, KB 3.6.3).

    The liveness of single replicas is not checked (KB 3.6.4).
    """
    rule = "new partitions"
    partitions = sorted_partitions(partitions)
    replicas: Replicas = {}
    for partition in partitions:
        for broker in partition.assignment.replicas:
            replicas.setdefault(broker, []).append(partition)
    await change_partitions(controller, partitions, PartitionState.NEW, rule)
    await change_replicas(controller, replicas, ReplicaState.NEW, rule)
    await change_partitions(controller, partitions, PartitionState.ONLINE, rule, OFFLINE)
    await change_replicas(controller, replicas, ReplicaState.ONLINE, rule)
