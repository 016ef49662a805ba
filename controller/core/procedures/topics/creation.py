"""CreateTopics: writes configurations and topic znodes, which the controller then discovers (KB
3.5, 11.8)."""

from collections import Counter

from controller.core import error_codes, znodes
from controller.core.api_requests.topics import (
    CreatedTopic,
    CreateTopicsReceived,
    CreateTopicsResponse,
    WaitingRequest,
)
from controller.core.authorization import DESCRIBE_CONFIGS
from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.errors import RequestRefused
from controller.core.operations import NODE_EXISTS, OK, Create, SetData, WriteOperation
from controller.core.outcomes import SLICE, suspend
from controller.core.pauses import SLICE_SIZE
from controller.core.procedures.admin.acls import TopicCheck, creation_check
from controller.core.procedures.admin.mutation_quotas import ControllerMutationQuota
from controller.core.procedures.admin.waiting_requests import respond_when_done
from controller.core.procedures.topics.validation import (
    ExistingTopics,
    TopicPlan,
    check_request,
    check_size,
    judge,
    topic_exists_error,
)
from controller.core.replica_assignment import assign_replicas
from controller.core.values import ANY_VERSION, Assignment
from controller.core.znodes import TopicContent
from controller.core.zookeeper_io import draw_numbers, draw_topic_ids, read_children, write_named

_RULE = CreateTopicsReceived.RULE
_SLICE_TOPICS = 200

Results = dict[str, CreatedTopic]
"""The answer for each topic."""


async def process_create_topics(
    controller: Controller, requests: list[CreateTopicsReceived]
) -> None:
    """Validate every topic, write the valid ones, answer each request when all its partitions have
    a leader.

    KafkaApis.handleCreateTopicsRequest, ZkAdminManager.createTopics.
    """
    quotas = [ControllerMutationQuota(controller, asked) for asked in requests]
    plans, answers = await _judge_all(controller, requests, quotas)
    answers |= await _create(controller, list(plans.values()))
    release = controller.context.oldest_release()
    for asked, quota in zip(requests, quotas, strict=True):
        quota.throttle()
        is_described = TopicCheck(controller, asked, DESCRIBE_CONFIGS, is_reported=False)
        created = tuple(answers[one.name] for one in asked.topics)
        awaited = [
            (one.name, number)
            for one in created
            if not one.error and one.name in plans
            for number in range(one.partitions)
        ]
        shown = tuple(
            [
                one if await is_described.check(one.name) else one.without_configs()
                for one in created
            ]
        )
        answer = CreateTopicsResponse(asked.request, shown, release)
        respond_when_done(controller, WaitingRequest(answer, awaited, []), _RULE)


async def _judge_all(
    controller: Controller,
    requests: list[CreateTopicsReceived],
    quotas: list[ControllerMutationQuota],
) -> tuple[dict[str, TopicPlan], Results]:
    """The topics to create, and the responses for the others."""
    topics = await read_children(controller, znodes.TOPICS, _RULE)
    marked = await read_children(controller, znodes.DELETE_TOPICS, _RULE)
    names = ExistingTopics(topics.children, marked.children)
    brokers = controller.context.sorted_live_brokers()
    counts = Counter(topic.name for asked in requests for topic in asked.topics)
    plans: dict[str, TopicPlan] = {}
    answers: Results = {}
    permitted = [
        (asked, creation_check(controller, asked), quota)
        for asked, quota in zip(requests, quotas, strict=True)
    ]
    wanted = [
        (topic, asked.validate_only, is_allowed, quota)
        for asked, is_allowed, quota in permitted
        for topic in asked.topics
    ]
    for place, (topic, validate_only, is_allowed, quota) in enumerate(wanted):
        if place % _SLICE_TOPICS == _SLICE_TOPICS - 1:
            await suspend(SLICE)
        try:
            check_request(topic.name, counts[topic.name])
            if not await is_allowed.check(topic.name):
                raise RequestRefused(
                    error_codes.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."
                )
            plan = judge(controller, topic, names, brokers)
            if not validate_only and not quota.admit(plan.partitions):
                raise RequestRefused(error_codes.THROTTLING_QUOTA_EXCEEDED)
        except RequestRefused as why:
            answers[topic.name] = _refused_topic(topic.name, why)
            continue
        if validate_only:
            answers[topic.name] = _created_topic(plan, None)
        else:
            names.add(topic.name)
            plans[topic.name] = plan
    for _, is_allowed, _ in permitted:
        is_allowed.report()
    return plans, answers


async def _create(controller: Controller, plans: list[TopicPlan]) -> Results:
    """Write configurations first, then the topics (AdminZkClient.createTopicWithAssignment)."""
    contents = await _contents(controller, plans)
    answers: Results = {}
    topics: dict[str, bytes] = {}
    for plan in plans:
        content = contents[plan.name]
        answers[plan.name] = _created_topic(plan, content.topic_id)
        topics[plan.name] = znodes.write_topic(content)
        try:
            check_size(plan.name, topics[plan.name])
        except RequestRefused as why:
            answers[plan.name] = _refused_topic(plan.name, why)
    await _write_configs(controller, plans, answers)
    await _write_topics(controller, topics, answers)
    return answers


async def _contents(controller: Controller, plans: list[TopicPlan]) -> dict[str, TopicContent]:
    """The content of each topic's znode; the random numbers and ids of all topics are drawn at
    once."""
    brokers = controller.context.sorted_live_brokers()
    chosen = [plan for plan in plans if plan.given is None]
    numbers = iter(await draw_numbers(controller, [len(brokers)] * 2 * len(chosen), _RULE))
    count = len(plans) if controller.protocol.has_topic_ids else 0
    topic_ids = iter(await draw_topic_ids(controller, count, _RULE))
    contents = {}
    assigned = 0
    for plan in plans:
        given = plan.given
        if given is None:
            start, shift = next(numbers), next(numbers)
            chosen_replicas = assign_replicas(
                brokers, plan.partitions, plan.replication_factor, start, shift
            )
            given = dict(enumerate(chosen_replicas))
        assignments = {number: Assignment(given[number]) for number in sorted(given)}
        contents[plan.name] = TopicContent(assignments, next(topic_ids, None))
        assigned += plan.partitions
        if assigned >= SLICE_SIZE:
            assigned = 0
            await suspend(SLICE)
    return contents


async def _write_configs(controller: Controller, plans: list[TopicPlan], answers: Results) -> None:
    """Write the configurations of the topics without an error; that of an earlier topic is
    overwritten."""
    paths = {
        plan.name: znodes.topic_config_path(plan.name)
        for plan in plans
        if not answers[plan.name].error
    }
    data = {plan.name: znodes.write_config(plan.configs) for plan in plans}
    creates: dict[str, WriteOperation] = {
        name: Create(path, data[name]) for name, path in paths.items()
    }
    errors = await write_named(controller, creates, Reason(_RULE))
    sets: dict[str, WriteOperation] = {
        name: SetData(paths[name], data[name], ANY_VERSION)
        for name, error in errors.items()
        if error == NODE_EXISTS
    }
    errors |= await write_named(controller, sets, Reason(_RULE))
    for name, error in errors.items():
        if error != OK:
            answers[name] = _not_written(controller, name, paths[name], error)


async def _write_topics(controller: Controller, topics: dict[str, bytes], answers: Results) -> None:
    """Write the topics without an error; another broker may have created one already."""
    creates: dict[str, WriteOperation] = {
        name: Create(znodes.topic_path(name), data)
        for name, data in topics.items()
        if not answers[name].error
    }
    for name, error in (await write_named(controller, creates, Reason(_RULE))).items():
        if error == NODE_EXISTS:
            answers[name] = _refused_topic(name, topic_exists_error(name))
        elif error != OK:
            answers[name] = _not_written(controller, name, creates[name].path, error)


def _created_topic(plan: TopicPlan, topic_id: bytes | None) -> CreatedTopic:
    return CreatedTopic(
        plan.name,
        topic_id=topic_id,
        partitions=plan.partitions,
        replication_factor=plan.replication_factor,
        configs=tuple(plan.configs.items()),
    )


def _refused_topic(name: str, why: RequestRefused) -> CreatedTopic:
    return CreatedTopic(name, why.error, why.message)


def _not_written(controller: Controller, name: str, path: str, error: int) -> CreatedTopic:
    text = f"the znode cannot be written (ZooKeeper code {error}): the topic is not created"
    controller.notice("error", "topic_not_created", path, text)
    return CreatedTopic(name, error_codes.UNKNOWN_SERVER_ERROR)
