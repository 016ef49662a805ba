"""Lines of controller.log that do not begin another controller event."""

from replay.agreement.logs.markers import LogMarker
from replay.agreement.trace.pending_events import PendingEvents
from replay.agreement.trace.shadow_fold import ShadowFold


def take_within_event(
    marker: LogMarker, fold: ShadowFold, pending: PendingEvents, *, has_failed: bool
) -> bool:
    """Take a line that can come from the middle of the event in progress. Returns whether it does.
    `has_failed`: the last failover failed."""
    if marker.event == "ReplicaLeaderElection":
        is_of_failover = fold.is_failing_over and marker.text.endswith("ZkTriggered")
        return is_of_failover or marker.text.endswith("AutoTriggered")
    if marker.event == "Resignation" and has_failed and fold.is_failing_over:
        # The controller resigns first, and deletes /controller later.
        return True
    if marker.event == "AlterPartitionReceived" and "Ignoring" in marker.text:
        pending.drop_ignored()
        return True
    if pending.has_debug and not marker.is_first:
        return True
    if marker.event == "TopicDeletion":
        return fold.is_running and fold.cause == marker.event
    if marker.event not in ("PartitionReassignment", "PartitionReassignmentIsrChange"):
        return False
    fold.answer_all()
    return fold.is_running
