"""Where refold's rule is better than Kafka's: each deviation by name, with the defect it mends.

Those that are `always` on hold under `rules = "kafka"` too: without them the cluster would be
harmed, or the daemon could not be its controller at all.
"""

from typing import Final

from msgspec import Struct

from controller.core.configuration import Configuration


class Deviation(Struct, frozen=True, kw_only=True):
    """One rule of refold that is not Kafka's. `source` says where the defect is described."""

    name: str
    defect: str
    rule: str
    source: str
    always: bool = False

    def applies(self, configuration: Configuration) -> bool:
        """Whether this configuration decides by it."""
        return self.always or configuration.rules == "refold"


OWN_ID_REPAIRED: Final = Deviation(
    name="own-id-repaired",
    defect="An auto-created topic may place a replica on the daemon's id, which holds no log.",
    rule="Another live broker takes its place before the partition gets a state; a partition that "
    "has one gets the replicas back that are known. An ISR that names it at a take-over is elected "
    "anew, without it.",
    source="docs/observations.md#the-controller-role; docs/design.md#daemons-id",
    always=True,
)
ROLE_BY_SESSION: Final = Deviation(
    name="role-by-session",
    defect="Kafka takes its own id in /controller for its own role, also when an earlier session "
    "left it: /controller exists and nobody controls.",
    rule="The role is held by the session that owns /controller; what the daemon's own last "
    "session left there is replaced at once, any other of the same id counts as another broker.",
    source="race R3 (KAFKA-14845), race R15 (KAFKA-13407), KB 13.3.4; docs/design.md#terms",
)
EVERY_WRITE_GUARDED: Final = Deviation(
    name="every-write-guarded",
    defect="Kafka writes /feature without a check of the controller epoch: a deposed controller "
    "can overwrite it.",
    rule="It is written with the check of /controller_epoch, as all else.",
    source="KB 1.3, KB 18 point 15",
    always=True,
)
UNREADABLE_SKIPPED: Final = Deviation(
    name="unreadable-skipped",
    defect="One broker registration that cannot be read makes Kafka drop the whole controller "
    "event, or give up the failover.",
    rule="The znode is told with its path and left out; the rest goes on.",
    source="KB 1.2.3, KB 3.1.5",
    always=True,
)

STATE_ADOPTED: Final = Deviation(
    name="state-adopted",
    defect="A partition whose state znode exists when it is found, because its topic could not be "
    "read before, stays without a leader until the next failover.",
    rule="The state that stands there is taken, and a leader elected by it.",
    source="KB 4.3.4",
)
FAILOVER_BACK_OFF: Final = Deviation(
    name="failover-back-off",
    defect="A failover that fails on what stands in ZooKeeper is tried again at once by every "
    "broker in turn: the controller epoch climbs by 15 to 25 a second.",
    rule="After a failed failover the role is free for the others; the daemon stands for it again "
    "a second later.",
    source="KB 6.2, OB-04, OB-05",
)

REQUEST_CHANGES_SEEN: Final = Deviation(
    name="request-changes-seen",
    defect="What is written into /admin/reassign_partitions after it was created is never acted "
    "on, an entry that names a replica twice is never taken out, and after a deletion by hand the "
    "next request is not noticed: the znode stays, and no further request is looked at.",
    rule="Changes of the znode count as its creation does; what is left is written back at the "
    "version that was read.",
    source="race R22 (KAFKA-9478), KB 7.2 step 6, KB 7.6.3",
)
UNREADABLE_REQUEST_KEPT: Final = Deviation(
    name="unreadable-request-kept",
    defect="A reassignment request that cannot be read is ignored, and deleted by the next "
    "reassignment that ends.",
    rule="It is told and left as it is until it is mended or removed.",
    source="OB-03, KB 7.6.2",
)
EMPTY_TARGET_REFUSED: Final = Deviation(
    name="empty-target-refused",
    defect="A reassignment to no replica at all leaves an assignment that fails every failover "
    "that follows.",
    rule="Such a request is refused; one that is found half done is cancelled.",
    source="OB-04, KB 7.9.5",
)
LEADERLESS_ANSWERED: Final = Deviation(
    name="leaderless-answered",
    defect="An election asked for a partition that never had a leader fails as a whole: nobody is "
    "answered, and a request in ZooKeeper stays and fails every failover that follows.",
    rule="That partition is answered as one that no leader is available for; the others go on.",
    source="OB-05, OB-12, KB 3.9 step 5",
)
LEADER_MOVED_FIRST: Final = Deviation(
    name="leader-moved-first",
    defect="A replica that is being added and already leads is dropped when its reassignment is "
    "replaced or cancelled: the partition stays online without a leader. If the controller fails "
    "in between, it stays leader or in sync outside of the assignment.",
    rule="Another replica in sync becomes leader first, one that is not online is waited for; the "
    "assignment is stored when it is dropped. Where nobody else is in sync the request is refused, "
    "as by Kafka's KRaft controller.",
    source="race R24 (KAFKA-14808), OB-06, KB 7.8.4",
)
RESUME_ERRORS_TOLD: Final = Deviation(
    name="resume-errors-told",
    defect="One reassignment that cannot be resumed, because its partition has no state yet or "
    "one that cannot be read, fails every failover that follows and cuts a broker's start short.",
    rule="It is told and left as it stands; the others go on.",
    source="KB 6.2, KB 7.7 A1, race R23 (KAFKA-8249)",
)
DELETION_ENDS_REASSIGNMENT: Final = Deviation(
    name="deletion-ends-reassignment",
    defect="A reassignment of a topic that is being deleted is resumed when a target broker "
    "starts, and its LeaderAndIsr makes the deleted logs anew: these brokers refuse a later topic "
    "of that name. After a failover the deletion waits for a reassignment that cannot end.",
    rule="With its deletion the reassignments of a topic are over: neither resumed nor waited for.",
    source="race R23 (KAFKA-8249), OB-02, KB 8.2.1, KB 9.1",
)
DELETION_MARK_ENDS: Final = Deviation(
    name="deletion-mark-ends",
    defect="A topic that had to wait while it was deleted, because a broker died that had deleted "
    "its replicas already, stays marked as waiting when it is gone: a later topic of that name is "
    "not deleted until one of its brokers restarts.",
    rule="The mark goes with the topic.",
    source="KB 2.2.2, KB 2.2.9, KB 8.6",
)
DELETION_NEEDS_NO_STATE: Final = Deviation(
    name="deletion-needs-no-state",
    defect="A replica of a topic that is being deleted, whose state znode is missing or cannot be "
    "read, or that has no state here as its reassignment failed half way, is never told to delete "
    "its log until the next failover.",
    rule="It goes offline all the same, and is deleted.",
    source="KB 5.2.5, SU-22",
)
ISR_BY_LEADER: Final = Deviation(
    name="isr-by-leader",
    defect="AlterPartition of a follower is accepted and makes it the leader without a new leader "
    "epoch; an ISR without the leader, or with brokers outside the assignment, is accepted too.",
    rule="All are answered with INVALID_REQUEST, as Kafka's KRaft controller does.",
    source="OB-13, race R18, KB 11.2",
)
STANDS_AGAIN_WHEN_FENCED: Final = Deviation(
    name="stands-again-when-fenced",
    defect="When /controller_epoch is changed from outside the controller stays active with the "
    "old epoch, and all that it writes fails from then on.",
    rule="It resigns and takes the role again, with an epoch above its own and the one that stands "
    "there.",
    source="OB-15, KB 13.3.1",
)
BATCH_BEGUN_ANEW: Final = Deviation(
    name="batch-begun-anew",
    defect="A controller that is fenced in the middle of a state change keeps the requests that it "
    "did not send: elected once more in the same process it moves no replica, or no partition, to "
    "another state any more, so that dead brokers stay in ISRs and topics are not deleted.",
    rule="Each batch of requests begins empty.",
    source="KB 12.2.1, ControllerBrokerRequestBatch.newBatch",
)
EMPTY_ASSIGNMENT_REFUSED: Final = Deviation(
    name="empty-assignment-refused",
    defect="CreateTopics with an assignment that names no broker makes partitions without any "
    "replica, which fail the automatic rebalance of leaders from then on.",
    rule="It is answered with INVALID_REPLICA_ASSIGNMENT, as by Kafka's KRaft controller.",
    source="AdminZkClient.validateTopicCreate, KafkaController.checkAndTriggerAutoLeaderRebalance",
)
VALIDATE_ONLY_CHANGES_NOTHING: Final = Deviation(
    name="validate-only-changes-nothing",
    defect="UpdateFeatures with validateOnly (kafka-features --dry-run) changes the features.",
    rule="It is answered in the same way, and nothing is written.",
    source="KafkaController.processFeatureUpdatesWithActiveController, KB 11.9.2",
)
CREATIONS_TOGETHER: Final = Deviation(
    name="creations-together",
    defect="CreateTopics requests that come at once are written one by one, each with round trips "
    "of its own: of many the last ones find their time run out.",
    rule="Those that wait one behind the other, with nothing between them and no topic in common, "
    "are judged in their order and written together; each has its own answer.",
    source="docs/design.md#kafkas-rules-and-better-ones; ZkAdminManager.createTopics",
)
LONG_WORK_INTERRUPTED: Final = Deviation(
    name="long-work-interrupted",
    defect="One controller event is handled from start to end before the next one. A request for "
    "1,000 reassignments keeps a broker's failure waiting: its partitions have no leader then.",
    rule="Between two parts of such work the controller handles the failures, controlled shutdowns "
    "and ISR changes that are queued, in their order. Each part begins with what is known then.",
    source="KB 3.1, KB 7.4",
)
REASSIGNMENTS_TOGETHER: Final = Deviation(
    name="reassignments-together",
    defect="Reassignments that are begun or completed at once are handled one by one, each with "
    "round trips to ZooKeeper and requests to every broker.",
    rule="Up to 100 of them are read, written and sent together, in the order of the steps of one. "
    "A failover raises no leader epoch for those whose brokers its own requests tell all.",
    source="KB 7.4, KB 7.7; docs/observations.md#performance",
)
ORIGINALS_RESTORED_BY_API: Final = Deviation(
    name="originals-restored-by-api",
    defect="A reassignment that is cancelled by AlterPartitionReassignments leaves the original "
    "replicas in another order: another replica becomes the preferred leader.",
    rule="The originals are recorded, whatever the route, and restored in their order by the steps "
    "of a rollback (with kip-236.enable).",
    source="KB 7.8.2",
)
DELETIONS_REMEMBERED: Final = Deviation(
    name="deletions-remembered",
    defect="A replica that is removed from an assignment while its broker is down, or does not "
    "answer, keeps its files: no controller asks for their deletion again.",
    rule="Each removal is recorded in /admin/replica_deletions until the broker has confirmed it, "
    "and is sent again when the broker registers and after a failover (with kip-236.enable).",
    source="KB 7.7.1",
)
ISR_WITHIN_REPLICAS: Final = Deviation(
    name="isr-within-replicas",
    defect="A leader is sent its new replicas while the ISR still has others. It acknowledges "
    "records without these; if the controller fails then, the next one may elect one of them, and "
    "acknowledged records are lost.",
    rule="The write of the new leader epoch removes from the ISR what is no replica any more (with "
    "kip-236.enable).",
    source="KB 7.7 B3, KB 7.8.4, race R18; Partition.maybeIncrementLeaderHW",
)

ALL: Final = (
    OWN_ID_REPAIRED,
    ROLE_BY_SESSION,
    EVERY_WRITE_GUARDED,
    UNREADABLE_SKIPPED,
    STATE_ADOPTED,
    FAILOVER_BACK_OFF,
    REQUEST_CHANGES_SEEN,
    UNREADABLE_REQUEST_KEPT,
    EMPTY_TARGET_REFUSED,
    LEADERLESS_ANSWERED,
    LEADER_MOVED_FIRST,
    RESUME_ERRORS_TOLD,
    DELETION_ENDS_REASSIGNMENT,
    DELETION_MARK_ENDS,
    DELETION_NEEDS_NO_STATE,
    ISR_BY_LEADER,
    STANDS_AGAIN_WHEN_FENCED,
    BATCH_BEGUN_ANEW,
    EMPTY_ASSIGNMENT_REFUSED,
    VALIDATE_ONLY_CHANGES_NOTHING,
    CREATIONS_TOGETHER,
    LONG_WORK_INTERRUPTED,
    REASSIGNMENTS_TOGETHER,
    ORIGINALS_RESTORED_BY_API,
    DELETIONS_REMEMBERED,
    ISR_WITHIN_REPLICAS,
)
