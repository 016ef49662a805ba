"""--generate and --generate-extra."""

import random
from collections.abc import Sequence

from controller.operator.reassignment.access import Cluster
from controller.operator.reassignment.by_hand import unreadable_topics
from controller.operator.reassignment.documents import (
    as_document,
    listed,
    spelt_all,
    write_targets,
)
from controller.operator.reassignment.errors import Refused
from controller.operator.reassignment.proposals import propose
from controller.operator.reassignment.report import Report


async def generate(
    cluster: Cluster,
    report: Report,
    topics: Sequence[str],
    brokers: Sequence[int],
    *,
    rack_aware: bool,
) -> None:
    """Say where the partitions of topics are, and where they could go. Changes nothing.

    Of a partition that is on its way it says where that goes back to. Raises Refused.
    """
    view = await cluster.access.look(topics)
    found = {topic for topic, _ in view.assignments} | view.unreadable_topics.keys()
    wrong = [f"Topic {one} not found." for one in topics if one not in found]
    wrong += unreadable_topics(view, topics)
    if wrong:
        raise Refused("\n".join(wrong))
    unknown = [one for one in brokers if one not in view.brokers]
    if unknown:
        own = view.controller.broker
        text = f" ({own} is the controller, which holds no replicas)" if own in unknown else ""
        raise Refused(f"--broker-list: not alive: {listed(unknown)}{text}")
    current = view.origins(sorted(one for one in view.assignments if one[0] in topics))
    chosen = [view.brokers[one] for one in brokers]
    proposed = propose(current, chosen, random.randrange, rack_aware=rack_aware)
    on_their_way = [one for one in current if view.route(one)]
    report.data |= {"current": as_document(current), "proposed": as_document(proposed)}
    report.say(f"Current partition replica assignment\n{write_targets(current)}\n")
    report.say(f"Proposed partition reassignment configuration\n{write_targets(proposed)}")
    if on_their_way:
        text = "being reassigned now; their current assignment is where they came from"
        report.warn(f"{spelt_all(on_their_way)}: {text}")
