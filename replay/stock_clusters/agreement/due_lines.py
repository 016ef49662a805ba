"""Whether a line that stands behind a write came before it."""

from controller.core import znodes
from replay.stock_clusters.agreement.batches import Decision
from replay.stock_clusters.agreement.index import LoggedOpening
from replay.stock_clusters.agreement.marks import LogMarker


def is_at_same_ms(following: LoggedOpening, decision: Decision) -> bool:
    return following.time_ms <= decision.time_ms


def is_its_write(following: LoggedOpening, decision: Decision) -> bool:
    """Whether the line comes before this write in any case. What leaves no line and waits writes an
    assignment first, and none of a topic that is being deleted."""
    opening = following.opening
    if not is_at_same_ms(following, decision):
        return False
    if opening.event == "PartitionModifications":
        return opening.text.endswith(" being deleted") and _is_about_topics(opening, decision)
    states = {znodes.state_path(*one) for one in opening.partitions}
    return opening.event == "AlterPartitionReceived" and any(
        path in states for path, _ in decision.operations
    )


def are_ids(following: LoggedOpening, decision: Decision) -> bool:
    """Topics get their ids before their line is written."""
    return following.opening.event == "TopicChange" and _is_about_topics(
        following.opening, decision
    )


def _is_about_topics(opening: LogMarker, decision: Decision) -> bool:
    """Whether a decision writes the znode of a topic that a line names."""
    topics = {znodes.topic_path(one) for one in opening.topics}
    return any(path in topics for path, _ in decision.operations)
