"""Topics and partitions that appear and vanish (KB 3.5, 3.6)."""

from controller.core import znodes
from controller.core.controller import Controller
from controller.core.procedures.deletion import forget_topic
from controller.core.procedures.reassignment import complete_if_caught_up
from controller.core.procedures.topics import (
    create_partitions,
    read_added_partitions,
    read_new_topics,
    refuse_added_partitions,
)
from controller.core.settle import read_children
from controller.core.state import Partition

_RULE = "topic change"


async def process_topic_change(controller: Controller) -> None:
    """The list of topics changed (processTopicChange, KB 3.5)."""
    context = controller.context
    children = await read_children(controller, znodes.TOPICS, _RULE, watch=True)
    found = dict.fromkeys(children.children)
    known = dict.fromkeys(context.known_topics())
    for name in known:
        if name not in found:
            forget_topic(controller, name)
    new = [name for name in found if name not in known]
    for name in new:
        controller.notice("info", "topic_found", znodes.topic_path(name), "a new topic")
    made = await read_new_topics(controller, new, _RULE)
    await create_partitions(controller, made.partitions)


async def process_partition_modifications(controller: Controller, name: str) -> None:
    """A topic's znode changed: partitions may have been added (KB 3.6)."""
    topic = controller.context.topics.get(name)
    if topic is None or not topic.is_known:
        return
    if name in controller.context.queued_for_deletion:
        await refuse_added_partitions(controller, topic)
        return
    added = await read_added_partitions(controller, name, "partition modifications")
    await create_partitions(controller, added)
    if controller.configuration.has_kip_236:
        await _go_on_moving(controller, added)


async def _go_on_moving(controller: Controller, added: list[Partition]) -> None:
    """Nobody could read the topic when the term began: a reassignment of then goes on now."""
    for partition in added:
        if partition.assignment.is_being_reassigned:
            controller.context.reassigning[partition] = None
            await complete_if_caught_up(controller, partition)
