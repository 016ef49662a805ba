"""DeleteTopics: creates markers below /admin/delete_topics, which start the deletion (KB 8,
11.8)."""

from controller.core import error_codes, znodes
from controller.core.api_requests.topics import (
    DeletedTopic,
    DeleteTopicsReceived,
    DeleteTopicsResponse,
    TopicToDelete,
    WaitingRequest,
)
from controller.core.authorization import DELETE, DESCRIBE
from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.operations import NODE_EXISTS, OK, Create, WriteOperation
from controller.core.procedures.admin.acls import TopicCheck
from controller.core.procedures.admin.mutation_quotas import ControllerMutationQuota
from controller.core.procedures.admin.waiting_requests import respond_when_done, send_response
from controller.core.state import ControllerContext
from controller.core.zookeeper_io import read_children, write

_RULE = DeleteTopicsReceived.RULE
_FIRST_WITH_DISABLED_ERROR = 3


async def process_delete_topics(controller: Controller, request: DeleteTopicsReceived) -> None:
    """Mark the topics; the response waits until brokers were sent their deletion.

    KafkaApis.handleDeleteTopicsRequest, ZkAdminManager.deleteTopics.
    """
    error = _error_of_request(controller, request)
    if error:
        send_response(controller, request.refusal(error), _RULE)
        return
    context = controller.context
    may_see = TopicCheck(controller, request, DESCRIBE)
    may_delete = TopicCheck(controller, request, DELETE)
    found = [await _find(controller, one, may_see, may_delete) for one in request.topics]
    may_see.report()
    may_delete.report()
    names = dict.fromkeys(one.name for one in found if one.name is not None and not one.error)
    quota = ControllerMutationQuota(controller, request)
    marked = await _mark(controller, [name for name in names if quota.admit(_size(context, name))])
    quota.throttle()
    answered = tuple(
        one
        if one.error or one.name is None
        else DeletedTopic(
            one.name, one.topic_id, marked.get(one.name, error_codes.THROTTLING_QUOTA_EXCEEDED)
        )
        for one in found
    )
    answer = DeleteTopicsResponse(request.request, error_codes.NONE, answered)
    waited = [name for name, error in marked.items() if not error]
    respond_when_done(controller, WaitingRequest(answer, [], waited), _RULE)


def _size(context: ControllerContext, name: str) -> int:
    """How many partitions are deleted with a topic."""
    return sum(1 for one in context.topics[name].partitions.values() if one.is_assigned)


def _error_of_request(controller: Controller, request: DeleteTopicsReceived) -> int:
    """The error code of the request as a whole; 0 if it is valid."""
    if not controller.configuration.delete_topic_enable:
        if request.version < _FIRST_WITH_DISABLED_ERROR:
            return error_codes.INVALID_REQUEST
        return error_codes.TOPIC_DELETION_DISABLED
    if any(one.name is not None and one.topic_id is not None for one in request.topics):
        return error_codes.INVALID_REQUEST
    return error_codes.NONE


async def _find(
    controller: Controller,
    requested: TopicToDelete,
    may_see: TopicCheck,
    may_delete: TopicCheck,
) -> DeletedTopic:
    """The topic by its name, or the error (KafkaApis.handleDeleteTopicsRequest). A client that may
    not see the topic of an id does not learn its name. No client may delete a topic without a name
    and an id."""
    context, name = controller.context, requested.name
    if requested.topic_id is not None:
        topic = context.topics_by_id.get(requested.topic_id)
        if topic is None:
            return DeletedTopic(None, requested.topic_id, error_codes.UNKNOWN_TOPIC_ID)
        name = topic.name
        if not await may_see.check(name):
            return DeletedTopic(None, requested.topic_id, error_codes.TOPIC_AUTHORIZATION_FAILED)
    if name is None or not await may_delete.check(name):
        return DeletedTopic(name, requested.topic_id, error_codes.TOPIC_AUTHORIZATION_FAILED)
    if not context.is_in_metadata(name):
        return DeletedTopic(name, requested.topic_id, error_codes.UNKNOWN_TOPIC_OR_PARTITION)
    return DeletedTopic(name, requested.topic_id)


async def _mark(controller: Controller, names: list[str]) -> dict[str, int]:
    """Create the markers; returns the error of each topic. An existing marker is sufficient."""
    if not names:
        return {}
    existing = dict.fromkeys((await read_children(controller, znodes.TOPICS, _RULE)).children)
    marked = {
        name: error_codes.NONE if name in existing else error_codes.UNKNOWN_TOPIC_OR_PARTITION
        for name in names
    }
    present = [name for name, error in marked.items() if not error]
    creates: list[WriteOperation] = [Create(znodes.delete_topic_path(name)) for name in present]
    writes = await write(controller, creates, Reason(_RULE))
    for name, operation, error in zip(present, creates, writes.errors, strict=True):
        if error not in (OK, NODE_EXISTS):
            text = f"the marker cannot be created (ZooKeeper code {error})"
            controller.notice("error", "topic_not_marked", operation.path, text)
            marked[name] = error_codes.UNKNOWN_SERVER_ERROR
    return marked
