"""Where refold decides differently from Kafka on purpose: each deviation with the defect it fixes.

Deviations that are `always` on also apply under `rules = "kafka"`. Without them the daemon would
harm the cluster, or could not be its controller.
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
        """Whether decisions under this configuration follow the deviation, if Kafka's rule exists
        as well."""
        assert not self.always, f"{self.name} has no rule of Kafka as alternative"
        return configuration.rules == "refold"


DAEMON_ID_REPAIRED: Final = Deviation(
    name="daemon-id-repaired",
    defect="When a broker creates a topic automatically, it may place a replica on the daemon's "
    "id, which holds no logs.",
    rule="Another live broker takes the place of the daemon's id before the partition gets a "
    "state. A partition with a state gets its known replicas back. If an ISR contains the id at a "
    "take-over, a leader is elected without it. An ISR does not shrink to the id alone.",
    source="docs/observations.md#the-controller-role; docs/design.md#daemons-id",
    always=True,
)
ROLE_BY_SESSION: Final = Deviation(
    name="role-by-session",
    defect="If a broker finds its id in /controller, Kafka assumes that the broker is controller, "
    "even if an earlier session created the znode. Then /controller exists and no broker is "
    "controller.",
    rule="The session that owns /controller is controller. The daemon replaces a /controller that "
    "its previous session created. Any other session with the same id counts as another broker.",
    source="race R3 (KAFKA-14845), race R15 (KAFKA-13407), KB 13.3.4; docs/design.md#terms",
)
VACANT_ROLE_SEEN: Final = Deviation(
    name="vacant-role-seen",
    defect="On ZooKeeper before 3.6, watches fire once. A controller's own creation of /controller "
    "uses up its watch. If the znode is deleted before the controller reads it again, no event "
    "reports the deletion. Kafka's controller then resigns, and no broker is elected.",
    rule="If a controller reads /controller after a change, and the znode does not exist, the "
    "controller runs for election, as after a deletion.",
    source="KB 3.2.2, KB 13.3.6, refold explore",
)
EVERY_WRITE_GUARDED: Final = Deviation(
    name="every-write-guarded",
    defect="Kafka writes /feature without a check of the controller epoch, so a deposed "
    "controller can overwrite it.",
    rule="The write of /feature checks /controller_epoch, as all others do.",
    source="KB 1.3, KB 18 point 15",
    always=True,
)
UNREADABLE_SKIPPED: Final = Deviation(
    name="unreadable-skipped",
    defect="If one broker registration cannot be read, Kafka drops the whole controller event or "
    "gives up the failover.",
    rule="A registration that cannot be read is logged and skipped.",
    source="KB 1.2.3, KB 3.1.5",
    always=True,
)

STATE_ADOPTED: Final = Deviation(
    name="state-adopted",
    defect="If a topic could not be read before and its partition already has a state znode, the "
    "partition has no leader until the next failover.",
    rule="A state znode that exists already is used, and a leader is elected from it.",
    source="KB 4.3.4",
)
FAILOVER_BACK_OFF: Final = Deviation(
    name="failover-back-off",
    defect="If a failover fails because of content in ZooKeeper, every broker in turn tries it "
    "again at once. The controller epoch rises by 15 to 25 per second.",
    rule="After a failed failover other brokers can take the role. The daemon tries again one "
    "second later.",
    source="KB 6.2, OB-04, OB-05",
)

RESTARTS_SEEN_AT_FAILOVER: Final = Deviation(
    name="restarts-seen-at-failover",
    defect="A controller treats a broker that registers again as failed and started. A failover "
    "does not notice it: a leader that has lost records in a crash continues with its leader "
    "epoch. Its followers do not truncate, and the replicas differ.",
    rule="A failover removes brokers from the ISR that registered after the state was written, and "
    "elects another leader. If no other replica in sync is alive, the leader continues with a new "
    "leader epoch. It does not matter how long ago the brokers registered. So the first failover "
    "after a stock controller can write the states of many partitions. A broker whose session "
    "ended, but not its process, is removed as well, if its leader had written the state before "
    "the broker registered again. If the machine of the leader fails at the same moment and loses "
    "data, the ISR no longer has that broker.",
    source="KB 3.3.5, KB 12.4.2, refold explore",
)

REQUEST_CHANGES_SEEN: Final = Deviation(
    name="request-changes-seen",
    defect="Changes of /admin/reassign_partitions after its creation are ignored. An entry with a "
    "duplicate replica is never removed. After an operator deletes the znode, the next request is "
    "not noticed. The znode stays, and no further request is handled.",
    rule="A change of /admin/reassign_partitions is handled like its creation. The remaining "
    "entries are written back with the version that was read.",
    source="race R22 (KAFKA-9478), KB 7.2 step 6, KB 7.6.3",
)
UNREADABLE_REQUEST_KEPT: Final = Deviation(
    name="unreadable-request-kept",
    defect="A reassignment request that cannot be read is ignored, and deleted when the next "
    "reassignment completes.",
    rule="A reassignment request that cannot be read is logged, and kept until an operator "
    "repairs or deletes it.",
    source="OB-03, KB 7.6.2",
)
TOPIC_ID_RESTORED: Final = Deviation(
    name="topic-id-restored",
    defect="A tool that does not know topic ids writes a topic's znode without the id. The next "
    "controller draws another id, and brokers reject the requests for that topic.",
    rule="The controller writes the known id into the topic's znode again.",
    source="race R29 (KAFKA-14190), KB 3.6.1, KB 6.3 step 4",
)
ADDED_PARTITIONS_KEPT: Final = Deviation(
    name="added-partitions-kept",
    defect="Kafka writes a topic's znode without its version. If a tool adds partitions by writing "
    "the znode at the same moment, as kafka-topics --zookeeper does, the partitions are lost.",
    rule="The controller writes a topic's znode with the version that it last read. If another "
    "client has written the znode since, the controller reads it again, creates the added "
    "partitions as a topic change does, and writes its assignments together with theirs.",
    source="KB 1.3, KB 3.6.1, KB 7.7 U1, KB 7.7 B6",
)
EMPTY_TARGET_REFUSED: Final = Deviation(
    name="empty-target-refused",
    defect="A reassignment to an empty replica list leaves an assignment that makes every later "
    "failover fail.",
    rule="A reassignment to an empty replica list is rejected. If the controller finds a request "
    "that is half done, it cancels the reassignment.",
    source="OB-04, KB 7.9.5",
)
LEADERLESS_REPORTED: Final = Deviation(
    name="leaderless-reported",
    defect="If an election is requested for a partition that never had a leader, the whole "
    "request fails. An API client gets no response. A request in ZooKeeper stays, and makes every "
    "later failover fail.",
    rule="The response for a partition that never had a leader says that no leader is available; "
    "the others are elected.",
    source="OB-05, OB-12, KB 3.9 step 5",
)
LEADER_MOVED_FIRST: Final = Deviation(
    name="leader-moved-first",
    defect="If a replica that is being added is already the leader, and its reassignment is "
    "replaced or cancelled, Kafka removes it. The partition then stays online without a leader. "
    "If the controller fails in between, the replica stays leader or in sync outside of the "
    "assignment.",
    rule="Before a reassignment removes the leader, another replica in sync becomes leader; if "
    "that replica is not online, the controller waits for it. The assignment is stored when the "
    "replica is removed. If no other replica is in sync, the request is rejected, as by Kafka's "
    "KRaft controller.",
    source="race R24 (KAFKA-14808), OB-06, KB 7.8.4",
)
RESUME_ERRORS_REPORTED: Final = Deviation(
    name="resume-errors-reported",
    defect="If a partition has no state yet or its state cannot be read, its reassignment cannot "
    "be resumed. Then every later failover fails, and the handling of a broker's start stops "
    "early.",
    rule="A reassignment that cannot be resumed is logged and left unchanged, and the others "
    "continue.",
    source="KB 6.2, KB 7.7 A1, race R23 (KAFKA-8249)",
)
DELETION_ENDS_REASSIGNMENT: Final = Deviation(
    name="deletion-ends-reassignment",
    defect="A reassignment of a topic that is being deleted is resumed when a target broker "
    "starts. Its LeaderAndIsr request creates the deleted logs again, and these brokers reject a "
    "later topic of that name. After a failover the deletion waits for a reassignment that "
    "cannot end.",
    rule="The deletion of a topic ends its reassignments: they are neither resumed nor waited for.",
    source="race R23 (KAFKA-8249), OB-02, KB 8.2.1, KB 9.1",
)
DELETION_MARK_ENDS: Final = Deviation(
    name="deletion-mark-ends",
    defect="If a deletion had to wait because a broker died after it had deleted its replicas, "
    "the deleted topic stays marked as waiting. A later topic of that name is not deleted until "
    "one of its brokers restarts.",
    rule="The mark of a deletion that had to wait is removed with the topic.",
    source="KB 2.2.2, KB 2.2.9, KB 8.6",
)
NEW_TOPICS_DELETED: Final = Deviation(
    name="new-topics-deleted",
    defect="A topic is created and marked for deletion while the change of another marker is in "
    "the queue. Kafka reads the new marker first, takes the topic for one that does not exist, and "
    "removes the marker. The topic stays.",
    rule="While a change of the topics is in the queue, a marker of an unknown topic is kept, and "
    "read again after that change.",
    source="KB 8.2.1, refold explore",
)
DELETION_NEEDS_NO_STATE: Final = Deviation(
    name="deletion-needs-no-state",
    defect="A topic is being deleted, and a replica's state is missing, cannot be read, or was "
    "never loaded because its reassignment failed half way. Then the broker is not asked to "
    "delete the log until the next failover. A new replica on a broker that is not alive may not "
    "become ineligible for deletion, and stays new.",
    rule="A replica of a topic that is being deleted goes offline also without a state, and is "
    "deleted.",
    source="KB 5.2.5, SU-22",
)
DELETIONS_OF_THIS_TERM: Final = Deviation(
    name="deletions-of-this-term",
    defect="A controller loses the role and takes it again at once. A queued response to a "
    "deletion of its earlier term then counts for the new term, in which brokers have created the "
    "logs again. The topic's znodes are deleted, although a broker still has its logs. The same "
    "happens if a reassignment deletes a replica, another one creates it again, and the topic is "
    "deleted before the broker responds.",
    rule="Only responses to requests of this term confirm deletions of a topic's replicas, and "
    "only if no later request to delete the replica waits for its response.",
    source="race R8, KB 8.2.2, refold explore",
)
ISR_BY_LEADER: Final = Deviation(
    name="isr-by-leader",
    defect="Kafka accepts AlterPartition from a follower and makes it the leader without a new "
    "leader epoch. It also accepts an ISR without the leader, or with brokers outside the "
    "assignment.",
    rule="An ISR that a follower asks for, that lacks the leader, or that has other brokers than "
    "the replicas is answered with INVALID_REQUEST, as by Kafka's KRaft controller.",
    source="OB-13, race R18, KB 11.2",
)
RESIGNS_WHEN_FENCED: Final = Deviation(
    name="resigns-when-fenced",
    defect="If another process changes /controller_epoch, the controller stays active with the "
    "old epoch, and all its later writes fail.",
    rule="If another process changes /controller_epoch, the daemon resigns and takes the role "
    "again, with an epoch above its own and the stored one.",
    source="OB-15, KB 13.3.1",
)
BATCH_BEGINS_EMPTY: Final = Deviation(
    name="batch-begins-empty",
    defect="A controller that is fenced in the middle of a state change keeps the requests that "
    "it did not send. If it is elected again in the same process, it no longer changes states of "
    "replicas and partitions: dead brokers stay in ISRs, and topics are not deleted.",
    rule="Each batch of requests begins empty.",
    source="KB 12.2.1, ControllerBrokerRequestBatch.newBatch",
)
EMPTY_ASSIGNMENT_REFUSED: Final = Deviation(
    name="empty-assignment-refused",
    defect="CreateTopics with an assignment without brokers creates partitions without replicas, "
    "and from then on the automatic leader rebalance fails.",
    rule="CreateTopics with an assignment without brokers is answered with "
    "INVALID_REPLICA_ASSIGNMENT, as by Kafka's KRaft controller.",
    source="AdminZkClient.validateTopicCreate, KafkaController.checkAndTriggerAutoLeaderRebalance",
)
VALIDATE_ONLY_CHANGES_NOTHING: Final = Deviation(
    name="validate-only-changes-nothing",
    defect="UpdateFeatures with validateOnly (kafka-features --dry-run) changes the features.",
    rule="UpdateFeatures with validateOnly writes nothing; the response is the same.",
    source="KafkaController.processFeatureUpdatesWithActiveController, KB 11.9.2",
)
CREATIONS_TOGETHER: Final = Deviation(
    name="creations-together",
    defect="CreateTopics requests that arrive together are written one by one, each with its own "
    "round trips. Of many requests, the last ones time out.",
    rule="Consecutive waiting CreateTopics requests without a common topic are validated in "
    "their order and written together. Each gets its own response.",
    source="docs/design.md#kafkas-rules-and-better-ones; ZkAdminManager.createTopics",
)
LONG_WORK_INTERRUPTED: Final = Deviation(
    name="long-work-interrupted",
    defect="Each controller event is processed to its end before the next one. A request for "
    "1,000 reassignments delays the handling of a broker failure, and its partitions have no "
    "leader meanwhile.",
    rule="Between two parts of long work, the controller processes queued broker failures, "
    "controlled shutdowns and ISR changes, in their order. Each part begins with the current "
    "state. A failover with more than 100 recorded reassignments processes them as soon as the "
    "brokers are informed and the records are read.",
    source="KB 3.1, KB 7.4",
)
REASSIGNMENTS_TOGETHER: Final = Deviation(
    name="reassignments-together",
    defect="Reassignments that begin or complete together are processed one by one. Each needs "
    "its own round trips to ZooKeeper and its own requests to every broker.",
    rule="Up to 100 reassignments are read, written and sent together, in the order of the steps "
    "of one. A failover does not increase the leader epoch of a reassignment if its own requests "
    "reach all brokers concerned.",
    source="KB 7.4, KB 7.7; docs/observations.md#performance",
)
ORIGINALS_RESTORED_BY_API: Final = Deviation(
    name="originals-restored-by-api",
    defect="If a reassignment is cancelled by AlterPartitionReassignments, the original replicas "
    "are restored in another order, so another replica becomes the preferred leader. All other "
    "replicas are removed at once. The replicas in sync that are left may be fewer than "
    "min.insync.replicas.",
    rule="The original replicas are recorded for every route, and are restored in their order by "
    "the steps of a rollback. That also counts for a request whose target is the original "
    "replicas. If a rollback would have to wait for original replicas, the request is rejected "
    "with INVALID_REPLICA_ASSIGNMENT (with kip-236.enable).",
    source="KB 7.8.2",
)
DELETIONS_REMEMBERED: Final = Deviation(
    name="deletions-remembered",
    defect="If a replica is removed from an assignment while its broker is down or does not "
    "respond, its files stay on the disk. No controller requests their deletion again.",
    rule="Each removal is recorded in /admin/replica_deletions until the broker has confirmed "
    "it. The controller requests it again when the broker registers and after a failover (with "
    "kip-236.enable). If the topic is deleted and created again meanwhile, the broker rejects its "
    "new replica as long as it has the old log. The controller then has the old log deleted.",
    source="KB 7.7.1",
)
ISR_WITHIN_REPLICAS: Final = Deviation(
    name="isr-within-replicas",
    defect="A leader receives its new replicas while the ISR still has other brokers, and "
    "acknowledges records that those brokers do not have. If the controller then fails, the next "
    "controller may elect one of those brokers, and acknowledged records are lost.",
    rule="The write of the new leader epoch removes from the ISR brokers that are no longer "
    "replicas.",
    source="KB 7.7 B3, KB 7.8.4, race R18, refold explore; Partition.maybeIncrementLeaderHW",
)
ADDED_WITHOUT_STATE: Final = Deviation(
    name="added-without-state",
    defect="A reassignment of a partition that has no state yet, because no replica has ever been "
    "live, leaves the added replicas without a state in the controller. When they start, they "
    "join the ISR. A later reassignment does not delete them from their brokers.",
    rule="The replicas that are added to a partition without a state become new at once, as "
    "those of a topic that is created. They are online when their brokers register.",
    source="KB 7.7 A1, A2",
)

ALL: Final = tuple(one for one in tuple(globals().values()) if isinstance(one, Deviation))
"""All of this module, in its order."""
