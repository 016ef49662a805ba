"""Topics and partitions that appear and disappear (KB 3.5, 3.6)."""

from collections.abc import Mapping

from controller.core import znodes
from controller.core.controller import Controller
from controller.core.failures import listed
from controller.core.procedures.reassignment_znodes.entries import remove_entries
from controller.core.procedures.reassignment_znodes.records import remove_records
from controller.core.procedures.topics.deletion import forget_topic
from controller.core.procedures.topics.topics import (
    create_partitions,
    read_added_partitions,
    read_new_topics,
    refuse_added_partitions,
    start_added_partitions,
)
from controller.core.state import sorted_partitions
from controller.core.zookeeper_io import read_children

_RULE = "topic change"


async def process_topic_change(controller: Controller) -> None:
    """The list of topics changed (processTopicChange, KB 3.5)."""
    context = controller.context
    children = await read_children(controller, znodes.TOPICS, _RULE, watch=True)
    found = dict.fromkeys(children.children)
    known = dict.fromkeys(context.known_topics())
    gone = dict.fromkeys(name for name in known if name not in found)
    await _end_reassignments(controller, gone)
    for name in gone:
        forget_topic(controller, name)
    new = [name for name in found if name not in known]
    for name in new:
        controller.notice(
            "info", "topic_found", znodes.topic_path(name), f"found the new topic {name}"
        )
    made = await read_new_topics(controller, new, _RULE)
    await create_partitions(controller, made.partitions)


async def _end_reassignments(controller: Controller, gone: Mapping[str, object]) -> None:
    """Topics were deleted by hand: remove their entries and records (KIP-236)."""
    records = controller.context.reassignments
    ended = sorted_partitions(one for one in records if one.topic.name in gone)
    if not ended:
        return
    text = f"a topic was deleted by hand: the reassignment of {listed(ended)} is over"
    controller.notice("warning", "reassignment_ended", listed(ended), text)
    targets = {one.key: records[one].replicas for one in ended}
    await remove_entries(controller, lambda name, target: targets.get(name) == target)
    await remove_records(controller, ended)
    for partition in ended:
        controller.context.reassigning.pop(partition, None)


async def process_partition_modifications(controller: Controller, name: str) -> None:
    """A topic's znode changed: partitions may have been added (KB 3.6)."""
    topic = controller.context.topics.get(name)
    if topic is None or not topic.is_known:
        return
    if name in controller.context.queued_for_deletion:
        await refuse_added_partitions(controller, topic)
        return
    added = await read_added_partitions(controller, name, "partition modifications")
    await start_added_partitions(controller, added)
