"""Races of topics: R29, topic-id-dropped."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from controller.core import znodes
from controller.core.controller import Controller
from controller.core.procedures.topics import topics
from controller.core.state import Partition
from controller.core.znodes import TopicContent
from replay.world.inputs import CreatePartitions, Input
from replay.world.scenario import Scenario
from tests.races.clusters import cluster
from tests.races.defect import Defect
from tests.races.planting import Replacement, reach


def _draws_again(original: Any) -> Callable[..., Awaitable[list[Partition]]]:
    async def read_added_partitions(
        controller: Controller, name: str, rule: str
    ) -> list[Partition]:
        # The module is not replaced as a whole: its other functions are right.
        read = await topics._read_contents(controller, [name], rule)
        known = controller.context.topic(name)
        content = read.contents[name]
        if name in read.versions and content.topic_id is None and known.id is not None:
            reach()
            wanted = await topics._with_ids(controller, {name: content}, rule)
            await topics._write_changed(controller, wanted, read.versions)
            controller.context.add_known_topic(name, wanted[name].topic_id)
        added: list[Partition] = await original(controller, name, rule)
        return added

    return read_added_partitions


def _old_tool_adds_partitions() -> tuple[Scenario, tuple[Input, ...]]:
    added = ((2, 3, 4),)
    return cluster(), (CreatePartitions(5_000, "orders", added, "znode_without_id"),)


# topic-id-dropped ---------------------------------------------------------------------------------


def _without_id(original: Any) -> Callable[..., TopicContent]:
    def grown(*arguments: Any) -> TopicContent:
        content: TopicContent = original(*arguments)
        if content.topic_id is not None:
            reach()
        return TopicContent(content.assignments)

    return grown


def _client_adds_partitions() -> tuple[Scenario, tuple[Input, ...]]:
    return cluster(), (CreatePartitions(5_000, "orders", ((2, 3, 4),)),)


DEFECTS: Final[tuple[Defect, ...]] = (
    Defect(
        id="R29",
        source="KAFKA-14190, KAFKA-12835",
        planted=f"If the znode below {znodes.TOPICS} has lost the topic's id, the controller draws "
        "another one.",
        needs="A tool that does not know topic ids writes a topic's znode.",
        invariants=("topic-ids-kept", "partitions-led", "isrs-full"),
        replacements=(
            Replacement(
                "controller.core.procedures.topics.topics:read_added_partitions", _draws_again
            ),
        ),
        directed=_old_tool_adds_partitions,
    ),
    Defect(
        id="topic-id-dropped",
        source="KB 7.7 U1",
        planted="When a client adds partitions, the controller writes the topic without its id.",
        needs="A client adds partitions to a topic.",
        invariants=("topic-ids-kept",),
        replacements=(
            Replacement("controller.core.procedures.topics.partition_addition:_grown", _without_id),
        ),
        directed=_client_adds_partitions,
    ),
)
