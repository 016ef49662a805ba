"""CreatePartitions: adds partitions to a topic's znode, which the controller then discovers (KB
3.6, 11.8).

Checks, codes and messages are those of KafkaApis.handleCreatePartitionsRequest,
ZkAdminManager.createPartitions and AdminZkClient.createNewPartitionsAssignment, in their order.
"""

from typing import Final, NamedTuple

from controller.core import error_codes, znodes
from controller.core.api_requests.topics import (
    CreatePartitionsReceived,
    CreatePartitionsResponse,
    NewPartitions,
    TopicResult,
    WaitingRequest,
)
from controller.core.authorization import ALTER
from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.errors import RequestRefused, ZnodeError
from controller.core.operations import BAD_VERSION, NO_NODE, OK, SetData, WriteOperation
from controller.core.procedures.admin.acls import TopicCheck
from controller.core.procedures.admin.mutation_quotas import ControllerMutationQuota
from controller.core.procedures.admin.waiting_requests import respond_when_done, send_response
from controller.core.procedures.topics.daemon_id import daemon_id_problem
from controller.core.procedures.topics.validation import check_size, check_size_of_counts
from controller.core.replica_assignment import assign_replicas, check_counts, lacks_racks
from controller.core.values import Assignment, Broker
from controller.core.znodes import TopicContent
from controller.core.zookeeper_io import read_znodes, write

_RULE = CreatePartitionsReceived.RULE
_ROUNDS_MAX: Final = 5
"""The limit of attempts while others keep writing the topic's znode."""

Assignments = dict[int, Assignment]


class _Change(NamedTuple):
    """The new content of a topic's znode, its number of partitions, how many of them are new, and
    the version that was read."""

    data: bytes
    partitions: int
    added: int
    version: int


async def process_create_partitions(
    controller: Controller, request: CreatePartitionsReceived
) -> None:
    """Validate every topic, write the valid ones, answer when all their partitions have a
    leader."""
    brokers = controller.context.sorted_live_brokers()
    if lacks_racks(brokers):
        # Kafka checks this first, and then answers nothing else.
        send_response(controller, request.refusal(error_codes.UNKNOWN_SERVER_ERROR), _RULE)
        return
    answers = await _judge_request(controller, request)
    wanted = {one.topic: one for one in request.topics if not answers[one.topic].error}
    awaited: list[tuple[str, int]] = []
    quota = ControllerMutationQuota(controller, request)
    counted: dict[str, None] = {}
    for _ in range(_ROUNDS_MAX):
        changes = await _plan(controller, wanted, brokers, answers)
        if request.validate_only:
            changes = {}
        for name in [one for one in changes if one not in counted]:
            counted[name] = None
            if not quota.admit(changes[name].added):
                answers[name] = TopicResult(name, error_codes.THROTTLING_QUOTA_EXCEEDED)
                del changes[name]
        again = await _write(controller, changes, answers)
        awaited += [
            (name, number)
            for name, change in changes.items()
            if name not in again and not answers[name].error
            for number in range(change.partitions)
        ]
        wanted = {name: wanted[name] for name in again}
        if not wanted:
            break
    for name in wanted:
        answers[name] = TopicResult(name, error_codes.UNKNOWN_SERVER_ERROR)
        text = f"{name} was changed {_ROUNDS_MAX} times meanwhile: no partition is added, ask again"
        controller.notice("error", "partitions_not_added", znodes.topic_path(name), text)
    quota.throttle()
    answer = CreatePartitionsResponse(request.request, tuple(answers.values()))
    respond_when_done(controller, WaitingRequest(answer, awaited, []), _RULE)


async def _judge_request(
    controller: Controller, request: CreatePartitionsReceived
) -> dict[str, TopicResult]:
    """The errors that do not depend on the topic's znode; no error for topics that may grow."""
    is_allowed = TopicCheck(controller, request, ALTER)
    answers: dict[str, TopicResult] = {}
    for one in request.topics:
        name = one.topic
        if name in answers:
            text = "Duplicate topic in request."
            answers[name] = TopicResult(name, error_codes.INVALID_REQUEST, text)
        elif not await is_allowed.check(name):
            text = "The topic authorization is failed."
            answers[name] = TopicResult(name, error_codes.TOPIC_AUTHORIZATION_FAILED, text)
        elif name in controller.context.queued_for_deletion:
            text = "The topic is queued for deletion."
            answers[name] = TopicResult(name, error_codes.INVALID_TOPIC_EXCEPTION, text)
        else:
            answers[name] = TopicResult(name)
    is_allowed.report()
    return answers


async def _plan(
    controller: Controller,
    wanted: dict[str, NewPartitions],
    brokers: list[Broker],
    answers: dict[str, TopicResult],
) -> dict[str, _Change]:
    """The change of each topic; topics that may not grow are answered."""
    paths = [znodes.topic_path(name) for name in wanted]
    found = await read_znodes(controller, paths, _RULE)
    changes: dict[str, _Change] = {}
    for place, (name, asked) in enumerate(wanted.items()):
        content = TopicContent()
        try:
            if found.errors[place] == OK:
                content = znodes.read_topic(name, found.data[place])
            data = znodes.write_topic(_grown(controller, asked, content, brokers))
            check_size(name, data)
        except RequestRefused as why:
            answers[name] = TopicResult(name, why.error, why.message)
        except ZnodeError as unreadable:
            controller.notice("error", "unreadable_znode", paths[place], str(unreadable))
            answers[name] = TopicResult(name, error_codes.UNKNOWN_SERVER_ERROR)
        else:
            added = asked.count - len(content.assignments)
            changes[name] = _Change(data, asked.count, added, found.versions[place])
    return changes


async def _write(
    controller: Controller, changes: dict[str, _Change], answers: dict[str, TopicResult]
) -> list[str]:
    """Write the changes. Returns the topics that were changed or deleted since they were read."""
    operations: list[WriteOperation] = [
        SetData(znodes.topic_path(name), change.data, change.version)
        for name, change in changes.items()
    ]
    again = []
    writes = await write(controller, operations, Reason(_RULE))
    for name, operation, error in zip(changes, operations, writes.errors, strict=True):
        if error in (BAD_VERSION, NO_NODE):
            again.append(name)
        elif error != OK:
            path = operation.path
            text = f"{path} cannot be written (ZooKeeper code {error}): no partition is added"
            controller.notice("error", "partitions_not_added", path, text)
            answers[name] = TopicResult(name, error_codes.UNKNOWN_SERVER_ERROR)
    return again


# One topic --------------------------------------------------------------------------------------


def _grown(
    controller: Controller, requested: NewPartitions, content: TopicContent, brokers: list[Broker]
) -> TopicContent:
    """The topic with its new partitions. Raises RequestRefused, which has the error message."""
    topic, existing = requested.topic, content.assignments
    if any(one.is_being_reassigned for one in existing.values()):
        text = f"A partition reassignment is in progress for the topic '{topic}'."
        raise RequestRefused(error_codes.REASSIGNMENT_IN_PROGRESS, text)
    if not existing:
        text = f"The topic '{topic}' does not exist."
        raise RequestRefused(error_codes.UNKNOWN_TOPIC_OR_PARTITION, text)
    count = len(existing)
    if requested.count < count:
        text = (
            f"Topic currently has {count} partitions, which is higher than the requested "
            f"{requested.count}."
        )
        raise RequestRefused(error_codes.INVALID_PARTITIONS, text)
    if requested.count == count:
        text = f"Topic already has {count} partitions."
        raise RequestRefused(error_codes.INVALID_PARTITIONS, text)
    if requested.assignments is None:
        new = _chosen_assignments(topic, existing, requested.count - count, brokers)
    else:
        new = requested.assignments
        _check_given(controller, existing, requested.count - count, new, brokers)
    added = {count + place: Assignment(replicas) for place, replicas in enumerate(new)}
    return TopicContent(existing | added, content.topic_id)


def _first_replicas(existing: Assignments) -> tuple[int, ...]:
    """The replicas of partition 0, which the new ones follow. Raises RequestRefused.

    Kafka only checks that partition 0 exists; if another number is missing, it overwrites an
    assignment.
    """
    if sorted(existing) != list(range(len(existing))):
        raise RequestRefused(error_codes.UNKNOWN_SERVER_ERROR)
    return existing[0].replicas


def _chosen_assignments(
    topic: str, existing: Assignments, added: int, brokers: list[Broker]
) -> list[tuple[int, ...]]:
    """Continue the round robin of the topic's assignment, without random numbers."""
    first = _first_replicas(existing)
    check_counts(brokers, added, len(first))
    check_size_of_counts(topic, added, len(first))
    later = (place for place, one in enumerate(brokers) if one.id >= first[0])
    start = next(later, 0)
    return assign_replicas(brokers, added, len(first), start, start, len(existing))


def _check_given(
    controller: Controller,
    existing: Assignments,
    added: int,
    new: list[tuple[int, ...]],
    brokers: list[Broker],
) -> None:
    """Validate the given assignments. Raises RequestRefused."""
    refused = error_codes.INVALID_REPLICA_ASSIGNMENT
    named = sorted({one for replicas in new for one in replicas})
    names_own_id = daemon_id_problem(controller, named)
    if names_own_id:
        raise RequestRefused(refused, names_own_id)
    known = [one.id for one in brokers]
    unknown = [str(one) for one in named if one not in known]
    if unknown:
        text = f"Unknown broker(s) in replica assignment: {', '.join(unknown)}."
        raise RequestRefused(refused, text)
    if len(new) != added:
        text = (
            f"Increasing the number of partitions by {added} but {len(new)} assignments provided."
        )
        raise RequestRefused(refused, text)
    _check_replicas(new, len(_first_replicas(existing)), len(existing))


def _check_replicas(new: list[tuple[int, ...]], replication_factor: int, first: int) -> None:
    """AdminZkClient.validateReplicaAssignment. Raises RequestRefused."""
    refused = error_codes.INVALID_REPLICA_ASSIGNMENT
    for number, replicas in enumerate(new, first):
        if not replicas:
            text = f"Cannot have replication factor of 0 for partition id {number}."
            raise RequestRefused(refused, text)
        if len(set(replicas)) != len(replicas):
            text = (
                "Duplicate brokers not allowed in replica assignment: "
                f"{', '.join(map(str, replicas))} for partition id {number}."
            )
            raise RequestRefused(refused, text)
    bad = {n: len(one) for n, one in enumerate(new, first) if len(one) != replication_factor}
    if bad:
        text = (
            f"Inconsistent replication factor between partitions, partition 0 has "
            f"{replication_factor} while partitions [{', '.join(map(str, bad))}] have "
            f"replication factors [{', '.join(map(str, bad.values()))}], respectively."
        )
        raise RequestRefused(refused, text)
